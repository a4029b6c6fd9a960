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

// spanish is a source in an encoding: an edge list, or tables by a mapping, whose names and strings are not ASCII.
func spanish(t *testing.T, table bool, encode func(string) (string, error)) string {
	t.Helper()
	file := func(text string) []byte { return []byte(expect.Must(encode(text))(t)) }
	dir := t.TempDir()
	if !table {
		path := filepath.Join(dir, "a.txt")
		expect.OK(t, os.WriteFile(path, file("src dst año\nJosé Begoña 5\nBegoña Iñaki 6\n"), 0o600))
		return path
	}
	for name, data := range map[string][]byte{"n.csv": file("id,año,nombre\n0,5,José\n1,6,Iñaki\n"),
		"e.csv": file("s,d\n0,1\n"),
		"graph.yaml": []byte("nodes: {persona: {file: n.csv, id: id, columns: [año, nombre]}}\n" +
			"edges: {conoció: {file: e.csv, src: s, dst: d}}\n")} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
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
		for _, table := range []bool{false, true} {
			dst := filepath.Join(t.TempDir(), "data")
			expect.Must(Run(context.Background(), spanish(t, table, plain), dst+".plain", Options{}))(t)
			src := spanish(t, table, c.encode)
			if c.looks != "" {
				_, err := Run(context.Background(), src, dst, Options{})
				text := ""
				if err != nil {
					text = err.Error()
				}
				expect.That(t, errors.Is(err, graph.ErrText) && strings.Contains(text, "; byte ") &&
					strings.Contains(text, "read it by --encoding "+c.looks) &&
					(strings.HasPrefix(text, src+":") || strings.HasPrefix(text, filepath.Join(src, "n.csv"))),
					"%s, tables %t: %v", c.name, table, err)
				_, err = os.Stat(dst)
				expect.That(t, errors.Is(err, os.ErrNotExist), "a dataset of what was refused: %v", err)
			}
			expect.Must(Run(context.Background(), src, dst, Options{Encoding: c.option}))(t)
			want, got := expect.Must(formats.Open(dst+".plain"))(t), expect.Must(formats.Open(dst))(t)
			expect.That(t, want.ID() == got.ID(), "%s, tables %t: another graph", c.name, table)
			expect.OK(t, want.Close(), got.Close())
		}
	}
}

func TestWhatAnEncodingDoesNotHaveIsRefused(t *testing.T) {
	for encoding, text := range map[string]string{"windows-1252": "a b\x81\n",
		"utf-16": "\xff\xfea\x00 \x00\x00\xdc\n\x00"} {
		src := write(t, "a.txt", text)
		_, err := Run(context.Background(), src, filepath.Join(t.TempDir(), "data"), Options{Encoding: encoding})
		expect.That(t, err != nil && strings.Contains(err.Error(), "not in the encoding"), "%s: %v", encoding, err)
	}
}
