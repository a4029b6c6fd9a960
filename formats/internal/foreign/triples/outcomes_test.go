package triples

import (
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyKnowledgeGraph: see sourcetest.Outcomes.
func TestWhatComesOfAnyKnowledgeGraph(t *testing.T) {
	var long strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&long, "n%d\tr%d\tn%d\n", i%777, i%5, i*7%999)
	}
	both := []source.Request{{}, {RelationsAsTypes: true}}
	sourcetest.Outcomes(t, sourcetest.Case{Name: "three parts", Reader: Reader, Lines: true, Requests: both,
		Files: map[string]string{"train.txt": "007\t/is/a\tx\nx\tlikes:it\t007\r\n007\t/is/a\ty\n\n",
			"valid.txt": "y\tlikes:it\tz\n", "test.txt": "x\t/is/a\tx\n", "about.md": "words"}},
		sourcetest.Case{Name: "one part", Reader: Reader, At: "deep", Requests: both,
			Files: map[string]string{"deep/train.tsv": "a\tb\tc"}},
		sourcetest.Case{Name: "other names", Reader: Reader, Requests: both,
			Files: map[string]string{"train.tsv": "a\tb\tc\n", "dev.txt": "a\tc\tc\n", "test.tsv": "d\te\tf\n"}},
		sourcetest.Case{Name: "large", Reader: Reader, Requests: both,
			Files: map[string]string{"train.txt": long.String(), "val.txt": long.String()[:1000] + "\tx\ty\n"}}.Whole())
}
