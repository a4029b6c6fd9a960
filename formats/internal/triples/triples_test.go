package triples

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// spell writes a graph in one line.
func spell(t testing.TB, g *source.Graph) string {
	t.Helper()
	s := fmt.Sprintf("%d nodes, %d types:", g.Node().Count, len(g.Types))
	expect.OK(t, g.Edges.Each(func(b source.Batch) error {
		for i := range b.Src {
			rel := 0
			if b.Types != nil {
				rel = int(b.Types[i])
			} else {
				rel = int(b.Columns[0][4*i])
			}
			s += fmt.Sprintf(" %d-%d>%d", b.Src[i], rel, b.Dst[i])
		}
		return nil
	}))
	for _, l := range g.Links {
		s += fmt.Sprintf("; %s %d>%d %d%d", l.Name, l.Src, l.Dst, l.Labels, l.Types)
	}
	for _, list := range g.Node().Strings {
		s += "; " + list.Name
		_ = list.Each(func(name string) error { s += " " + name; return nil })
	}
	return s
}

func TestTriplesAreEdgesAndLinks(t *testing.T) {
	files := map[string]string{"train.txt": "007\t/is/a\tx\nx\tlikes:it\t007\r\n007\t/is/a\ty\n",
		"valid.txt": "y\tlikes:it\tz\n", "test.txt": "x\t/is/a\tx\n", "about.md": "words"}
	for _, c := range []struct {
		types bool
		want  string
	}{
		{false, "4 nodes, 1 types: 0-0>1 1-1>0 0-0>2; val [2]>[3] [1][]; test [1]>[1] [0][]; id 007 x y z; " +
			"relation /is/a likes:it"},
		{true, "4 nodes, 2 types: 0-0>1 1-1>0 0-0>2; val [2]>[3] [][1]; test [1]>[1] [][0]; id 007 x y z; " +
			"relation /is/a likes:it"},
	} {
		at := sourcetest.Folder(t, "", files)
		if found := Reader.Find(at.Tree); fmt.Sprint(found) != "[.]" {
			t.Fatalf("found %v", found)
		}
		g := expect.Must(Reader.Read(context.Background(), at, &source.Request{RelationsAsTypes: c.types}))(t)
		if got := spell(t, g); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if c.types && g.Types[1].Relation != "likes_it" {
			t.Errorf("types %v", g.Types)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
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
	f.Fuzz(func(t *testing.T, text string, types bool) {
		at := sourcetest.Folder(t, "", map[string]string{"train.txt": text, "test.txt": text})
		g, err := Reader.Read(context.Background(), at, &source.Request{RelationsAsTypes: types})
		if err != nil {
			return
		}
		defer g.Close()
		n := int64(0)
		if err := g.Edges.Each(func(b source.Batch) error {
			n += int64(len(b.Src))
			for i := range b.Src {
				if b.Src[i] >= g.Node().Count || b.Dst[i] >= g.Node().Count || types &&
					int(b.Types[i]) >= len(g.Types) {
					t.Fatalf("edge %d>%d", b.Src[i], b.Dst[i])
				}
			}
			return nil
		}); err != nil || n != g.Edges.Count {
			t.Fatal(n, err)
		}
	})
}
