package convert

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// moreOf draws a source that has one thing more than khop stores, or that khop stores otherwise; "" in what: none.
type moreOf func(t *testing.T, r *rand.Rand, n int64) *odd

// null draws what programs write for a missing value.
func null(r *rand.Rand) string { return []string{`\N`, "NULL", "NA", "None"}[r.IntN(4)] }

// chain returns n-1 edges between n nodes, so that arrays of both are told apart.
func chain(n int64) [][2]int64 { return ring(n, 0)[:n-1] }

// moreOfText draws an edge list.
func moreOfText(t *testing.T, r *rand.Rand, n int64) *odd {
	o, rows := &odd{}, [][]string{{"src", "dst", "w"}}
	for i, e := range chain(n) {
		rows = append(rows, []string{fmt.Sprint(e[0]), fmt.Sprint(e[1]), fmt.Sprint(i)})
	}
	at, cell := 1+r.IntN(len(rows)-1), null(r)
	each := func(name, value string) {
		for i := range rows {
			rows[i] = append(rows[i], map[bool]string{true: name, false: value}[i == 0])
		}
	}
	switch r.IntN(7) {
	case 0:
		each("more", "1")
		o.opt.Columns = []string{"src", "dst", "w"}
		o.has("a field behind --columns", source.LeftOut, "edges", 1, "names 3 of 4 fields")
	case 1:
		each("", "1")
		o.has("a field without a name", source.LeftOut, "edges", 1, "field 4 has no name")
	case 2:
		each("a;b", "1")
		o.has("a name with a sign", source.Renamed, "a_b", 1, `"a;b", is stored as "a_b"`)
	case 3:
		each("w", "1")
		o.has("a name that is there twice", source.Renamed, "w_", 1, `is stored as "w_"`)
	case 4:
		rows[at][2] = cell
		o.has("a missing field", source.LeftOut, "w", n-1, "takes it for a missing value")
	case 5:
		rows[0] = []string{"user_id", "movie_id", "w"}
		o.has("ends of two kinds", source.Guessed, "edges", 1, "share one space of ids")
	}
	text := ""
	for _, row := range rows {
		text += strings.Join(row, ",") + "\n"
	}
	o.path = write(t, "e.csv", text)
	return o
}

// moreOfNames draws an edge list of names, of which the first line may be one of fields.
func moreOfNames(t *testing.T, r *rand.Rand, n int64) *odd {
	o, head := &odd{opt: Options{IDs: "names"}}, "src,dst"
	if r.IntN(2) == 0 {
		head = []string{"user_id,item_id", "userId,movieId", "user,item"}[r.IntN(3)]
		o.has("names of fields over names", source.Guessed, "edges", 1, "is taken for the names of the fields")
		_, dst, _ := strings.Cut(head, ",")
		o.has("ends of two kinds", source.Guessed, "edges", 1, fmt.Sprintf("%q share one space", dst))
	}
	text := head + "\n"
	for _, e := range ring(n, 0) {
		text += fmt.Sprintf("n%d,n%d\n", e[0], e[1])
	}
	o.path = write(t, "e.csv", text)
	return o
}

// moreOfArrays draws an archive of arrays, or a folder of them.
func moreOfArrays(t *testing.T, r *rand.Rand, n int64) *odd {
	o := &odd{}
	rows := make([][2]int64, n)
	arrays := map[string]any{"edge_index": chain(n), "x": rows, "y": make([]int64, n)}
	switch r.IntN(6) {
	case 0:
		arrays["more"] = make([]int64, n+5)
		o.has("an array of another length", source.LeftOut, "arrays", 1, "more (<i8")
	case 1:
		delete(arrays, "x")
		arrays["feats"] = rows
		o.has("features of another name", source.Guessed, "feature", 1, `leave out "feats"`)
	case 2:
		delete(arrays, "y")
		arrays["target"], arrays["age"] = make([]int64, n), make([]int64, n)
		o.has("labels of another name", source.Guessed, "label", 2, `leave out "age", "target"`)
	case 3:
		arrays["feat"] = rows
		o.has("features twice", source.Guessed, "x", 1, `"x" keeps its name`)
	case 4:
		weights := make([]int64, n-1)
		weights[r.IntN(len(weights))] = -1
		arrays["edge_weight"] = weights
		o.has("a weight below 0", source.Renamed, "edge_weight", 1, `is stored as "value"`)
	}
	if r.IntN(2) == 0 {
		o.path = write(t, "x.npz", string(archive(t, arrays)))
		return o
	}
	list := map[string]string{}
	for name, v := range arrays {
		switch v := v.(type) {
		case [][2]int64:
			flat := []int64{}
			for _, p := range v {
				flat = append(flat, p[0], p[1])
			}
			list[name+".npy"] = string(expect.NPY(flat, len(v), 2))
		default:
			list[name+".npy"] = string(expect.NPY(v))
		}
	}
	o.path = files(t, list)
	return o
}

// moreOfGraphBolt draws a folder of GraphBolt.
func moreOfGraphBolt(t *testing.T, r *rand.Rand, _ int64) *odd {
	o, columns := &odd{}, []string{"feat", "more"}
	switch r.IntN(3) {
	case 0:
		columns = append(columns, "x")
		o.has("a declared x beside feat", source.Guessed, "x", 1, `"x" keeps its name`)
	case 1:
		o.path = graphBolt(t, columns...)
		text := expect.Must(os.ReadFile(filepath.Join(o.path, "metadata.yaml")))(t)
		put(t, o.path, map[string][]byte{"metadata.yaml": append(text,
			"- domain: graph\n  name: all\n  format: numpy\n  path: 0.npy\n"...)})
		o.has("a feature of the graph", source.LeftOut, "all", 1, `"all" of the domain "graph" is not stored`)
		return o
	}
	o.path = graphBolt(t, columns...)
	return o
}

// moreOfTables draws tables of CSV with a mapping.
func moreOfTables(t *testing.T, r *rand.Rand, n int64) *odd {
	o, head, nodes, at := &odd{}, "id,age", "", r.Int64N(n)
	mapping, edges, kind := "nodes: {n: {file: n.csv, columns: [age]}}\nedges: {e: {file: e.csv}}\n", "src,dst,w\n",
		r.IntN(6)
	cell, value := null(r), func(i int64) string { return fmt.Sprint(i * 3) }
	switch kind {
	case 0:
		value = func(i int64) string { return map[bool]string{true: cell, false: fmt.Sprint(i)}[i == at] }
		o.has("a missing cell among numbers", source.Guessed, "age", 1, "1 of "+fmt.Sprint(n)+" cells are unlike")
	case 1:
		value = func(i int64) string { return map[bool]string{true: "old", false: fmt.Sprint(i)}[i == at] }
		o.has("a word among numbers", source.Guessed, "age", 1, `such as "old"`)
	case 2:
		head, mapping = "id,age,word", strings.Replace(mapping, ", columns: [age]", "", 1)
		value = func(i int64) string { return fmt.Sprint(i, ",w") }
		o.has("a column of words", source.LeftOut, "n.csv", 1, "word (text)")
	case 3:
		edges = "src,dst,time\n"
		mapping = strings.Replace(mapping, "file: e.csv", "file: e.csv, time: dst", 1)
		o.has("a column of a taken name", source.LeftOut, "time", 1, "another has its name")
	case 4:
		value = func(i int64) string { return map[bool]string{true: cell, false: fmt.Sprint(i)}[i == at] }
		o.opt.Null = []string{cell} // so it is no fault
	}
	for i := range n {
		nodes += fmt.Sprintf("%d,%s\n", i, value(i))
	}
	for _, e := range chain(n) {
		edges += fmt.Sprintf("%d,%d,1\n", e[0], e[1])
	}
	o.path = filepath.Join(files(t, map[string]string{"n.csv": head + "\n" + nodes, "e.csv": edges, "m.yaml": mapping}),
		"m.yaml")
	return o
}

// moreOfArrow draws a table of edges of Arrow with a column more.
func moreOfArrow(t *testing.T, r *rand.Rand, n int64) *odd {
	o, name := &odd{}, fmt.Sprintf("c%d", r.IntN(100))
	types := []arrow.DataType{&arrow.FixedSizeBinaryType{ByteWidth: 3}, &arrow.Decimal128Type{Precision: 38, Scale: 2},
		arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64}), arrow.BinaryTypes.String,
		arrow.PrimitiveTypes.Int64, &arrow.Decimal128Type{Precision: 9, Scale: 2}}
	kind := r.IntN(len(types))
	columns := arrow.NewSchema([]arrow.Field{{Name: "src", Type: arrow.PrimitiveTypes.Int64},
		{Name: "dst", Type: arrow.PrimitiveTypes.Int64}, {Name: name, Type: types[kind]}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, columns)
	for _, e := range chain(n) {
		b.Field(0).(*array.Int64Builder).Append(e[0])
		b.Field(1).(*array.Int64Builder).Append(e[1])
		switch c := b.Field(2).(type) {
		case *array.FixedSizeBinaryBuilder:
			c.Append([]byte("abc"))
		case *array.Decimal128Builder:
			c.Append(decimal128.New(map[bool]int64{true: 1, false: 0}[kind == 1], 12345))
		case *array.StructBuilder:
			c.Append(true)
			c.FieldBuilder(0).(*array.Int64Builder).Append(1)
		case *array.StringBuilder:
			c.Append("w")
		case *array.Int64Builder:
			c.Append(1)
		}
	}
	switch kind {
	case 0, 2, 3:
		o.has([]string{"bytes", "", "records", "text"}[kind], source.LeftOut, "e.arrow", 1, name+" (")
	case 1:
		o.has("decimals of many digits", source.Altered, name, n-1, "more digits than float64 holds")
	}
	o.path = filepath.Join(t.TempDir(), "e.arrow")
	f := expect.Must(os.Create(o.path))(t)
	w := expect.Must(ipc.NewFileWriter(f, ipc.WithSchema(columns)))(t)
	expect.OK(t, w.Write(b.NewRecord()), w.Close(), f.Close())
	return o
}

// moreOfDatabases draws a database.
func moreOfDatabases(t *testing.T, r *rand.Rand, n int64) *odd {
	o, at, times := &odd{}, r.Int64N(n), int64(1_700_000_000)
	users := "user,age\n"
	cell := func(i int64) string { return fmt.Sprint(i) }
	kinds := "age: numerical"
	switch r.IntN(5) {
	case 0:
		missing := null(r)
		cell, kinds = func(i int64) string { return map[bool]string{true: missing, false: fmt.Sprint(i)}[i == at] }, ""
		o.has("a missing cell of a database", source.Guessed, "age", 1, "takes it for a missing value")
	case 1:
		times *= 1000
		o.has("milliseconds as seconds", source.Guessed, "at", n, "after the year 2200")
	case 2:
		cell = func(i int64) string { return fmt.Sprint(map[bool]int64{true: 1<<24 + 1, false: i}[i == at]) }
		o.has("a number that float32 rounds", source.Altered, "age", 1, "float32 does not hold")
	case 3:
		users, kinds = "user,categorical\n", "categorical: text"
		cell = func(i int64) string { return fmt.Sprintf("w %d", i) }
		o.has("a name that a kind has", source.Renamed, "categorical", 1, `is stored as "categorical_"`)
	}
	orders := "user,at\n"
	for i := range n {
		users += fmt.Sprintf("%d,%s\n", i, cell(i))
		orders += fmt.Sprintf("%d,%d\n", i, times+i)
	}
	o.path = files(t, map[string]string{"users.csv": users, "orders.csv": orders, "manifest.yaml": "tables:\n" +
		"  users: {pkey: user, kinds: {" + kinds + "}}\n  orders: {time_col: at, fkeys: {user: users}}\n"})
	return o
}

// Whatever a source has more than khop stores, or khop stores otherwise, is named with its count; Strict refuses it,
// and nothing else. KHOP_DRAWS says how many sources are drawn.
func TestOneThingMoreIsRefusedByStrict(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 2))
	kinds := []moreOf{moreOfText, moreOfNames, moreOfArrays, moreOfGraphBolt, moreOfTables, moreOfArrow,
		moreOfDatabases}
	draws, met, plain := expect.Draws(t, 84), map[string]int{}, 0
	for i := range draws {
		o := kinds[i%len(kinds)](t, r, 6+r.Int64N(30))
		for _, w := range o.what {
			met[w]++
		}
		res, err := Run(context.Background(), o.path, filepath.Join(t.TempDir(), "x"), o.opt)
		expect.Ensure(t, err == nil, "draw %d, %q: %v", i, o.what, err)
		for _, want := range o.notes {
			expect.That(t, slices.ContainsFunc(res.Notes, func(n formats.Note) bool {
				return n.Change == want.Change && n.Name == want.Name && n.Count == want.Count &&
					strings.Contains(n.Text, want.Text)
			}), "draw %d, %q: %+v is not in\n%+v", i, o.what, want, res.Notes)
		}
		o.opt.Strict = true
		_, err = Run(context.Background(), o.path, filepath.Join(t.TempDir(), "x"), o.opt)
		if o.notes == nil {
			plain++
			expect.That(t, err == nil, "draw %d: strict: %v", i, err)
			continue
		}
		expect.That(t, errors.Is(err, ErrStrict) && strings.Contains(err.Error(), o.notes[0].Text),
			"draw %d, %q: strict: %v", i, o.what, err)
	}
	t.Logf("%d draws, %d without a fault; faults: %v", draws, plain, met)
	expect.That(t, len(met) >= 15, "only these were met: %v", met)
}
