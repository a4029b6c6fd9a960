package planetoid

import (
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyFilesOfPlanetoid: see sourcetest.Outcomes.
func TestWhatComesOfAnyFilesOfPlanetoid(t *testing.T) {
	sourcetest.Outcomes(t, sourcetest.Case{Name: "tiny", Reader: Reader, At: "ind.tiny.graph", Files: files(t)})
}

var _ source.Reader = Reader
