package metis

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// spell writes a graph in one line.
func spell(t testing.TB, g *source.Graph) string {
	t.Helper()
	s := fmt.Sprintf("%d:", g.Node().Count)
	expect.OK(t, g.Edges.Each(func(b source.Batch) error {
		for i := range b.Src {
			s += fmt.Sprintf(" %d>%d", b.Src[i], b.Dst[i])
			if len(b.Columns) > 0 {
				s += fmt.Sprintf(":%d", binary.LittleEndian.Uint64(b.Columns[0][8*i:]))
			}
		}
		return nil
	}))
	for _, c := range g.Node().Columns {
		var b bytes.Buffer
		expect.OK(t, c.Write(context.Background(), &b))
		s += fmt.Sprintf("; %s%v", c.Name, c.Shape)
		for v := b.Bytes(); len(v) > 0; v = v[8:] {
			s += fmt.Sprintf(" %d", binary.LittleEndian.Uint64(v))
		}
	}
	return s
}

func TestNeighboursAreEdges(t *testing.T) {
	for text, want := range map[string]string{
		"% c\n3 2\n2\n1 3\n% c\n2\n":                  "3: 0>1 1>0 1>2 2>1",
		"3 1\n\n3\n2":                                 "3: 1>2 2>1",
		"2 1 001\n2 7\n1 7\n":                         "2: 0>1:7 1>0:7",
		"2 1 111 2\r\n5 6 7 2 9\r\n8 1 2 1 9\r\n\r\n": "2: 0>1:9 1>0:9; size[] 5 8; weight[2] 6 7 1 2",
		"2 0 10\n4\n5\n":                              "2:; weight[] 4 5",
	} {
		g, err := Reader.Read(context.Background(), sourcetest.File(t, "m.graph", text), &source.Request{})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := spell(t, g); got != want {
			t.Errorf("%q\ngot  %s\nwant %s", text, got, want)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBadGraphsNameTheirLine(t *testing.T) {
	for text, says := range map[string]string{
		"":                                  "lines of 0 nodes",
		"3\n":                               "row 1: the header has 1 field",
		"3 1 012\n":                         "row 1: the format",
		"2 1\n2\n3\n":                       "row 3: neighbour 3 is not in 1 .. 2",
		"2 1\n2\n0\n":                       "neighbour 0",
		"2 1\n2\n-1\n":                      "row 3: '-' in a number",
		"2 1\n2\n":                          "lines of 1 node, not 2",
		"2 1\n2\n1\n1\n":                    "row 4: a line behind those of 2 nodes",
		"2 2\n2\n1\n":                       "2 neighbours are listed, not twice the 2 edges",
		"2 1 1\n2\n1 3\n":                   "row 2: neighbour 2 has no weight",
		"2 1 10 2\n1\n1 1 1\n":              "row 2: node 1 has fewer than 2 weights",
		"99999999999 1\n2\n1\n":             "99999999999 nodes, but only 1 edge",
		"2 1\n2 999999999999999999999999\n": "in a number",
	} {
		sourcetest.Refuses(t, Reader, sourcetest.File(t, "m.graph", text), text, says)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("% c\n3 2\n2\n1 3\n% c\n2\n")
	f.Add("2 1 111 2\r\n5 6 7 2 9\r\n8 1 2 1 9\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Reader.Read(context.Background(), sourcetest.File(t, "m.graph", text), &source.Request{})
		if err != nil {
			return
		}
		defer g.Close()
		expect.OK(t, g.Edges.Each(func(b source.Batch) error {
			for i := range b.Src {
				if b.Src[i] >= g.Node().Count || b.Dst[i] >= g.Node().Count {
					t.Fatalf("edge %d>%d", b.Src[i], b.Dst[i])
				}
			}
			return nil
		}))
	})
}
