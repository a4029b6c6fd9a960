package arrays

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// folder writes arrays and returns their place.
func folder(t testing.TB, arrays map[string][]byte) source.Place {
	t.Helper()
	files := map[string][]byte{}
	for name, b := range arrays {
		files[name+".npy"] = b
	}
	return sourcetest.Folder(t, "", files)
}

func TestArraysAreKnownByNameAndShape(t *testing.T) {
	index := expect.NPY([]int64{0, 1, 2, 1, 2, 0}, 2, 3)
	for _, c := range []struct {
		name   string
		arrays map[string][]byte
		want   string
		note   string
	}{
		{"one array", map[string][]byte{"edge_index": index}, "3 node; node:edge:node 0>1 1>2 2>0", ""},
		{"rows", map[string][]byte{"edges": expect.NPY([]int32{0, 1, 2, 0, 1, 1}, 3, 2)},
			"3 node; node:edge:node 0>1 2>0 1>1", ""},
		{"two rows, perhaps", map[string][]byte{"edges": expect.NPY([]int32{0, 1, 2, 0}, 2, 2)},
			"3 node; node:edge:node 0>1 2>0", "edges has the shape (2, 2): its rows are edges"},
		{"sources and targets of two edges", map[string][]byte{"edge_index": expect.NPY([]int32{0, 1, 2, 0}, 2, 2)},
			"3 node; node:edge:node 0>2 1>0", ""},
		{"two arrays", map[string][]byte{"src": expect.NPY([]int16{4, 1}), "dst": expect.NPY([]uint8{0, 2})},
			"5 node; node:edge:node 4>0 1>2", ""},
		{"nodes", map[string][]byte{"edge_index": index, "num_nodes": expect.NPY([]int64{4}),
			"node_feat": expect.NPY([]uint8{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2), "y": expect.NPY([]float32{1, 0, 2, 1},
				4, 1),
			"train_idx": expect.NPY([]int32{3, 0}), "valid_mask": expect.NPY([]uint8{0, 1, 0, 0}),
			"node_rank": expect.NPY([]int8{9, 8, 7, 6}), "what": expect.NPY([]int8{9})},
			"4 node, 3 classes; feature uint8[2]: [1,2,3,4,5,6,7,8]; rank int8[]: [9,8,7,6]; label int64[]: " +
				"[1,0,2,1]; node:edge:node 0>1 1>2 2>0; train 0 of node: [3 0]; val 0 of node: [1]",
			"what (<i1 (1))"},
		{"edges", map[string][]byte{"edge_index": index, "num_nodes": expect.NPY([]int64{9}),
			"edge_attr": expect.NPY([]uint8{1, 2, 3, 4, 5, 6}, 3, 2), "time": expect.NPY([]uint8{7, 8, 9}),
			"edge_weight": expect.NPY([]int8{1, -1, 1}), "odd": expect.NPY([]int8{3, 2, 1})},
			"9 node; edge feature uint8[2]; edge value int8[]; edge odd int8[]; edge time uint8[]; " +
				"node:edge:node 0>1:1,2:1:3:7 1>2:3,4:-1:2:8 2>0:5,6:1:1:9", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := folder(t, c.arrays)
			found := Reader.Find(at.Tree)
			expect.Ensure(t, len(found) != 0 && found[0] == ".", "found %v", found)
			sourcetest.Reads(t, Reader, at, source.Request{}, c.want, c.note)
		})
	}
}

func TestArraysThatDoNotFitAreNamed(t *testing.T) {
	index := expect.NPY([]int64{0, 1, 2, 1, 2, 0}, 2, 3)
	for says, arrays := range map[string]map[string][]byte{
		"edge_index.npy: has the shape [6]":        {"edge_index": expect.NPY([]int64{0, 1, 2, 1, 2, 0})},
		"dst.npy: has the shape [1]":               {"src": expect.NPY([]int64{0, 1}), "dst": expect.NPY([]int64{0})},
		"it is cut short":                          {"edge_index": index[:len(index)-1]},
		"labels.npy: row 1: 0.5 is not a class":    {"edge_index": index, "labels": expect.NPY([]float32{1, .5, 2})},
		"train_idx.npy: row 0: 7 is not a node":    {"edge_index": index, "train_idx": expect.NPY([]int64{7})},
		"edge_weight.npy: is <f4 (2), but there":   {"edge_index": index, "edge_weight": expect.NPY([]float32{1, 2})},
		"ids reach 4294967296, but there are only": {"edge_index": expect.NPY([]int64{0, 1 << 32}, 1, 2)},
		"num_nodes.npy: is [1 2], not one number":  {"edge_index": index, "num_nodes": expect.NPY([]int64{1, 2})},
		"name a folder with edge_index.npy, or":    {"x": index},
		"integers are wanted":                      {"edge_index": expect.NPY([]float32{0, .5}, 1, 2)},
	} {
		g, err := Reader.Read(context.Background(), folder(t, arrays), &source.Request{})
		expect.That(t, err != nil && (strings.Contains(err.Error(), says) || says == "integers are wanted" &&
			strings.Contains(err.Error(), "not an integer")), "%v, %v; want %q", g, err, says)
	}
}

// texts is an array of strings of bytes.
func texts(width int, list ...string) []byte {
	elements := make([]byte, width*len(list))
	for i, s := range list {
		copy(elements[i*width:][:width], s)
	}
	b := expect.NPY(elements) // whose header says how many bytes these are
	return bytes.Replace(b, fmt.Appendf(nil, "'<u1', 'fortran_order': False, 'shape': (%d,)", len(elements)),
		fmt.Appendf(nil, "'|S%d', 'fortran_order': False, 'shape': (%*d,)", width, len(fmt.Sprint(len(elements)))-
			len(fmt.Sprint(width))+1, len(list)), 1)
}

// TestNamesAreReadAsExportWritesThem: those of nodes, other texts, and names of classes, which are not of nodes.
func TestNamesAreReadAsExportWritesThem(t *testing.T) {
	files := map[string][]byte{"edge_index": expect.NPY([]int64{0, 1}, 2, 1), "names_id": texts(4, "ann", "béb"),
		"names_town": texts(1, "a", "b"), "names_class": texts(2, "no", "ja", "si")}
	want := `2 node; class: ["no" "ja" "si"]; id: ["ann" "béb"]; town: ["a" "b"]; node:edge:node 0>1`
	sourcetest.Reads(t, Reader, folder(t, files), source.Request{}, want)
	g := expect.Must(Reader.Read(t.Context(), folder(t, files), &source.Request{}))(t)
	for _, list := range g.Node().Strings {
		expect.That(t, list.Others == (list.Name == "class"), "%s: of others: %v", list.Name, list.Others)
	}
	sourcetest.Reads(t, Reader, sourcetest.Folder(t, "", map[string][]byte{
		"nodes/a/names_id.npy": texts(1, "x", "y"), "nodes/a/names_wide.npy": texts(3, "x", "y")[:90],
		"edges/a__r__a/edge_index.npy": expect.NPY([]int64{0, 1}, 2, 1)}), source.Request{},
		`2 a; id: ["x" "y"]; a:r:a 0>1`, "names_wide")
	files["names_id"] = texts(1, "a", "b", "c")
	files["num_nodes"] = expect.NPY([]int64{2})
	sourcetest.Refuses(t, Reader, folder(t, files), "more names", "names_id.npy: is |S1 (3), but there are 2 nodes")
}

// FuzzNames reads any bytes as the names of nodes.
func FuzzNames(f *testing.F) {
	f.Add(texts(4, "ann", "bob"))
	dir := f.TempDir()
	expect.OK(f, os.WriteFile(filepath.Join(dir, "edge_index.npy"), expect.NPY([]int64{0, 1}, 2, 1), 0o600))
	f.Fuzz(func(t *testing.T, names []byte) {
		expect.OK(t, os.WriteFile(filepath.Join(dir, "names_id.npy"), names, 0o600))
		sourcetest.SurvivesAt(t, Reader, t.TempDir(), "arrays", expect.Must(source.OpenTree(dir, nil))(t).At("."))
	})
}

func FuzzRead(f *testing.F) {
	index := expect.NPY([]int64{0, 1, 2, 1, 2, 0}, 2, 3)
	f.Add(index, expect.NPY([]uint8{1, 2, 3}), expect.NPY([]float32{1, 2, 3}), expect.NPY([]int64{2}))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, index, x, weight, train []byte) {
		for name, b := range map[string][]byte{"edge_index": index, "x": x, "weight": weight, "train": train} {
			expect.OK(t, os.WriteFile(filepath.Join(dir, name+".npy"), b, 0o600))
		}
		tree := expect.Must(source.OpenTree(dir, nil))(t)
		sourcetest.SurvivesAt(t, Reader, t.TempDir(), "arrays", tree.At("."))
	})
}

func TestFoldersOfTypesAreATypedGraph(t *testing.T) {
	files := map[string][]byte{
		"g/nodes/paper/x.npy":                            expect.NPY([]uint8{1, 2, 3}, 3, 1),
		"g/nodes/paper/train_mask.npy":                   expect.NPY([]uint8{0, 1, 1}),
		"g/nodes/author/num_nodes.npy":                   expect.NPY([]int64{5}),
		"g/edges/author__writes__paper/edge_index.npy":   expect.NPY([]int64{4, 0, 1, 2}, 2, 2),
		"g/edges/paper__of__venue/src.npy":               expect.NPY([]int64{2, 0}),
		"g/edges/paper__of__venue/dst.npy":               expect.NPY([]int64{0, 6}),
		"g/edges/paper__of__venue/edge_weight.npy":       expect.NPY([]float32{1, 2}),
		"g/edges/author__writes__paper/edge_weight.npy":  expect.NPY([]float32{3, 4}),
		"g/edges/author__writes__paper/deep/ignored.npy": expect.NPY([]float32{3, 4}),
	}
	at := sourcetest.Folder(t, "", files)
	found := Reader.Find(at.Tree)
	expect.Ensure(t, slices.Equal(found, []string{"g"}), "found %v", found)
	sourcetest.Reads(t, Reader, at.Tree.At("g"), source.Request{}, "5 author; 3 paper; feature uint8[]: [1,2,3]; "+
		"7 venue; edge weight float32[]; author:writes:paper 4>1:3 0>2:4; paper:of:venue 2>0:1 0>6:2; "+
		"train 0 of paper: [1 2]")
	files["g/nodes/author/num_nodes.npy"] = expect.NPY([]int64{-5})
	sourcetest.Refuses(t, Reader, sourcetest.Folder(t, "", files).Tree.At("g"), "count", "is [-5], not one number")
}

// TestLinksAreReadAsExportWritesThem, of one type and of several, and refused where a node is not there.
func TestLinksAreReadAsExportWritesThem(t *testing.T) {
	plain := map[string][]byte{"edge_index.npy": expect.NPY([]int64{0, 1, 2, 1, 2, 0}, 2, 3),
		"link_train_source.npy": expect.NPY([]int32{0, 1}), "link_train_target.npy": expect.NPY([]int32{2, 2}),
		"link_val_1_source.npy": expect.NPY([]int64{2}), "link_val_1_target.npy": expect.NPY([]int64{0}),
		"link_val_1_label.npy": expect.NPY([]int64{5})}
	typed := map[string][]byte{}
	for _, e := range []string{"edges/a__q__b/", "edges/a__r__a/", "edges/a__s__b/"} {
		typed[e+"edge_index.npy"] = expect.NPY([]int64{0, 1, 1, 1}, 2, 2)
		typed[e+"link_test_source.npy"] = expect.NPY([]int64{1})
		typed[e+"link_test_target.npy"] = expect.NPY([]int64{0})
	}
	typed["edges/a__r__a/link_test_label.npy"] = expect.NPY([]int64{0})
	for _, c := range []struct {
		files map[string][]byte
		want  string
	}{
		{plain, "train 0 links: [0 1] > [2 2], types [], labels []\nval 1 links: [2] > [0], types [], labels [5]\n"},
		{typed, "test 0 links: [1 1 1] > [0 0 0], types [0 1 2], labels [1 0 1]\n"},
	} {
		read := func() (*source.Graph, error) {
			return Reader.Read(context.Background(), sourcetest.Folder(t, "", c.files), &source.Request{})
		}
		g := expect.Must(read())(t)
		if got := sourcetest.Spell(t, g); !strings.HasSuffix(got, c.want) || len(g.Notes) > 0 {
			t.Errorf("%s\nwant %s; notes %q", got, c.want, g.Notes)
		}
		for name := range c.files {
			if strings.HasSuffix(name, "_source.npy") {
				c.files[name] = expect.NPY([]int64{3})
				c.files[strings.Replace(name, "source", "target", 1)] = expect.NPY([]int64{0})
			}
		}
		if _, err := read(); err == nil || !strings.Contains(err.Error(), "is not between") {
			t.Errorf("a node that is not there: %v", err)
		}
	}
}

// TestNodesMayBeCountedLater: of many edges a sample is looked at, unless arrays must fit the number of nodes.
func TestNodesMayBeCountedLater(t *testing.T) {
	ids := make([]int64, 200_000)
	for i := range ids {
		ids[i] = int64(i) % 1000
	}
	ids[0], ids[len(ids)-1] = 5000, 6000 // the sample has the first and the last
	ids[3*len(ids)/8] = 9000             // between two places that it has
	for _, c := range []struct {
		more        string
		late, first int64
	}{{"", 100_000, 6001}, {"edge_weight", 100_000, 6001}, {"", 100_001, 9001}, {"", 0, 9001},
		{"node_rank", 1, 9001}, {"other", 1, 9001}} {
		arrays := map[string][]byte{"edge_index": expect.NPY(ids, 2, 100_000)}
		if c.more != "" {
			arrays[c.more] = expect.NPY(make([]int8, 100_000))
		}
		g := expect.Must(Reader.Read(context.Background(), folder(t, arrays), &source.Request{LateCount: c.late}))(t)
		got := g.Node().Count
		expect.That(t, got == c.first && (g.CountNodes != nil) == (c.first == 6001), "%+v: %d nodes at first", c, got)
		if g.CountNodes == nil {
			continue
		}
		err := g.CountNodes(context.Background())
		expect.That(t, err == nil && g.Node().Count == 9001, "%+v: %d nodes at last, %v", c, g.Node().Count, err)
	}
}
