package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	dir := t.TempDir()
	text := "dataset_name: x\ngraph:\n  nodes:\n  - num: 5\n  edges:\n  - format: csv\n    path: edges.csv\n" +
		"feature_data:\n"
	edges := ""
	for _, e := range ring(5, 0) {
		edges += fmt.Sprintf("%d,%d\n", e[0], e[1])
	}
	for k, name := range columns {
		text += fmt.Sprintf("- domain: node\n  name: %s\n  format: numpy\n  path: %d.npy\n", name, k)
		expect.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(k, ".npy")),
			expect.NPY(make([]float32, 10), 5, 2), 0o600))
	}
	expect.OK(t, os.WriteFile(filepath.Join(dir, "metadata.yaml"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, "edges.csv"), []byte(edges), 0o600))
	return dir
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
