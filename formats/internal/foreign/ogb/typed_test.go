package ogb

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// mag returns the files of a dataset of several types, as ogbn-mag's are.
func mag() map[string]string {
	return map[string]string{
		"raw/num-node-dict.csv.gz":                                  "author,paper\n2,3\n",
		"raw/triplet-type-list.csv.gz":                              "author,writes,paper\npaper,cites,paper\n",
		"raw/nodetype-has-feat.csv.gz":                              "author,paper\nFalse,True\n",
		"raw/node-feat/paper/node-feat.csv.gz":                      "1,2.5\n3,4\n5,-1\n",
		"raw/node-label/paper/node-label.csv.gz":                    "2\n0\n1\n",
		"raw/relations/author___writes___paper/edge.csv.gz":         "0,1\n1,2\n1,0\n",
		"raw/relations/author___writes___paper/edge_reltype.csv.gz": "0\n0\n0\n",
		"raw/relations/paper___cites___paper/edge.csv.gz":           "2,0\n",
		"split/time/paper/train.csv.gz":                             "0\n2\n",
		"split/time/paper/valid.csv.gz":                             "1\n",
		"split/time/nodetype-has-split.csv.gz":                      "author,paper\nFalse,True\n",
	}
}

// pack returns an archive of NumPy arrays.
func pack(t testing.TB, arrays map[string][]byte) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		w, err := z.Create(name + ".npy")
		if err == nil {
			_, err = w.Write(arrays[name])
		}
		expect.OK(t, err)
	}
	expect.OK(t, z.Close())
	return b.String()
}

// papers returns the files of a dataset that OGB calls binary, as ogbn-papers100M's are.
func papers(t testing.TB) map[string]string {
	return map[string]string{
		"raw/data.npz": pack(t, map[string][]byte{"edge_index": expect.NPY([]int64{0, 1, 2, 1, 2, 0}, 2, 3),
			"node_feat":      expect.NPY([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2),
			"node_year":      expect.NPY([]int64{1999, 2000, 2001, 2002}, 4, 1),
			"num_nodes_list": expect.NPY([]int64{4}), "num_edges_list": expect.NPY([]int64{3})}),
		"raw/node-label.npz":      pack(t, map[string][]byte{"node_label": expect.NPY([]float32{1, 0, 2, 1}, 4, 1)}),
		"split/time/train.csv.gz": "0\n3\n", "split/time/valid.csv.gz": "1\n", "split/time/test.csv.gz": "2\n",
	}
}

func TestDatasetsOfSeveralTypesAndInArchivesAreRead(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{mag(), "2 author\n3 paper, 3 classes\n  feature float32[2]: [1,2.5,3,4,5,-1]\n  label int64[]: [2,0,1]\n" +
			"author:writes:paper 0>1 1>2 1>0\npaper:cites:paper 2>0\n" +
			"train 0 of paper: [0 2]\nval 0 of paper: [1]\n"},
		{papers(t), "4 node, 3 classes\n  feature float32[2]: [1,2,3,4,5,6,7,8]\n  label int64[]: [1,0,2,1]\n" +
			"  year int64[]: [1999,2000,2001,2002]\nnode:edge:node 0>1 1>2 2>0\n" +
			"test 0 of node: [2]\ntrain 0 of node: [0 3]\nval 0 of node: [1]\n"},
	} {
		at := folder(t, "x", c.files)
		found := Reader.Find(at.Tree)
		expect.That(t, fmt.Sprint(found) == "[.]", "found %v", found)
		g, err := Reader.Read(context.Background(), at, &source.Request{Budget: &source.Budget{Dir: t.TempDir()}})
		expect.OK(t, err)
		got := sourcetest.Spell(t, g)
		expect.That(t, got == c.want, "got\n%s\nwant\n%s", got, c.want)
		expect.That(t, len(g.Notes) == 0, "notes %q", g.Notes)
		expect.OK(t, g.Close())
	}
}

func TestWhatIsWrongWithTypesAndArchivesIsNamed(t *testing.T) {
	for _, c := range []struct {
		all              map[string]string
		file, text, says string
	}{
		{mag(), "raw/num-node-dict.csv.gz", "author,paper\n2,3\n4,5\n", "row 3: there are several graphs"},
		{mag(), "raw/num-node-dict.csv.gz", "author\n2\n", `edges name the node type "paper"`},
		{mag(), "raw/triplet-type-list.csv.gz", "author,writes\n", "row 1: there are 2 names"},
		{mag(), "raw/node-feat/paper/node-feat.csv.gz", "1\n", "node-feat.csv.gz: there are 1 rows, but 3 nodes"},
		{mag(), "split/time/paper/valid.csv.gz", "3\n", "valid.csv.gz: row 1: node 3 is not in 0 .. 2"},
		{papers(t), "raw/data.npz", pack(t, map[string][]byte{"num_nodes_list": expect.NPY([]int64{1, 2})}),
			"several graphs"},
		{papers(t), "raw/data.npz", pack(t, map[string][]byte{"num_nodes_list": expect.NPY([]int64{1})}),
			"no edge_index"},
		{papers(t), "raw/node-label.npz", "PK\x03\x04", "node-label.npz"},
	} {
		c.all[c.file] = c.text
		sourcetest.Refuses(t, Reader, folder(t, "x", c.all), c.file, c.says)
	}
}
