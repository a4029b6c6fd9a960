package convert

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
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
