package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

// spanish is a source in an encoding, whose names and strings are not ASCII: an edge list, a collection of MUSAE, or
// tables by a mapping.
func spanish(t *testing.T, kind string, encode func(string) (string, error)) string {
	t.Helper()
	file := func(text string) []byte { return []byte(expect.Must(encode(text))(t)) }
	dir := files(t, map[string]map[string][]byte{
		"edges": {"a.txt": file("src dst año\nJosé Begoña 5\nBegoña Iñaki 6\n")},
		"tables": {"n.csv": file("id,año,nombre\n0,5,José\n1,6,Iñaki\n"), "e.csv": file("s,d\n0,1\n"),
			"graph.yaml": []byte("nodes: {persona: {file: n.csv, id: id, columns: [año, nombre]}}\n" +
				"edges: {conoció: {file: e.csv, src: s, dst: d}}\n")},
		"pages": {"x_edges.csv": file("id_1,id_2\n0,1\n"), "x_features.json": file(`{"0": [0], "1": [1]}`),
			"x_target.csv": file("id,page_name,page_type\n0,José,compañía\n1,Iñaki,tvshow\n")},
	}[kind])
	if kind == "edges" {
		return filepath.Join(dir, "a.txt")
	}
	return dir
}

func TestSourcesAreReadInTheirEncoding(t *testing.T) {
	plain := func(s string) (string, error) { return s, nil }
	for _, c := range []struct {
		name, option, looks string
		encode              func(string) (string, error)
	}{
		{"latin-1", "latin-1", "latin-1", charmap.ISO8859_1.NewEncoder().String},
		{"windows-1252", "windows-1252", "latin-1", charmap.Windows1252.NewEncoder().String},
		{"utf-16", "utf-16", "utf-16", unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String},
		{"utf-16, big", "utf-16", "utf-16", unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String},
		{"utf-16, no mark", "utf-16", "utf-16",
			unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewEncoder().String},
		{"utf-8 with a mark", "latin-1", "", func(s string) (string, error) { return "\ufeff" + s, nil }},
	} {
		for _, kind := range []string{"edges", "tables", "pages"} {
			dst := filepath.Join(t.TempDir(), "data")
			expect.Must(Run(context.Background(), spanish(t, kind, plain), dst+".plain", Options{}))(t)
			src := spanish(t, kind, c.encode)
			if c.looks != "" {
				_, err := Run(context.Background(), src, dst, Options{})
				text := ""
				if err != nil {
					text = err.Error()
				}
				expect.That(t, errors.Is(err, graph.ErrText) && strings.Contains(text, "; byte ") &&
					strings.Contains(text, "read it by Encoding "+c.looks) &&
					(strings.HasPrefix(text, src+":") || strings.HasPrefix(text, filepath.Join(src, "n.csv")) ||
						strings.HasPrefix(text, filepath.Join(src, "x_target.csv"))), "%s, %s: %v", c.name, kind, err)
				_, err = os.Stat(dst)
				expect.That(t, errors.Is(err, os.ErrNotExist), "a dataset of what was refused: %v", err)
			}
			expect.Must(Run(context.Background(), src, dst, Options{Encoding: c.option}))(t)
			want, got := expect.Must(formats.Open(dst+".plain"))(t), expect.Must(formats.Open(dst))(t)
			expect.That(t, want.ID() == got.ID(), "%s, %s: another graph", c.name, kind)
			expect.OK(t, want.Close(), got.Close())
		}
	}
}

func TestWhatAnEncodingDoesNotHaveIsRefused(t *testing.T) {
	long := strings.Repeat("a b\n", 1<<16)
	for _, c := range []struct{ encoding, text, at string }{
		{"windows-1252", "a b\x81\n", "byte 3 "}, {"windows-1252", "\x81", "byte 0 "},
		{"windows-1252", long + "a \xe9\x9d\n", "byte 262,147 "},
		{"utf-16", "\xff\xfea\x00 \x00\x00\xdc\n\x00", "byte 6 "},
		{"utf-16", "a\x00 \x00b\x00\n\x00\x00", "byte 8 "},
	} {
		src := write(t, "a.txt", c.text)
		_, err := Run(context.Background(), src, filepath.Join(t.TempDir(), "data"), Options{Encoding: c.encoding})
		expect.That(t, err != nil && strings.Contains(err.Error(), c.at+"of the text is not in the encoding"), "%s: %v",
			c.encoding, err)
	}
}

// TestTablesOfANamedMappingAreReadInTheEncoding: a source that is the mapping itself, not its folder.
func TestTablesOfANamedMappingAreReadInTheEncoding(t *testing.T) {
	dir, dst := spanish(t, "tables", charmap.ISO8859_1.NewEncoder().String), filepath.Join(t.TempDir(), "data")
	put(t, dir, map[string]string{"graph.yaml": "nodes: {persona: {file: n.csv, id: id, columns: [nombre]}}\n" +
		"edges: {conoce: {file: e.csv, src: s, dst: d}}\n"})
	_, err := Run(context.Background(), filepath.Join(dir, "graph.yaml"), dst, Options{})
	expect.That(t, err != nil && strings.Contains(err.Error(), "it looks like latin-1; read it by Encoding latin-1"),
		"without the encoding: %v", err)
	expect.Must(Run(context.Background(), filepath.Join(dir, "graph.yaml"), dst, Options{Encoding: "latin-1"}))(t)
	ds := expect.Must(formats.Open(dst))(t)
	expect.Same(t, strs(ds, 0, "nombre"), []string{"José", "Iñaki"})
	expect.OK(t, ds.Close())
}
