package npz

import (
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyNumPyArchive: see sourcetest.Outcomes.
func TestWhatComesOfAnyNumPyArchive(t *testing.T) {
	packed := func(name string, members []member) sourcetest.Case {
		path := save(t, pack(t, members...))
		return sourcetest.Case{Name: name, Reader: Reader, At: "g.npz", Files: sourcetest.Members(t, path),
			Pack: sourcetest.Zipped(t, "g.npz"), Requests: []source.Request{{}, {Nodes: 3}, {Nodes: 7}, {Nodes: 2}}}
	}
	long := make([]int64, 24_000)
	for i := range long {
		long[i] = int64(i) * 7 % 991
	}
	at := make([]int32, 992)
	for i := range at {
		at[i] = int32(3 * i)
	}
	small := packed("an archive", dense())
	small.Files, small.Pack = small.Pack(small.Files), nil
	sourcetest.Outcomes(t, packed("sparse", sparse()), packed("dense", dense()), small,
		packed("weighted", with(sparse(), numpy("adj_matrix.data", "", float64(1), 2.5, -3))).Whole(),
		packed("large and dense", with(dense(), numpy("edges", "(12000, 2)", long...),
			numpy("node_features", "(991, 1)", make([]float32, 991)...),
			numpy("node_labels", "", make([]int64, 991)...), numpy("train_masks", "(991,)", make([]uint8, 991)...),
			numpy("val_masks", "(991,)", make([]uint8, 991)...))).Whole(),
		packed("large and sparse", []member{numpy("data", "", make([]float32, 2973)...),
			numpy("indices", "", at[:991]...), numpy("indptr", "", at...), numpy("shape", "", int64(991), 991)},
		).Whole())
}
