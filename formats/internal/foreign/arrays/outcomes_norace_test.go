//go:build !race

package arrays

import (
	"maps"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestWhatComesOfAnyArrays: see sourcetest.Outcomes.
func TestWhatComesOfAnyArrays(t *testing.T) {
	plain := map[string]string{}
	for name, b := range map[string][]byte{"edge_index": expect.NPY([]int64{0, 1, 2, 1, 2, 0}, 2, 3),
		"num_nodes": expect.NPY([]int64{4}), "node_feat": expect.NPY([]uint8{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2),
		"y": expect.NPY([]float32{1, 0, 2, 1}, 4, 1), "train_idx": expect.NPY([]int32{3, 0}),
		"valid_mask": expect.NPY([]uint8{0, 1, 0, 0}), "node_rank": expect.NPY([]int8{9, 8, 7, 6}),
		"what": expect.NPY([]int8{9}), "edge_attr": expect.NPY([]uint8{1, 2, 3, 4, 5, 6}, 3, 2),
		"time": expect.NPY([]uint8{7, 8, 9}), "edge_weight": expect.NPY([]float32{1, 2, 1}),
		"link_val_1_source": expect.NPY([]int64{2}), "link_val_1_target": expect.NPY([]int64{0}),
		"link_val_1_label": expect.NPY([]int64{5})} {
		plain[name+".npy"] = string(b)
	}
	plain["names_id.npy"] = string(texts(3, "ann", "bob", "eve", "é"))
	pairs, late := map[string]string{}, make([]int64, 20_000)
	pairs["src.npy"] = string(expect.NPY([]int16{4, 1, 3}))
	pairs["dst.npy"] = string(expect.NPY([]uint8{0, 2, 3}))
	rows := maps.Clone(plain)
	rows["edge_index.npy"] = string(expect.NPY([]int32{0, 1, 2, 1, 2, 0}, 3, 2))
	for i := range late {
		late[i] = int64(i) * 7 % 991
	}
	files := map[string]string{}
	for name, b := range map[string][]byte{
		"g/nodes/paper/x":                            expect.NPY([]uint8{1, 2, 3}, 3, 1),
		"g/nodes/paper/train_mask":                   expect.NPY([]uint8{0, 1, 1}),
		"g/nodes/author/num_nodes":                   expect.NPY([]int64{5}),
		"g/edges/author__writes__paper/edge_index":   expect.NPY([]int64{4, 0, 1, 2}, 2, 2),
		"g/edges/paper__of__venue/src":               expect.NPY([]int64{2, 0}),
		"g/edges/paper__of__venue/dst":               expect.NPY([]int64{0, 6}),
		"g/edges/paper__of__venue/edge_weight":       expect.NPY([]float32{1, 2}),
		"g/edges/author__writes__paper/edge_weight":  expect.NPY([]float64{3, 4}),
		"g/edges/author__writes__paper/deep/ignored": expect.NPY([]float32{3, 4}),
	} {
		files[name+".npy"] = string(b)
	}
	sourcetest.Outcomes(t, sourcetest.Case{Name: "plain", Reader: Reader, Files: plain, Keep: []string{"what.npy",
		"edge_attr.npy", "time.npy", "link_val_1_target.npy", "node_rank.npy"}},
		sourcetest.Case{Name: "pairs", Reader: Reader, Files: pairs},
		sourcetest.Case{Name: "a file", Reader: Reader, At: "x.npy",
			Files: map[string]string{"x.npy": string(expect.NPY([]int64{0, 1, 2, 0}, 2, 2))}}.Whole(),
		sourcetest.Case{Name: "rows", Reader: Reader, Files: rows}.Whole(),
		sourcetest.Case{Name: "types", Reader: Reader, At: "g", Files: files},
		sourcetest.Case{Name: "large", Reader: Reader, Requests: []source.Request{{}, {LateCount: 5}, {Nodes: 991},
			{Nodes: 2000}, {Nodes: 5}}, Files: map[string]string{"edge_index.npy": string(expect.NPY(late, 2, 10_000)),
			"edge_weight.npy": string(expect.NPY(make([]int8, 10_000)))}}.Whole())
}
