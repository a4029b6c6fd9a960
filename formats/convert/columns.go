package convert

import (
	"context"
	"io"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// commitColumns writes the remaining arrays, the columns of nodes, and commits.
func (c *conversion) commitColumns(ctx context.Context, w *formats.Writer, s *graph.Schema) error {
	if err := c.writeColumns(ctx, w, s); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.Commit(*s)
}

// writeColumns writes node columns, names and splits.
func (c *conversion) writeColumns(ctx context.Context, w *formats.Writer, s *graph.Schema) error {
	for t, n := range c.graph.Nodes {
		for list := n.Columns; len(list) > 0; {
			k := c.together(list)
			if err := c.writeSome(ctx, w, t, list[:k]); err != nil {
				return err
			}
			list = list[k:]
		}
		for _, list := range n.Strings {
			sw, err := w.NodeStrings(t, list.Name, list.Rows)
			if err := fill(sw, err, func() error { return list.Each(sw.Write) }); err != nil {
				return err
			}
		}
	}
	return c.writeSplits(w, s)
}

// maxTogether is the most columns that are written together, each with an open file.
const maxTogether = 512

// together returns how many of the columns are written with the first one, while their source is read once: those that
// lie together there, as far as a quarter of the memory holds what writing takes.
func (c *conversion) together(list []source.Column) int {
	most := max(1, min(maxTogether, c.ledger.Left()/4/arrayfile.WriterMemory))
	n := 1
	for int64(n) < most && n < len(list) && list[0].Together != nil && list[n].Together == list[0].Together {
		n++
	}
	return n
}

// writeSome writes some columns of a node type: one, or several that lie together.
func (c *conversion) writeSome(ctx context.Context, w *formats.Writer, t int, list []source.Column) error {
	if len(list) == 1 {
		cw, err := w.NodeColumn(t, list[0].Column, c.graph.Nodes[t].Count)
		return fill(cw, err, func() error { return list[0].Write(ctx, cw) })
	}
	memory := int64(len(list)) * arrayfile.WriterMemory
	if err := c.ledger.Take(pinned.Sources, memory); err != nil {
		return err
	}
	defer c.ledger.Give(pinned.Sources, memory)
	var all []*formats.ColumnWriter
	var numbers []int
	var to []io.Writer
	for _, col := range list {
		cw, err := w.NodeColumn(t, col.Column, c.graph.Nodes[t].Count)
		if err != nil {
			return err
		}
		all, numbers, to = append(all, cw), append(numbers, col.Number), append(to, cw)
	}
	if err := list[0].Together.Write(ctx, numbers, to); err != nil {
		return err
	}
	for _, cw := range all {
		if err := cw.Close(); err != nil {
			return err
		}
	}
	return nil
}

// writeSplits writes seeds and links.
func (c *conversion) writeSplits(w *formats.Writer, schema *graph.Schema) error {
	narrow := schema.IDType() == unified.Int32
	put := func(cw *formats.ColumnWriter, err error, data []byte) error {
		return fill(cw, err, func() error { _, err := cw.Write(data); return err })
	}
	for i := range c.graph.Splits {
		split := &c.graph.Splits[i]
		if split.Task != "" {
			if err := writeTable(w, split, schema, put); err != nil {
				return err
			}
			continue
		}
		list := ids(split.IDs, narrow)
		cw, err := w.Split(split.Name, split.Index, split.NodeType, list.DType(), list.Len())
		if err := put(cw, err, list.Bytes()); err != nil {
			return err
		}
	}
	for i := range c.graph.Links {
		for _, k := range byType(&c.graph.Links[i], len(c.graph.Types)) {
			t, n := c.graph.Types[k.typ], int64(len(k.Src))
			for end, list := range [][]int64{k.Src, k.Dst, k.Labels} {
				if list == nil {
					continue
				}
				rows := ids(list, narrow && end < 2)
				cw, err := w.Links(k.Name, k.Index, k.typ, []int{t.Source, t.Target, 0}[end],
					[]string{"source", "target", "label"}[end], rows.DType(), n)
				if err := put(cw, err, rows.Bytes()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// writeTable writes the table of a task.
func writeTable(w *formats.Writer, s *source.Split, schema *graph.Schema,
	put func(*formats.ColumnWriter, error, []byte) error) error {
	rows, narrow := int64(len(s.IDs)), schema.IDType() == unified.Int32
	list := ids(s.IDs, narrow)
	set := graph.SeedSet{Type: s.NodeType, IDs: list, Times: s.Times, From: s.From}
	if s.Labels != nil {
		var err error
		set.Labels, err = unified.New(s.Label.DType, s.Labels, append([]int64{rows}, s.Label.Shape...)...)
		if err != nil {
			return err
		}
	}
	seeds := graph.Seeds{Sets: []graph.SeedSet{set}}
	if to := s.Targets; to != nil {
		seeds = graph.Seeds{Edges: []graph.EdgeSet{{Type: to.EdgeType, Sources: list, Times: s.Times, From: s.From,
			Targets: ids(to.IDs, narrow), Offsets: to.Offsets}}}
	}
	return w.Table(s.Task+":"+s.Name, seeds, schema, func(cw *formats.ColumnWriter, err error, t unified.Tensor) error {
		return put(cw, err, t.Bytes())
	})
}

// typedLink is the links of one edge type.
type typedLink struct {
	source.Link
	typ int
}

// byType returns links by their edge type, in order; those of type 0 also where there are none.
func byType(k *source.Link, types int) []typedLink {
	if k.Types == nil {
		return []typedLink{{*k, 0}}
	}
	parts := make([]typedLink, types)
	for i, t := range k.Types {
		p := &parts[t]
		p.Src, p.Dst = append(p.Src, k.Src[i]), append(p.Dst, k.Dst[i])
		if k.Labels != nil {
			p.Labels = append(p.Labels, k.Labels[i])
		}
	}
	var list []typedLink
	for t := range parts {
		if p := parts[t]; p.Src != nil || t == 0 {
			p.typ, p.Name, p.Index = t, k.Name, k.Index
			if p.Src == nil {
				p.Src, p.Dst = []int64{}, []int64{}
			}
			list = append(list, p)
		}
	}
	return list
}

// fill writes what an open writer is for, and closes it.
func fill(w io.Closer, err error, write func() error) error {
	if err == nil {
		err = write()
	}
	if err == nil {
		err = w.Close()
	}
	return err
}
