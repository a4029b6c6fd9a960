package metis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

func TestNeighboursAreEdges(t *testing.T) {
	sourcetest.ReadsEach(t, Reader, "m.graph", map[string]string{
		"% c\n3 2\n2\n1 3\n% c\n2\n": "3 node; node:edge:node 0>1 1>0 1>2 2>1",
		"3 1\n\n3\n2":                "3 node; node:edge:node 1>2 2>1",
		"2 1 001\n2 7\n1 7\n":        "2 node; edge weight int64[]; node:edge:node 0>1:7 1>0:7",
		"2 1 111 2\r\n5 6 7 2 9\r\n8 1 2 1 9\r\n\r\n": "2 node; size int64[]: [5,8]; weight int64[2]: [6,7,1,2]; " +
			"edge weight int64[]; node:edge:node 0>1:9 1>0:9",
		"2 0 10\n4\n5\n": "2 node; weight int64[]: [4,5]; node:edge:node",
	})
}

func TestBadGraphsNameTheirLine(t *testing.T) {
	sourcetest.RefusesEach(t, Reader, "m.graph", map[string]string{
		"":                                  "lines of 0 nodes",
		"3\n":                               "row 1: the header has 1 field",
		"3 1 012\n":                         "row 1: the format",
		"2 1\n2\n3\n":                       "row 3: neighbour 3 is not in 1 .. 2",
		"2 1\n2\n0\n":                       "neighbour 0",
		"2 1\n2\n-1\n":                      "row 3: '-' in a number",
		"2 1\n2\n":                          "lines of 1 node, not 2",
		"2 1\n2\n1\n1\n":                    "row 4: a line behind those of 2 nodes",
		"2 2\n2\n1\n":                       "2 neighbours are listed, not twice the 2 edges",
		"2 1 1\n2\n1 3\n":                   "row 2: neighbour 2 has no weight",
		"2 1 10 2\n1\n1 1 1\n":              "row 2: node 1 has fewer than 2 weights",
		"99999999999 1\n2\n1\n":             "99999999999 nodes, but only 1 edge",
		"2 1\n2 999999999999999999999999\n": "in a number",
	})
}

func FuzzRead(f *testing.F) {
	sourcetest.FuzzText(f, Reader, "m.graph", "% c\n3 2\n2\n1 3\n% c\n2\n", "2 1 111 2\r\n5 6 7 2 9\r\n8 1 2 1 9\r\n")
}

// TestWhatComesOfAnyMETISFile: see sourcetest.Outcomes.
func TestWhatComesOfAnyMETISFile(t *testing.T) {
	var long strings.Builder
	const n = 6000
	fmt.Fprintf(&long, "%d %d 1\n", n, n)
	for i := range n {
		fmt.Fprintf(&long, "%d %d %d %d\n", (i+1)%n+1, i%7, (i+n-1)%n+1, (i+n-1)%n%7)
	}
	at := func(name, text string) sourcetest.Case {
		return sourcetest.Case{Name: name, Reader: Reader, At: name, Lines: true,
			Files: map[string]string{name: text}}
	}
	sourcetest.Outcomes(t, at("plain.graph", "% c\n4 3\n2\n1 3\n% c\n2 4\r\n3\n"),
		at("weights.metis", "3 2 111 2\n5 6 7 2 9\n8 1 2 1 9 3 4\n7 8 9 2 4\n\n"),
		at("nodes.mgraph", "2 1 10\n4 2\n5 1\n"),
		at("large.graph", long.String()).Whole())
}

var _ source.Reader = Reader
