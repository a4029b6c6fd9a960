package metis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

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
