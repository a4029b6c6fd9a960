package convert

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// What labels and features are called in whose place another column is taken.
const (
	formerLabel   = "source_label"
	formerFeature = "source_feature"
)

// choose makes the columns of Options.Feature and Label features and labels, names those that may be, and leaves out
// all columns but those of Options.Keep.
func (c *conversion) choose(ctx context.Context) error {
	if c.opt.Feature != "" {
		if err := c.chooseFeature(); err != nil {
			return err
		}
	}
	if c.opt.Label != "" {
		if err := c.chooseLabel(ctx); err != nil {
			return err
		}
	}
	c.tellCandidates()
	if c.opt.Keep != nil {
		return c.keep()
	}
	return nil
}

// chooseFeature makes a column of nodes their features. Features that were there keep another name.
func (c *conversion) chooseFeature() error {
	found, role := false, graph.Feature.String()
	for i := range c.graph.Nodes {
		n := &c.graph.Nodes[i]
		at := slices.IndexFunc(n.Columns, func(col source.Column) bool { return col.Name == c.opt.Feature })
		if found = found || at >= 0; at < 0 || c.opt.Feature == role {
			continue
		}
		for k := range n.Columns {
			if n.Columns[k].Name == role {
				n.Columns[k].Name = formerFeature
				c.graph.Note("%q: the features of the source are the column %q", n.Name, formerFeature)
			}
		}
		col := &n.Columns[at]
		if col.Name = role; len(col.Shape) == 0 {
			col.Shape = []int64{1}
		}
	}
	if !found {
		return option.Errorf(ErrOptions, c.opt, "Feature", ": no nodes have a column %q of numbers; there are: %s",
			c.opt.Feature, source.Few(c.names(false)))
	}
	return nil
}

// tellCandidates names columns that may be features or labels of nodes that have none: the names of the arrays do not
// say it.
func (c *conversion) tellCandidates() {
	if !slices.ContainsFunc(readers, func(r source.Reader) bool { return r.Name == c.kind && r.ByName }) {
		return
	}
	for i := range c.graph.Nodes {
		n := &c.graph.Nodes[i]
		for _, role := range []graph.Role{graph.Feature, graph.Label} {
			if slices.ContainsFunc(n.Columns, func(col source.Column) bool { return col.Role() == role }) {
				continue
			}
			var may []string
			for _, col := range n.Columns {
				if wide := len(col.Shape) > 0; col.Role() == graph.NoRole && wide == (role == graph.Feature) &&
					col.Unit == "" && !slices.Contains(c.opt.Keep, col.Name) {
					may = append(may, fmt.Sprintf("%q", col.Name))
				}
			}
			if may != nil {
				field := map[graph.Role]string{graph.Feature: "Feature", graph.Label: "Label"}[role]
				c.graph.Tell(source.Guessed, role.String(), int64(len(may)), "nodes %q have no column %q, and batches "+
					"leave out %s: name one that is meant by %s, or those that are not by %s", n.Name, role,
					source.Few(may), option.NameOf(c.opt, field), option.NameOf(c.opt, "Keep"))
			}
		}
	}
}

// chooseLabel makes a column of nodes their labels. Labels that were there keep another name.
func (c *conversion) chooseLabel(ctx context.Context) error {
	found := false
	for i := range c.graph.Nodes {
		n := &c.graph.Nodes[i]
		at := slices.IndexFunc(n.Columns, func(col source.Column) bool { return col.Name == c.opt.Label })
		text := slices.IndexFunc(n.Strings, func(s source.Strings) bool {
			return s.Name == c.opt.Label && !s.Others
		})
		if at < 0 && text < 0 {
			continue
		}
		if found = true; c.opt.Label == graph.Label.String() {
			continue
		}
		var labels []int64
		var err error
		if at >= 0 {
			labels, err = c.labelsOf(ctx, &n.Columns[at])
			n.Columns = slices.Delete(n.Columns, at, at+1)
		} else {
			labels, err = c.labelsOfText(n, text)
		}
		if err != nil {
			return err
		}
		for k := range n.Columns {
			if n.Columns[k].Role() == graph.Label {
				n.Columns[k].Name = formerLabel
				c.graph.Note("%q: the labels of the source are the column %q", n.Name, formerLabel)
			}
		}
		n.SetLabels(labels)
	}
	if !found {
		return option.Errorf(ErrOptions, c.opt, "Label", ": no nodes have a column %q; there are: %s", c.opt.Label,
			source.Few(c.names(false)))
	}
	return nil
}

// labelsOf reads a column of whole numbers.
func (c *conversion) labelsOf(ctx context.Context, col *source.Column) (labels []int64, err error) {
	if len(col.Shape) > 0 {
		return nil, option.Errorf(ErrOptions, c.opt, "Label", ": %q has rows of %d numbers", col.Name, col.Width())
	}
	err = col.Write(ctx, &arrayfile.WholeRows{Row: col.DType.Size(), Take: func(data []byte) error {
		if labels, err = source.Grow(&c.ledger, labels, len(data)/int(col.DType.Size())); err != nil {
			return err
		}
		for size := col.DType.Size(); len(data) > 0; data = data[size:] {
			v, whole := col.DType.Integer(data), true
			if col.DType.IsFloat() {
				x := col.DType.Float(data)
				if v = int64(x); x != x {
					v = -1
				} else {
					whole = float64(v) == x
				}
			}
			if !whole {
				return source.Error(c.src, col.Name, int64(len(labels)), "labels are whole numbers",
					fmt.Errorf("%v is no class", col.DType.Float(data)))
			}
			labels = append(labels, v)
		}
		return nil
	}})
	return labels, err
}

// labelsOfText numbers the texts of nodes as they appear; those are the names of the classes.
func (c *conversion) labelsOfText(n *source.NodeType, at int) (labels []int64, err error) {
	names := source.NewNames(&c.budget)
	c.graph.Own(names)
	err = n.Strings[at].Each(func(s string) (err error) {
		id := int64(-1)
		if strings.TrimSpace(s) != "" {
			if id, err = names.Number([]byte(s)); err != nil {
				return err
			}
		}
		return source.Append(&c.ledger, &labels, id)
	})
	if names.Len() > 0 && err == nil {
		n.Strings = slices.DeleteFunc(n.Strings, func(s source.Strings) bool { return s.Name == "class" })
		n.Strings = append(n.Strings, names.Strings("class").OfOthers())
	}
	return labels, err
}

// keep leaves out the columns that are not named.
func (c *conversion) keep() error {
	for _, name := range c.opt.Keep {
		if !slices.Contains(c.names(true), name) {
			return option.Errorf(ErrOptions, c.opt, "Keep", ": there is no column %q; there are: %s", name,
				source.Few(c.names(true)))
		}
	}
	var left []string
	goes := func(name string) bool {
		if slices.Contains(c.opt.Keep, name) {
			return false
		}
		left = append(left, name)
		return true
	}
	for i := range c.graph.Nodes {
		n := &c.graph.Nodes[i]
		n.Columns = slices.DeleteFunc(n.Columns, func(col source.Column) bool { return goes(col.Name) })
		n.Strings = slices.DeleteFunc(n.Strings, func(s source.Strings) bool {
			return !s.Others && goes(s.Name)
		})
	}
	for _, col := range c.graph.Edges.Columns {
		goes(col.Name)
	}
	c.keepOfEdges()
	if left != nil {
		c.graph.Tell(source.Said, "columns", int64(len(left)), "left out, by request: %s", source.Few(left))
	}
	return nil
}

// keepOfEdges leaves out the columns of edges that are not named, if some are.
func (c *conversion) keepOfEdges() {
	if c.opt.Keep == nil {
		return
	}
	var kept []int
	var columns []graph.Column
	for i, col := range c.graph.Edges.Columns {
		if slices.Contains(c.opt.Keep, col.Name) {
			kept, columns = append(kept, i), append(columns, col)
		}
	}
	each := c.graph.Edges.Each
	c.graph.Edges.Columns = columns
	c.graph.Edges.Each = func(yield func(source.Batch) error) error {
		return each(func(b source.Batch) error {
			some := make([][]byte, len(kept))
			for i, k := range kept {
				some[i] = b.Columns[k]
			}
			b.Columns = some
			return yield(b)
		})
	}
}

// names returns the names of all columns, of the nodes alone or of edges too.
func (c *conversion) names(edges bool) (list []string) {
	for _, n := range c.graph.Nodes {
		for _, col := range n.Columns {
			list = append(list, col.Name)
		}
		for _, s := range n.Strings {
			list = append(list, s.Name)
		}
	}
	for _, col := range c.graph.Edges.Columns {
		if edges {
			list = append(list, col.Name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

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
	set := graph.SeedSet{Type: s.NodeType, IDs: list, Times: s.Times}
	if s.Labels != nil {
		var err error
		set.Labels, err = unified.New(s.Label.DType, s.Labels, append([]int64{rows}, s.Label.Shape...)...)
		if err != nil {
			return err
		}
	}
	seeds := graph.Seeds{Sets: []graph.SeedSet{set}}
	if to := s.Targets; to != nil {
		seeds = graph.Seeds{Edges: []graph.EdgeSet{{Type: to.EdgeType, Sources: list, Times: s.Times,
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
