package sourcetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Spell writes out all of a graph but its notes, a line for each thing: counts, columns, names, edges, splits, links.
func Spell(t testing.TB, g *source.Graph) string {
	t.Helper()
	s, err := spell(g)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// spellable is the most bytes of a column, or edges, that are spelt.
const spellable = 1 << 22

func spell(g *source.Graph) (string, error) {
	var s strings.Builder
	for _, n := range g.Nodes {
		fmt.Fprintf(&s, "%d %s", n.Count, n.Name)
		if n.Classes > 0 {
			fmt.Fprintf(&s, ", %d classes", n.Classes)
		}
		s.WriteByte('\n')
		if err := columns(&s, &n); err != nil {
			return "", err
		}
	}
	if err := edges(&s, g); err != nil {
		return "", err
	}
	for _, k := range g.Splits {
		fmt.Fprintf(&s, "%s %d of %s: %v\n", k.Name, k.Index, g.Nodes[k.NodeType].Name, k.IDs)
		if to := k.Targets; to != nil {
			fmt.Fprintf(&s, "  of type %d to %v by %v\n", to.EdgeType, to.IDs, to.Offsets)
		}
	}
	for _, k := range g.Links {
		fmt.Fprintf(&s, "%s %d links: %v > %v, types %v, labels %v\n", k.Name, k.Index, k.Src, k.Dst, k.Types, k.Labels)
	}
	return s.String(), nil
}

// columns writes columns and names of nodes, each on a line.
func columns(s *strings.Builder, n *source.NodeType) error {
	for _, c := range n.Columns {
		if n.Count*c.RowBytes() > spellable {
			fmt.Fprintf(s, "  %s %v%v: too large to spell\n", c.Name, c.DType, c.Shape)
			continue
		}
		var b bytes.Buffer
		err := c.Write(context.Background(), &b)
		if err == nil && int64(b.Len()) != n.Count*c.RowBytes() {
			err = fmt.Errorf("column %s: %d bytes for %d nodes", c.Name, b.Len(), n.Count)
		}
		if err != nil {
			return err
		}
		text, err := values(&c.Column, b.Bytes())
		if err != nil {
			return err
		}
		fmt.Fprintf(s, "  %s %v%v%s: %s\n", c.Name, c.DType, c.Shape, c.Unit, text)
	}
	for _, list := range n.Strings {
		var all []string
		if err := list.Each(func(x string) error { all = append(all, x); return nil }); err != nil {
			return err
		}
		if int64(len(all)) != list.Rows {
			return fmt.Errorf("list %s: %d strings, and %d were said", list.Name, len(all), list.Rows)
		}
		fmt.Fprintf(s, "  %s: %q\n", list.Name, all)
	}
	return nil
}

// edges writes the edges of each type on a line.
func edges(s *strings.Builder, g *source.Graph) error {
	if g.Edges.Count > spellable {
		fmt.Fprintf(s, "%d edges: too many to spell\n", g.Edges.Count)
		return nil
	}
	lines := make([][]string, len(g.Types))
	n := int64(0)
	if err := g.Edges.Each(func(b source.Batch) error {
		for i := range b.Src {
			at := source.TypeAt(b.Types, i)
			e := fmt.Sprintf("%d>%d", b.Src[i], b.Dst[i])
			for k, c := range g.Edges.Columns {
				w := c.RowBytes()
				text, err := values(&c, b.Columns[k][int64(i)*w:int64(i+1)*w])
				if err != nil {
					return err
				}
				e += ":" + strings.Trim(text, "[]")
			}
			lines[at] = append(lines[at], e)
			n++
		}
		return nil
	}); err != nil {
		return err
	}
	if n != g.Edges.Count {
		return fmt.Errorf("there are %d edges, and %d were said", n, g.Edges.Count)
	}
	for _, c := range g.Edges.Columns {
		fmt.Fprintf(s, "edge %s %v%v%s\n", c.Name, c.DType, c.Shape, c.Unit)
	}
	for i, e := range g.Types {
		fmt.Fprintf(s, "%s:%s:%s %s\n", g.Nodes[e.Source].Name, e.Relation, g.Nodes[e.Target].Name,
			strings.Join(lines[i], " "))
	}
	return nil
}

// values writes numbers.
func values(c *graph.Column, b []byte) (string, error) {
	words := unified.FromSlice(make([]uint64, (len(b)+7)/8)).Bytes()[:len(b)]
	copy(words, b)
	x, err := unified.New(c.DType, words, int64(len(b))/c.DType.Size())
	if err != nil {
		return "", err
	}
	if c.DType.IsHalf() {
		v, _ := unified.View[unified.Half](x)
		return fmt.Sprintf("%x", v), nil
	}
	if v, err := unified.View[uint64](x); err == nil {
		return fmt.Sprint(v), nil
	}
	at, err := unified.Numbers(x)
	if err != nil {
		return "", err
	}
	var all []float64
	for i := range x.Len() {
		all = append(all, at(i))
	}
	return strings.ReplaceAll(fmt.Sprint(all), " ", ","), nil
}
