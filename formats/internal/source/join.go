package source

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// Part is the edges of one edge type.
type Part struct {
	Edges     // of type 0
	Type  int // index of Graph.Types
	// Reverse is the index of a second type, with the same edges the other way round; -1: none.
	Reverse int
}

// Join makes the edges of several types those of the graph, which has its types already. A graph has one list of
// columns: where two parts have a column of the same name, it gets a type that holds the numbers of both, and of times
// the finer unit; where a part has none, it is 1 for "weight", NoTime for times, else NaN or 0, and a note says so. An
// error names the column.
func (g *Graph) Join(parts []Part) error {
	for _, p := range parts {
		g.Edges.Count += p.Count
		if p.Reverse >= 0 {
			g.Edges.Count += p.Count
		}
		for _, c := range p.Columns {
			if err := g.unite(c); err != nil {
				return err
			}
		}
	}
	for _, p := range parts {
		for i, c := range g.Edges.Columns {
			if named(p.Columns, c.Name) < 0 && isTime(&c) && !c.DType.IsFloat() {
				g.Edges.Columns[i].DType = unified.Int64 // holds NoTime
			}
		}
	}
	for _, p := range parts {
		for _, c := range g.Edges.Columns {
			if named(p.Columns, c.Name) < 0 {
				g.Tell(Altered, c.Name, p.Count, "edges %q have no column %q: it is %s there", g.Types[p.Type].Relation,
					c.Name, absent(&c))
			}
		}
	}
	if len(parts) == 1 && len(g.Types) == 1 {
		g.Edges = parts[0].Edges
		return nil
	}
	columns := slices.Clone(g.Edges.Columns)
	g.Edges.Each = func(yield func(Batch) error) error {
		for i := range parts {
			if err := parts[i].each(columns, yield); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

func named(list []graph.Column, name string) int {
	return slices.IndexFunc(list, func(c graph.Column) bool { return c.Name == name })
}

// unite makes a column one of the graph's.
func (g *Graph) unite(c graph.Column) error {
	i := named(g.Edges.Columns, c.Name)
	if i < 0 {
		g.Edges.Columns = append(g.Edges.Columns, c)
		return nil
	}
	have := &g.Edges.Columns[i]
	if (have.Unit == "") != (c.Unit == "") {
		return option.Textf("%w: the column %q has the unit %q at some edges and %q at others; say by %s what "+
			"plain numbers are in, or rename one of them", ErrTimes, c.Name, have.Unit, c.Unit, option.Named("TimesIn"))
	}
	if have.Unit != c.Unit || c.Unit != "" { // numbers of one are not those of the other
		have.Unit, have.DType, c.DType = Finer(have.Unit, c.Unit), unified.Int64, unified.Int64
	}
	dtype := Common(have.DType, c.DType)
	if !slices.Equal(have.Shape, c.Shape) || dtype == unified.Invalid {
		return fmt.Errorf("the column %q has rows of %v %v, and that of other edges %v %v: rename one of them",
			c.Name, c.DType, c.Shape, have.DType, have.Shape)
	}
	have.DType = dtype
	return nil
}

// each yields the edges of the part with the columns of all, and then, batch by batch, their reverses.
func (p *Part) each(columns []graph.Column, yield func(Batch) error) error {
	out := Batch{Columns: make([][]byte, len(columns))}
	return p.Each(func(b Batch) error {
		for i := range columns {
			c := &columns[i]
			if k := named(p.Columns, c.Name); k >= 0 && p.Columns[k].Unit != c.Unit {
				var err error
				if out.Columns[i], err = ConvertTimes(out.Columns[i][:0], p.Columns[k], c.Unit,
					b.Columns[k]); err != nil {
					return err
				}
			} else if k >= 0 {
				out.Columns[i] = Convert(out.Columns[i][:0], p.Columns[k].DType, c.DType, b.Columns[k])
			} else {
				out.Columns[i] = fill(out.Columns[i][:0], c, len(b.Src))
			}
		}
		out.Src, out.Dst = b.Src, b.Dst
		out.setType(p.Type)
		if err := yield(out); err != nil || p.Reverse < 0 {
			return err
		}
		out.Src, out.Dst = b.Dst, b.Src
		out.setType(p.Reverse)
		return yield(out)
	})
}

func (b *Batch) setType(t int) {
	b.Types = slices.Grow(b.Types[:0], len(b.Src))[:len(b.Src)]
	for i := range b.Types {
		b.Types[i] = uint16(t)
	}
}

// absent says what a column holds where edges have none.
func absent(c *graph.Column) string {
	switch {
	case c.Role() == graph.Weight:
		return "1"
	case isTime(c) && c.DType == unified.Int64:
		return "-2^63"
	case c.DType.IsFloat():
		return "NaN"
	}
	return "0"
}

// isTime reports whether a column has times.
func isTime(c *graph.Column) bool { return c.Role() == graph.Time || c.Unit != "" }

// fill appends rows of a column that edges do not have.
func fill(to []byte, c *graph.Column, rows int) []byte {
	b := make([]byte, c.DType.Size())
	switch absent(c) {
	case "NaN":
		c.DType.Put(b, math.NaN())
	case "1":
		c.DType.Put(b, 1)
	case "-2^63":
		c.DType.Put(b, NoTime)
	}
	for range int64(rows) * c.RowBytes() / c.DType.Size() {
		to = append(to, b...)
	}
	return to
}

// Common returns a type that holds the numbers of both; Invalid for floats of 16 bits beside another type.
func Common(a, b unified.DType) unified.DType {
	switch {
	case a == b:
		return a
	case a.IsHalf() || b.IsHalf():
		return unified.Invalid
	case a.IsFloat() && b.IsFloat():
		return unified.Float64
	case a.IsFloat() && b.Size() <= 2, b.IsFloat() && a.Size() <= 2:
		return max(a, b)
	case a.IsFloat() || b.IsFloat():
		return unified.Float64
	}
	return unified.Int64
}

// Convert appends little-endian numbers of one type as those of another: int64, float32 or float64.
func Convert(to []byte, from, into unified.DType, data []byte) []byte {
	if from == into {
		return append(to, data...)
	}
	for size := from.Size(); int64(len(data)) >= size; data = data[size:] {
		switch into {
		case unified.Int64:
			to = binary.LittleEndian.AppendUint64(to, uint64(from.Integer(data)))
		case unified.Float32:
			to = binary.LittleEndian.AppendUint32(to, math.Float32bits(float32(from.Float(data))))
		default:
			to = binary.LittleEndian.AppendUint64(to, math.Float64bits(from.Float(data)))
		}
	}
	return to
}
