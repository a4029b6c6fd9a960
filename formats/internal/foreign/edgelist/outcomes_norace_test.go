//go:build !race

package edgelist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyEdgeList: see sourcetest.Outcomes.
func TestWhatComesOfAnyEdgeList(t *testing.T) {
	at := func(name, text string, r ...source.Request) sourcetest.Case {
		return sourcetest.Case{Name: name, Reader: Reader, At: "e.txt", Lines: true, Requests: r,
			Files: map[string]string{"e.txt": text}}
	}
	var numbers, names strings.Builder
	numbers.WriteString("src dst w t\n")
	for i := range 9000 {
		fmt.Fprintf(&numbers, "%d %d %d.5 %d\n", i%777, i*7%999, i%6, i)
		fmt.Fprintf(&names, "n%d\tm%d\n", i%777, i*7%999)
	}
	every := []source.Request{{}, {IDs: "names"}, {IDs: "numbers"}, {Nodes: 9}, {Nodes: 2}, {IDs: "words"},
		{Columns: []string{"dst", "src"}}, {Columns: []string{"src", "dst", "x:float32", "-"}},
		{Columns: []string{"a", "b", "c", "d"}}, {Columns: []string{"src", "src"}},
		{Columns: []string{"src", "dst", "y:int8", "z:int64"}}, {Skips: &source.Skips{Limit: 2}}}
	sourcetest.Outcomes(t, at("pairs", "# c\n0 1\n1 2\r\n\n2 0\n", every...),
		at("header", "src,dst,w\n0,1,.5\n1,2,-2e3\n3,0,7\n", every...),
		at("four fields", "0 1 2.5 7\n1 2 3 8\n4 1 -1 9", every...),
		at("names", "src\tdst\ttime\na b\tc\t7\n\"c\"\td\t8\n", every...),
		at("quotes", "a,b\n\"x, \"\"y\"\"\",z\nz,\"x, \"\"y\"\"\"\n", every...),
		at("bad lines", "0 1\nx\n1 2\n3\n2 2\n", every...).Whole(),
		at("more bad lines", "0 1\nx\n1 2\n3\n2 2\n4 4 4\n", every...).Whole(),
		at("nothing", "# c\n", every...).Whole(),
		at("mixed", "1 2\na 3\n").Whole(), at("wide", "0 3000000000\n5000000000 1\n").Whole(),
		at("large numbers", numbers.String()).Whole(), at("large names", names.String()).Whole())
}
