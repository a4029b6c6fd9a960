package mtx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyMatrix: see sourcetest.Outcomes.
func TestWhatComesOfAnyMatrix(t *testing.T) {
	at := func(name, text string) sourcetest.Case {
		return sourcetest.Case{Name: name, Reader: Reader, At: "m.mtx", Lines: true,
			Files: map[string]string{"m.mtx": "%%MatrixMarket matrix coordinate " + text}}
	}
	var long strings.Builder
	const n = 9000
	fmt.Fprintf(&long, "real general\n%d %d %d\n", n, n, n)
	for i := range n {
		fmt.Fprintf(&long, "%d %d %d.5\n", i+1, i*7%n+1, i)
	}
	sourcetest.Outcomes(t, at("real", "real general\n% c\n\n3 3 3\n1 2 .5\n3 1 2e1\n2 3 -7\n"),
		at("pattern", "pattern symmetric\n3 3 2\n2 1\n3 3\n"),
		at("skew", "integer skew-symmetric\n2 2 1\n2 1 7\n"),
		at("rows and columns", "INTEGER General\r\n2 3 2\r\n1 3 -4\r\n2 1 5\r\n"),
		at("empty", "real general\n5 5 0\n"),
		at("large", long.String()).Whole())
}

var _ source.Reader = Reader
