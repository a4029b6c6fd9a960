package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

// names of columns of a node type.
func columnNames(n graph.NodeType) string {
	var list []string
	for _, c := range n.Columns {
		list = append(list, c.Name)
	}
	return strings.Join(list, " ")
}

// noted returns the notes of a change, "CHANGE COUNT NAME: TEXT", a line each.
func noted(res *Result, change string) string {
	var list []string
	for _, n := range res.Notes {
		if n.Change == change {
			list = append(list, fmt.Sprintf("%s %d %s: %s", n.Change, n.Count, n.Name, n.Text))
		}
	}
	return strings.Join(list, "\n")
}

// TestArraysThatMayBeFeaturesOrLabelsAreNamed converts arrays of names that say nothing.
func TestArraysThatMayBeFeaturesOrLabelsAreNamed(t *testing.T) {
	arrays := map[string]any{"edge_index": append(ring(5, 0), [2]int64{0, 2}), "target": []int64{0, 1, 0, 1, 0},
		"feats": [][2]int64{{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 1}}}
	path := write(t, "x.npz", string(archive(t, arrays)))
	res, ds := convert(t, path, Options{})
	said := noted(res, source.Guessed)
	expect.That(t, strings.Contains(said, `leave out "feats": name one that is meant by Feature`) &&
		strings.Contains(said, `leave out "target": name one that is meant by Label`), "%s", said)
	expect.That(t, columnNames(ds.Graph().Schema().Nodes[0]) == "feats target", "%+v", ds.Graph().Schema().Nodes[0])
	_, err := Run(context.Background(), path, filepath.Join(t.TempDir(), "x"), Options{Strict: true})
	expect.That(t, errors.Is(err, ErrStrict), "strict: %v", err)

	res, ds = convert(t, path, Options{Strict: true, Feature: "feats", Label: "target"})
	expect.That(t, columnNames(ds.Graph().Schema().Nodes[0]) == "feature label" && res.FeatureDim == 2 &&
		res.Classes == 2, "%+v, %+v", res, ds.Graph().Schema().Nodes[0])
	_, ds = convert(t, path, Options{Strict: true, Keep: []string{"feats", "target"}})
	expect.That(t, columnNames(ds.Graph().Schema().Nodes[0]) == "feats target", "%+v", ds.Graph().Schema().Nodes[0])
	_, err = Run(context.Background(), path, filepath.Join(t.TempDir(), "x"), Options{Feature: "nothing"})
	expect.That(t, errors.Is(err, ErrOptions), "no such column: %v", err)
}

// graphBolt writes a folder of GraphBolt with columns of nodes.
func graphBolt(t *testing.T, columns ...string) string {
	list := map[string]string{"edges.csv": ""}
	text := "dataset_name: x\ngraph:\n  nodes:\n  - num: 5\n  edges:\n  - format: csv\n    path: edges.csv\n" +
		"feature_data:\n"
	for _, e := range ring(5, 0) {
		list["edges.csv"] += fmt.Sprintf("%d,%d\n", e[0], e[1])
	}
	for k, name := range columns {
		text += fmt.Sprintf("- domain: node\n  name: %s\n  format: numpy\n  path: %d.npy\n", name, k)
		list[fmt.Sprint(k, ".npy")] = string(expect.NPY(make([]float32, 10), 5, 2))
	}
	list["metadata.yaml"] = text
	return files(t, list)
}

// TestDeclaredColumnsKeepTheirNames converts folders of GraphBolt, whose metadata names the columns.
func TestDeclaredColumnsKeepTheirNames(t *testing.T) {
	res, ds := convert(t, graphBolt(t, "feat", "x", "other"), Options{})
	names := columnNames(ds.Graph().Schema().Nodes[0])
	expect.That(t, names == "feature other x", "%s", names)
	said := noted(res, source.Said)
	expect.That(t, strings.Contains(said, `said 1 feat: nodes "node": "feat" is stored as "feature"`), "%s", said)
	guessed := noted(res, source.Guessed)
	expect.That(t, strings.Contains(guessed, `"x" keeps its name, for another column is "feature"`), "%s", guessed)
	dir := graphBolt(t, "feat")
	_, err := Run(context.Background(), dir, filepath.Join(t.TempDir(), "x"), Options{Strict: true})
	expect.OK(t, err)
}

// flags writes rows of a table "items" as Arrow: keys from first on, truths, and numbers of float64.
func flags(t *testing.T, first int64, truths []bool, numbers []float64) string {
	t.Helper()
	columns := arrow.NewSchema([]arrow.Field{{Name: "item", Type: arrow.PrimitiveTypes.Int64},
		{Name: "flag", Type: arrow.FixedWidthTypes.Boolean}, {Name: "kind", Type: arrow.PrimitiveTypes.Float64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, columns)
	for i, v := range truths {
		b.Field(0).(*array.Int64Builder).Append(first + int64(i))
		b.Field(1).(*array.BooleanBuilder).Append(v)
		b.Field(2).(*array.Float64Builder).Append(numbers[i])
	}
	path := filepath.Join(t.TempDir(), "items.arrow")
	f := expect.Must(os.Create(path))(t)
	w := expect.Must(ipc.NewFileWriter(f, ipc.WithSchema(columns)))(t)
	expect.OK(t, w.Write(b.NewRecord()), w.Close(), f.Close())
	return path
}

// TestAValueHasOneNameAsACategory adds rows of Arrow to tables that came as CSV, and the other way round.
func TestAValueHasOneNameAsACategory(t *testing.T) {
	csv := func(first int, truths ...string) string {
		text := "item,flag,kind\n"
		for i, v := range truths {
			text += fmt.Sprintf("%d,%s,%d\n", first+i, v, 2000000+i%2)
		}
		return text
	}
	truths, numbers := []bool{true, false, true}, []float64{2000000, 2000001, 2000000}
	for _, c := range []struct{ data, rows, want string }{
		{csv(0, "true", "false", "true"), "", `["true" "false"] ["2000000" "2000001"]`},
		{csv(0, "True", "False", "True"), "", `["true" "false"] ["2000000" "2000001"]`},
		{csv(0, "1", "0", "1"), "", `["1" "0"] ["2000000" "2000001"]`},
		{"", csv(3, "true", "false", "true"), `["true" "false"] ["2000000" "2000001"]`},
	} {
		dir := files(t, map[string]string{"manifest.yaml": "tables:\n  items: {pkey: item, kinds: " +
			"{flag: categorical, kind: categorical}}\n  orders: {fkeys: {item: items}}\n",
			"orders.csv": "item,n\n0,1\n1,2\n"})
		table, data, rows := "items.csv", c.data, ""
		if data == "" {
			table, data = "items.arrow", string(expect.Must(os.ReadFile(flags(t, 0, truths, numbers)))(t))
			rows = write(t, "rows.csv", c.rows)
		} else {
			rows = flags(t, 3, truths, numbers)
		}
		put(t, dir, map[string]string{table: data})
		_, ds := convert(t, dir, Options{})
		path := ds.Path()
		_, err := Add(context.Background(), path, AddOptions{Rows: []Addition{{Name: "items", Path: rows}}})
		expect.Ensure(t, err == nil, "%s: %v", c.data, err)
		ds = expect.Must(formats.Open(path))(t)
		got := ""
		for _, name := range []string{"flag", "kind"} {
			got += fmt.Sprintf(" %q", strs(ds, ds.Graph().Schema().NodeType("items"), name))
		}
		expect.That(t, got[1:] == c.want, "%q: %s; want %s", c.data, got[1:], c.want)
		expect.OK(t, ds.Close())
	}
}

// TestMissingCellsOfNewRowsAreMissing adds rows of a CSV in which a cell stands for a missing value.
func TestMissingCellsOfNewRowsAreMissing(t *testing.T) {
	data := shop(t, Options{})
	rows := rowsOf(t, `users: user,age,plan/cid,NULL,NULL`)
	_, err := Add(context.Background(), data, rows)
	expect.That(t, err != nil && strings.Contains(err.Error(), "is text, which cannot be numerical"), "%v", err)
	rows.Null = []string{"NULL"}
	expect.Must(Add(context.Background(), data, rows))(t)
	ds := expect.Must(formats.Open(data))(t)
	list := expect.Must(ds.Strings(ds.Graph().Schema().NodeType("users"), "plan"))(t)
	expect.That(t, list.Len() == 2, "%d categories", list.Len())
	expect.OK(t, ds.Close())
}
