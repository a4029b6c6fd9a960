package source

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// readText reads a text in pieces of a size.
func readText(t testing.TB, text string, size int) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text")
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	f, err := OpenText(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var got strings.Builder // without the faster ways to copy, which have buffers of their own
	_, err = io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{f}, make([]byte, size))
	return got.String(), err
}

func TestTextIsMadePlainWhereverItIsCut(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a\nb": "a\nb", "a\r\nb\r\n": "a\r\nb\r\n", "\xef\xbb": "\xef\xbb", "\xef\xbb\xbfa\n": "a\n",
		"a\rb\r\rc\r":                 "a\nb\n\nc\n",
		"a\r\r\nb\n\rc":               "a\n\r\nb\n\nc",
		"a\xef\xbb\xbe\xefb\n":        "a\xef\xbb\xbe\xefb\n",
		"\xef\xbb\xbf\xef\xbb\xbfa":   "error 1",
		"a\nb\r\nc\rd\xef\xbb\xbfe\n": "error 4",
		"a\r\n\xef\xbb\xbf":           "error 2",
		"\xff\xfea\x00":               "error -1", "\xfe\xff\x00a": "error -1", "\x00\x00\xfe\xff": "error -1",
	} {
		for size := 1; size < 8; size++ {
			got, err := readText(t, text, size)
			at := (*formats.Error)(nil)
			switch row, fails := strings.CutPrefix(want, "error "); {
			case !fails && (err != nil || got != want):
				t.Errorf("%q by %d is %q, %v; want %q", text, size, got, err, want)
			case fails && (!errors.As(err, &at) || row != map[int64]string{-1: "-1", 1: "1", 2: "2", 4: "4"}[at.Row]):
				t.Errorf("%q by %d: %v; want row %s", text, size, err, row)
			}
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\rb\r\n", 3)
	f.Add("\xef\xbb\xbfa\n\xef\xbb", 2)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = 1 + int(uint(size)%64)
		want := strings.TrimPrefix(text, mark)
		want = strings.NewReplacer("\r\n", "\r\n", "\r", "\n").Replace(want)
		if Wide([]byte(text)) {
			return
		}
		got, err := readText(t, text, size)
		cut, _, bad := strings.Cut(want, mark)
		expect.That(t, (err != nil) == bad && got == cut, "%q by %d is %q, %v; want %q", text, size, got, err, cut)
	})
}

func BenchmarkText(b *testing.B) {
	path := filepath.Join(b.TempDir(), "text")
	for name, line := range map[string]string{"LF": "123456 7890\n", "CRLF": "123456 7890\r\n"} {
		b.Run(name, func(b *testing.B) {
			expect.OK(b, os.WriteFile(path, bytes.Repeat([]byte(line), 1<<20), 0o600))
			b.SetBytes(int64(len(line)) << 20)
			p := make([]byte, 1<<21)
			for range b.N {
				f, err := OpenText(path)
				expect.OK(b, err)
				for err == nil {
					_, err = f.Read(p)
				}
				f.Close()
			}
		})
	}
}

// A file that has fewer bytes than it states, as one that is cut while it is read, is not taken for a whole one.
func TestAFileThatEndsBeforeItsSizeIsAnError(t *testing.T) {
	const size, left = 1 << 20, 600_000
	path := filepath.Join(t.TempDir(), "edges.txt")
	for name, read := range map[string]func(p Place) error{
		"as a stream": func(p Place) error {
			f := expect.Must(p.Open())(t)
			defer f.Close()
			expect.OK(t, os.Truncate(path, left))
			_, err := io.Copy(io.Discard, f)
			return err
		},
		"whole, where it is not mapped": func(p Place) error {
			r := expect.Must(p.Raw())(t)
			defer r.Close()
			r.file = nil
			expect.OK(t, os.Truncate(path, left))
			_, err := r.Whole(&Budget{Dir: t.TempDir()})
			return err
		},
	} {
		expect.OK(t, os.WriteFile(path, make([]byte, size), 0o600))
		err := read(Local(path))
		expect.That(t, errors.Is(err, io.ErrUnexpectedEOF) &&
			strings.Contains(err.Error(), "it ends at byte 600000 of 1048576"), "%s: %v", name, err)
	}
}

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
