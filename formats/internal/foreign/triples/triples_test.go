package triples

import (
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

func TestTriplesAreEdgesAndLinks(t *testing.T) {
	files := map[string]string{"train.txt": "007\t/is/a\tx\nx\tlikes:it\t007\r\n007\t/is/a\ty\n",
		"valid.txt": "y\tlikes:it\tz\n", "test.txt": "x\t/is/a\tx\n", "about.md": "words"}
	const names = `4 node; id: ["007" "x" "y" "z"]; relation: ["/is/a" "likes:it"]; `
	at := sourcetest.Folder(t, "", files)
	found := Reader.Find(at.Tree)
	expect.Ensure(t, fmt.Sprint(found) == "[.]", "found %v", found)
	sourcetest.Reads(t, Reader, at, source.Request{}, names+"edge relation int32[]; "+
		"node:edge:node 0>1:0 1>0:1 0>2:0; val 0 links: [2] > [3], types [], labels [1]; "+
		"test 0 links: [1] > [1], types [], labels [0]")
	sourcetest.Reads(t, Reader, at, source.Request{RelationsAsTypes: true}, names+
		"node:/is/a:node 0>1 0>2; node:likes_it:node 1>0; val 0 links: [2] > [3], types [1], labels []; "+
		"test 0 links: [1] > [1], types [0], labels []")
}

func TestBadTriplesNameTheirLine(t *testing.T) {
	for text, says := range map[string]string{
		"a\tb\tc\na\tb\n":        "train.txt: row 1,003: there are 2 fields",
		"a\tb\tc\n\na\t\tc\n":    "row 1,004",
		"a\tb\tc\nx\ty\t\xff\n":  "row 1,003: not UTF-8",
		"a\tb\tc\nx\ty\tz\tw\n":  "row 1,003: there are 4 fields",
		"a\tb\tc\n\xef\xbb\xbfa": "row 1,003: a byte order mark",
	} {
		text = "h\tr\tt\n" + strings.Repeat("a\tb\tc\n", 1000) + text
		at := sourcetest.Folder(t, "", map[string]string{"train.txt": text})
		sourcetest.Refuses(t, Reader, at, text, says)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a\tb\tc\nc\tb\ta\n", true)
	f.Add("a\tb\t\xff\n", false)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string, types bool) {
		at := sourcetest.Folder(t, "", map[string]string{"train.txt": text, "test.txt": text})
		sourcetest.SoundAt(t, Reader, dir, text, at, source.Request{RelationsAsTypes: types})
	})
}

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
