//go:build !race

package graphbolt

import (
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyDatasetOfGraphBolt: see sourcetest.Outcomes.
func TestWhatComesOfAnyDatasetOfGraphBolt(t *testing.T) {
	given, made := sourcetest.Within(t, "testdata/typed"), sourcetest.Within(t, "testdata/typed")
	for name := range given {
		if len(name) > 12 && name[:12] == "preprocessed" {
			delete(given, name)
		}
	}
	delete(made, "metadata.yaml")
	sourcetest.Outcomes(t, sourcetest.Case{Name: "as it is given", Reader: Reader, Files: given, Lines: true,
		Keep: []string{"data/validation_set-nodes.npy", "data/test_set-nodes.npy", "data/test_set-labels.npy",
			"data/age.npy", "data/validation_set-labels.npy"}},
		sourcetest.Case{Name: "as it is made", Reader: Reader, Files: made, Keep: []string{"data/age.npy",
			"data/cites.csv", "data/feat.npy", "data/share.npy", "data/test_set-labels.npy", "data/test_set-nodes.npy",
			"data/train_set-labels.npy", "data/train_set-nodes.npy", "data/validation_set-labels.npy",
			"data/validation_set-nodes.npy", "data/writes.npy", "preprocessed/data/age.npy",
			"preprocessed/data/validation_set-nodes.npy", "preprocessed/data/validation_set-labels.npy"}})
}

var _ source.Reader = Reader
