package source

import (
	"bytes"
	"encoding/binary"
	"regexp"
)

// What NotLines calls files that some kinds of sources are.
const Zip, NumPy = "a zip archive", "a NumPy array"

// firstBytes are those of files that are neither tables nor edge lists.
var firstBytes = []struct{ bytes, what string }{
	{"SQLite format 3\x00", "an SQLite database"}, {"\x89HDF", "an HDF5 file"}, {"PK\x03\x04", Zip},
	{"ORC", "an ORC file"}, {"Obj\x01", "an Avro file"}, {"\x93NUMPY", NumPy}, {"%PDF", "a PDF file"},
	{"MATLAB 5.0 MAT", "a MATLAB file"}, {"<?xml", "an XML file"},
	{"<graphml", "a GraphML file"}, {"<gexf", "a GEXF file"}, {"<!DOCTYPE", "an HTML or XML file"},
	{"<html", "an HTML file"}, {"*Vertices", "a Pajek file"}, {"*vertices", "a Pajek file"},
	{"*Network", "a Pajek file"}, {"*network", "a Pajek file"},
}

// firstWords are the beginnings of texts that are not lines with fields.
var firstWords = []struct {
	begins *regexp.Regexp
	what   string
}{
	{regexp.MustCompile(`^\s*(?:(?:Creator|Version|comment)\b[^\n]*\s+)*graph\s*\[`), "a GML file"},
	{regexp.MustCompile(`^\s*(?:strict\s+)?(?:di)?graph\b[^\n,;\t]*\{`), "a DOT file"},
	{regexp.MustCompile(`^\s*(?:\{\s*["}\n]|\[\s*[{["\n])`), "a JSON file"},
}

// NotLines says what a file is by its first bytes, if it is not a text of lines with fields; "" if it may be one.
func NotLines(head []byte) string {
	for _, f := range firstBytes {
		if bytes.HasPrefix(head, []byte(f.bytes)) && (len(f.bytes) > 3 || bytes.IndexByte(head, 0) >= 0) {
			return f.what
		}
	}
	switch {
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return "a tar archive: unpack it first"
	case len(head) > 1 && head[0] == 0x80 && head[1] <= 5:
		return "a Python pickle, which is never executed"
	case Wide(head):
		return ""
	case oldStream(head):
		return "an Arrow stream of a version before 0.15"
	case bytes.IndexByte(head, 0) >= 0:
		return "not text: it holds zero bytes"
	}
	for _, f := range firstWords {
		if f.begins.Match(head) {
			return f.what
		}
	}
	return ""
}

// oldStream reports whether bytes begin with the length of a message and where in it a table of flatbuffers begins.
func oldStream(head []byte) bool {
	if len(head) < 16 {
		return false
	}
	n, root := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
	return n >= 16 && n < 1<<26 && n%4 == 0 && root >= 4 && root <= 64 && root < n
}
