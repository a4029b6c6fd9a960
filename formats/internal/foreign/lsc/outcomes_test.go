package lsc

import (
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyLargeDataset: see sourcetest.Outcomes.
func TestWhatComesOfAnyLargeDataset(t *testing.T) {
	sourcetest.Outcomes(t, sourcetest.Case{Name: "mag", Reader: Reader, At: "processed",
		Files: sourcetest.Within(t, "testdata/mag/mag240m_kddcup2021")},
		sourcetest.Case{Name: "igb", Reader: Reader, At: "processed", Files: sourcetest.Within(t, "testdata/igb"),
			Keep: []string{"processed/paper/node_feat.npy"}})
}

var _ source.Reader = Reader
