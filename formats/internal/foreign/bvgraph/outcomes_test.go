package bvgraph

import (
	"os"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestWhatComesOfAnyWebGraph: see sourcetest.Outcomes.
func TestWhatComesOfAnyWebGraph(t *testing.T) {
	var cases []sourcetest.Case
	lists := [][]int64{{1, 2, 5, 6, 7}, {0}, {0}, {}, {4, 5}, {0, 1, 2, 3, 4, 5, 6, 7}, {1}, {7}}
	for i, properties := range []string{"", "windowsize=7\nminintervallength=4\nmaxrefcount=3\nzetak=3\n",
		"zetak=2\n", "compressionflags=OUTDEGREES_GAMMA|RESIDUALS_ZETA\n",
		"compressionflags=OUTDEGREES_DELTA|BLOCKS_DELTA|RESIDUALS_GAMMA|REFERENCES_GAMMA|BLOCK_COUNT_DELTA\n",
		"compressionflags=RESIDUALS_DELTA|REFERENCES_DELTA|OFFSETS_GAMMA\n", "compressionflags=RESIDUALS_NIBBLE\n",
		"compressionflags=RESIDUALS_GOLOMB\n", "windowsize=0\nminintervallength=0\n"} {
		at := write(t, t.TempDir(), lists, properties)
		files := map[string]string{}
		for _, name := range []string{"g.graph", "g.properties"} {
			b := expect.Must(os.ReadFile(at.Beside(name).Path()))(t)
			files[name] = string(b)
		}
		c := sourcetest.Case{Name: properties, Reader: Reader, At: "g.graph", Files: files, Lines: true}
		if i > 0 {
			c.Keep = []string{"g.properties"}
		}
		cases = append(cases, c)
	}
	sourcetest.Outcomes(t, cases...)
}

var _ source.Reader = Reader
