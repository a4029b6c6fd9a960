package source

import (
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestFilesThatAreNoLinesAreKnown looks at the first bytes of files of other kinds, and of texts with fields.
func TestFilesThatAreNoLinesAreKnown(t *testing.T) {
	for head, want := range map[string]string{
		"SQLite format 3\x00\x10\x00": "an SQLite database", "\x89HDF\r\n\x1a\n": "an HDF5 file",
		"PK\x03\x04\x14\x00": "a zip archive", "ORC\x00\x01": "an ORC file", "\x80\x04\x95": "a Python pickle, which",
		"graph [\n  directed 0\n": "a GML file", "Creator \"x\"\nVersion 1\ngraph\n[\n": "a GML file",
		"digraph g {\n a -> b }": "a DOT file", "{\"nodes\": []}": "a JSON file", "[\n {\"a\": 1}]": "a JSON file",
		"[[0, 1], [1, 2]]": "a JSON file", "<?xml version=\"1.0\"?>": "an XML file", "*Vertices 3\n": "a Pajek file",
		"\xa8\x01\x00\x00\x10\x00\x00\x00\x00\x00\x0a\x00\x0c\x00\x06\x00": "an Arrow stream of a version " +
			"before 0.15",
		"\x00\x00\x00\x01\x02\x03": "not text: it holds zero bytes",
		"ab\x00\x00\x00\x00":       "not text: it holds zero bytes",
		"src,dst\n0,1\n":           "", "0 1\n": "", "graph,node\n0,1\n": "", "ORC,DST\na,b\n": "",
		"# graph [x]\n0 1\n":      "",
		"\xff\xfe0\x00 \x001\x00": "", "a,b\n[1,2],3\n": "", "[CLS] x\n": "", "digraph dst\n": "",
	} {
		got := NotLines([]byte(head))
		expect.That(t, strings.HasPrefix(got, want) && (want == "") == (got == ""), "%q is %q; want %q", head, got,
			want)
	}
}
