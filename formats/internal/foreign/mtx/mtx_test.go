package mtx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

func TestMatricesAreGraphs(t *testing.T) {
	sourcetest.ReadsEach(t, Reader, "m.mtx", map[string]string{
		"%%MatrixMarket matrix coordinate real general\n% c\n\n3 3 2\n1 2 .5\n3 1 2e1\n": "3 node; " +
			"edge weight float64[]; node:edge:node 0>1:0.5 2>0:20",
		"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n": "3 node; " +
			"node:edge:node 1>0 2>2; undirected",
		"%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 1\n2 1 7\n": "2 node; edge value int64[]; " +
			"node:edge:node 1>0:7 0>1:-7",
		"%%MatrixMarket MATRIX Coordinate Integer General\r\n2 3 2\r\n1 3 -4\r\n2 1 5\r\n": "2 row; 3 column; " +
			"edge value int64[]; row:entry:column 0>2:-4 1>0:5",
	})
}

func TestBadMatricesNameTheirLine(t *testing.T) {
	const head = "%%MatrixMarket matrix coordinate real general\n"
	sourcetest.RefusesEach(t, Reader, "m.mtx", map[string]string{
		"%%MatrixMarket matrix array real general\n2 2\n":           "row 1: a matrix of the format \"array\"",
		"%%MatrixMarket matrix coordinate complex general\n1 1 0\n": "\"complex\" are not supported",
		"%%MatrixMarket matrix coordinate real hermitian\n1 1 0\n":  "kind \"hermitian\"",
		"%%MatrixMarket matrix coordinate real symmetric\n1 2 0\n":  "1 rows, 2 columns",
		head + "2 2\n":                            "row 2: there are 2 sizes",
		head + "2 2 1\n1 3 1\n":                   "row 3: \"3\" is not in 1 .. 2",
		head + "2 2 1\n0 1 1\n":                   "\"0\" is not in",
		head + "2 2 1\n1 1\n":                     "has 2 numbers, not 3",
		head + "2 2 1\n1 1 nan\n":                 "the value \"nan\"",
		head + "2 2 2\n1 1 1\n":                   "1 entries, not 2",
		head + "2 2 1\n1 1 1\n1 1 1\n":            "more than the 1 entries that the sizes say",
		head + "9000000000 9000000000 1\n1 1 1\n": "entries of a general matrix",
	})
}

func FuzzRead(f *testing.F) {
	sourcetest.FuzzText(f, Reader, "m.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 .5\n3 1 2e1\n",
		"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n")
}

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
