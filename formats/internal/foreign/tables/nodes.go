package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// graphOf is a graph being made of tables.
type graphOf struct {
	m      *Mapping
	at     source.Place
	r      *source.Request
	g      *source.Graph
	nodes  []*nodeType
	edges  []*edgeType
	opened map[string]*table
}

// table opens a table, once.
func (x *graphOf) table(ctx context.Context, rows rows) (*table, error) {
	if rows.wide != nil {
		return x.wide(ctx, rows.wide)
	}
	if t, ok := x.opened[rows.key()]; ok {
		return t, nil
	}
	t, err := open(ctx, x.at, rows.files, rows.format, x.r)
	if err == nil && rows.until != "" {
		err = t.limitTo(ctx, x.r, rows.until, rows.time)
	}
	if err == nil {
		x.opened[rows.key()] = t
	}
	return t, err
}

// readNodes opens the tables of nodes and numbers their ids.
func (x *graphOf) readNodes(ctx context.Context) error {
	if err := x.openNodes(ctx); err != nil {
		return err
	}
	for _, n := range x.nodes {
		if n.table == nil {
			continue
		}
		x.tellUntil(n)
		if err := n.readKeys(ctx, x.r, x.g); err != nil {
			return err
		}
	}
	return nil
}

// openNodes opens the tables of nodes, and finds the columns of their ids.
func (x *graphOf) openNodes(ctx context.Context) error {
	for i := range x.m.Nodes {
		n := &nodeType{spec: &x.m.Nodes[i], id: -1}
		x.nodes = append(x.nodes, n)
		x.g.Nodes = append(x.g.Nodes, source.NodeType{Name: n.spec.Type})
		if n.spec.Count > 0 {
			n.count, n.fixed = n.spec.Count, true
		}
		if len(n.spec.Files) == 0 && n.spec.Wide == nil {
			continue
		}
		var err error
		if n.table, err = x.table(ctx, n.spec.rows()); err != nil {
			return err
		}
		if n.spec.Count > 0 && n.spec.Count != n.table.count {
			return n.table.fail("", fmt.Errorf("there are %d rows, and the mapping says %d", n.table.count,
				n.spec.Count))
		}
		switch {
		case n.spec.ID != "":
			if n.id, err = n.table.column(n.spec.ID); err != nil {
				return err
			}
		case !n.spec.ByRow:
			n.id = n.table.has("id", "node_id", n.spec.Type+"_id")
		}
	}
	return nil
}

// describeNodes adds the columns of a node type.
func (x *graphOf) describeNodes(ctx context.Context, at int) error {
	n, node := x.nodes[at], &x.g.Nodes[at]
	node.Count = n.count
	if n.keys != nil && n.table == nil || n.text {
		node.Strings = append(node.Strings, n.keys.Strings("id"))
	}
	if n.table == nil {
		return nil
	}
	used := map[int]bool{}
	if n.id >= 0 {
		if n.text && n.table.list[n.id].Hex {
			if err := x.tell(ctx, n.table, n.id); err != nil {
				return err
			}
		}
		if used[n.id] = true; n.keys != nil && !n.text {
			node.Columns = append(node.Columns, n.column("id", []int{n.id}))
		}
	}
	n.table.leave(n.spec.Without, used)
	if n.spec.Kinds != nil {
		return x.database(ctx, n, node, used)
	}
	for _, step := range []func(context.Context, *nodeType, *source.NodeType, map[int]bool) error{x.features, x.label,
		x.split, x.others} {
		if err := step(ctx, n, node, used); err != nil {
			return err
		}
	}
	return nil
}

// leave marks columns as used that are to be left out, where they are there.
func (t *table) leave(names []string, used map[int]bool) {
	for _, name := range names {
		if i := t.has(name); i >= 0 {
			used[i] = true
		}
	}
}

// pack returns the type of columns that are laid side by side under a name, and the unit of times.
func (t *table) pack(name string, parts []int) (dtype unified.DType, unit string, width int64, err error) {
	if f := &t.list[parts[0]]; len(parts) == 1 && f.Times(name) {
		dtype, unit = f.Stored(name)
		return dtype, unit, f.Width, nil
	}
	for i, p := range parts {
		f := &t.list[p]
		if f.Text {
			return 0, "", 0, t.fail(f.Name, errors.New("is text, which cannot be a part of features"))
		}
		if i == 0 {
			dtype = f.Packed()
		} else if dtype != f.Packed() {
			dtype = unified.Float32
			if f.DType == unified.Float16 || t.list[parts[0]].DType == unified.Float16 {
				return 0, "", 0, t.fail(f.Name, errors.New("is float16 beside other types: make them one type"))
			}
		}
		width += f.Width
	}
	if width == 0 || width > columnar.MaxWidth {
		return 0, "", 0, t.fail(t.list[parts[0]].Name, fmt.Errorf("has rows of %d numbers", width))
	}
	return dtype, "", width, nil
}

// column returns columns of the table, side by side.
func (n *nodeType) column(name string, parts []int) source.Column {
	dtype, unit, width, err := n.table.pack(name, parts)
	c := source.Column{Column: graph.Column{Name: name, DType: dtype, Unit: unit}, Number: len(n.packed)}
	if width > 1 || n.table.list[parts[0]].List {
		c.Shape = []int64{width}
	}
	n.packed = append(n.packed, packed{name, parts, dtype, err})
	c.Write = func(ctx context.Context, w io.Writer) error {
		return n.write(ctx, []int{c.Number}, []io.Writer{w})
	}
	if n.table.isText() {
		if n.together == nil {
			n.together = &source.Together{Write: n.write}
		}
		c.Together = n.together
	}
	return c
}

// packed is columns of a table that become one of nodes.
type packed struct {
	name  string
	parts []int
	dtype unified.DType
	err   error
}

// write writes the rows of some of the packed columns, each to its writer, and reads the table once.
func (n *nodeType) write(ctx context.Context, numbers []int, to []io.Writer) error {
	var want []int
	for _, k := range numbers {
		if err := n.packed[k].err; err != nil {
			return err
		}
		want = append(want, n.packed[k].parts...)
	}
	var buf []byte
	return n.table.scan(ctx, want, func(b *columnar.Batch) (err error) {
		part, at := *b, 0
		for i, k := range numbers {
			p := &n.packed[k]
			part.Columns = b.Columns[at : at+len(p.parts)]
			at += len(p.parts)
			if buf, err = n.table.rows(&part, p.name, p.parts, p.dtype, buf[:0]); err == nil {
				_, err = to[i].Write(buf)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// rows appends the rows of columns side by side, as numbers of one type.
func (t *table) rows(b *columnar.Batch, name string, parts []int, dtype unified.DType, to []byte) ([]byte, error) {
	if f := &t.list[parts[0]]; len(parts) == 1 && f.Times(name) {
		to, err := f.TimesOf(&b.Columns[0], b.Rows, dtype, to)
		if err != nil {
			err = b.Fail(f.Name, err)
		}
		return to, err
	}
	var data [][]byte
	for k, p := range parts {
		f, v := &t.list[p], &b.Columns[k]
		if i := v.FirstNull(); i >= 0 && f.Packed() < unified.Float16 {
			missing := "the number is missing: fill it, or list the columns that are wanted under \"columns\""
			if t.wide {
				missing = "the number is missing, where there must be one: fill it"
			}
			return nil, b.Fail(f.Name, columnar.AtRow(i, errors.New(missing)))
		}
		data = append(data, f.PackedData(v))
	}
	if len(parts) == 1 {
		return source.Convert(to, t.list[parts[0]].Packed(), dtype, data[0]), nil
	}
	for i := range int64(b.Rows) {
		for k, p := range parts {
			f := &t.list[p]
			row := f.Packed().Size() * f.Width
			to = source.Convert(to, f.Packed(), dtype, data[k][i*row:(i+1)*row])
		}
	}
	return to, nil
}

// features adds the columns that are named as such, else one that is called so.
func (x *graphOf) features(ctx context.Context, n *nodeType, node *source.NodeType, used map[int]bool) error {
	var parts []int
	for _, name := range n.spec.Features {
		i, err := n.table.column(name)
		if err != nil {
			return err
		}
		parts = append(parts, i)
		used[i] = true
	}
	if parts == nil {
		i := n.table.usual("feature", "features", "feat", "x", "embedding")
		if i < 0 || used[i] || !n.table.list[i].List || n.table.list[i].Width == 0 {
			return nil
		}
		parts, used[i] = []int{i}, true
	}
	if _, _, _, err := n.table.pack("feature", parts); err != nil {
		return err
	}
	for _, i := range parts {
		if err := x.tell(ctx, n.table, i); err != nil {
			return err
		}
	}
	c := n.column("feature", parts)
	if c.Shape == nil {
		c.Shape = []int64{1}
	}
	node.Columns = append(node.Columns, c)
	return nil
}

// label adds the labels: numbers of classes, of which a missing one is -1, or names of classes, which are numbered as
// they appear.
func (x *graphOf) label(ctx context.Context, n *nodeType, node *source.NodeType, used map[int]bool) error {
	at := n.table.usual("label", "labels", "y")
	if at >= 0 && n.table.wide && !isClasses(&n.table.list[at]) {
		at = -1 // a column of another kind that is called so
	}
	if x.r.Label != "" && n.spec.Label == "" {
		at = n.table.has(x.r.Label)
	}
	if n.spec.Label != "" {
		var err error
		if at, err = n.table.column(n.spec.Label); err != nil {
			return err
		}
	}
	if at < 0 || used[at] {
		return nil
	}
	used[at] = true
	if err := x.tell(ctx, n.table, at); err != nil {
		return err
	}
	f := &n.table.list[at]
	if f.List {
		node.Columns = append(node.Columns, n.column("label", []int{at}))
		return nil
	}
	var names *source.Names
	if f.Text {
		names = source.NewNames(x.r.Budget)
		x.g.Own(names)
	}
	spool := &source.Spool{Budget: x.r.Budget}
	x.g.Own(spool)
	var got []int64
	err := n.table.scan(ctx, []int{at}, func(b *columnar.Batch) (err error) {
		if got, err = labels(f, &b.Columns[0], names, got[:0]); err != nil {
			return b.Fail(f.Name, err)
		}
		node.Classes = max(node.Classes, source.Classes(got))
		_, err = spool.Write(unified.FromSlice(got).Bytes())
		return err
	})
	if err != nil {
		return err
	}
	data, err := spool.Bytes()
	if names != nil && names.Len() > 0 {
		node.Strings = append(node.Strings, names.Strings("class").OfOthers())
		change := source.Said
		if n.spec.Label == "" {
			change = source.Renumbered
		}
		x.g.Tell(change, f.Name, names.Len(),
			"classes of %q are numbered as they appear, and \"class\" has their names",
			f.Name)
	}
	node.Columns = append(node.Columns, source.Bytes(graph.Column{Name: "label", DType: unified.Int64}, data))
	return err
}

// isClasses reports whether a column may be labels without being asked for: whole numbers.
func isClasses(f *columnar.Field) bool { return !f.Text && !f.DType.IsFloat() && f.Unit == "" }

func labels(f *columnar.Field, v *columnar.Vector, names *source.Names, to []int64) (_ []int64, err error) {
	if !f.Text {
		if to, err = columnar.Ints(f, v.Data, to); err != nil {
			return nil, err
		}
		for i := range to {
			if v.Null(i) {
				to[i] = missing
			}
		}
		return to, nil
	}
	for i, s := range v.Texts {
		id := int64(missing)
		if !v.Null(i) {
			if id, err = names.Number(s); err != nil {
				return nil, columnar.AtRow(i, err)
			}
		}
		to = append(to, id)
	}
	return to, nil
}

// splitNames are the names of splits, by what tables call them.
var splitNames = map[string]string{"train": "train", "training": "train", "val": "val", "valid": "val",
	"validation": "val", "dev": "val", "test": "test", "testing": "test"}

// split adds the splits: of a column of their names, or of masks.
func (x *graphOf) split(ctx context.Context, n *nodeType, node *source.NodeType, used map[int]bool) error {
	t, at := n.table, n.table.has("split")
	if x.byNoName(t) {
		at = -1
	}
	if n.spec.Split != "" {
		var err error
		if at, err = t.column(n.spec.Split); err != nil {
			return err
		}
	}
	lists := map[splitKey][]int64{}
	add := func(to splitKey, row int64) error {
		list := lists[to]
		err := source.Append(x.r.Budget.Ledger(), &list, row)
		lists[to] = list
		return err
	}
	most := 0 // index of a split
	switch {
	case at >= 0 && !used[at] && t.list[at].Text:
		used[at] = true
		if err := t.eachSplit(ctx, at, func(name string, row int64) error {
			return add(splitKey{name, 0}, row)
		}); err != nil {
			return err
		}
	case n.spec.Split != "":
		return t.fail(n.spec.Split, errors.New("a split is named: train, val or test"))
	default:
		for _, name := range []string{"train", "val", "test"} {
			mask := t.usual(name+"_mask", "is_"+name)
			for index := 0; mask >= 0; mask = t.usual(fmt.Sprintf("%s_%d_mask", name, index)) {
				if err := t.eachOfMask(ctx, mask, used, func(row int64) error {
					return add(splitKey{name, index}, row)
				}); err != nil {
					return err
				}
				most = max(most, index)
				index++
			}
		}
	}
	owner := slices.IndexFunc(x.g.Nodes, func(o source.NodeType) bool { return o.Name == node.Name })
	for _, name := range []string{"train", "val", "test"} {
		for index := range most + 1 {
			if ids := lists[splitKey{name, index}]; ids != nil {
				x.g.Splits = append(x.g.Splits, source.Split{Name: name, Index: index, NodeType: owner, IDs: ids})
			}
		}
	}
	return nil
}

// splitKey is which of several splits of a name is meant.
type splitKey struct {
	name  string
	index int
}

// eachOfMask calls add for the rows that a column of numbers marks, unless it has another part.
func (t *table) eachOfMask(ctx context.Context, mask int, used map[int]bool, add func(row int64) error) error {
	f := &t.list[mask]
	if used[mask] || f.Text || f.List || f.DType >= unified.Float16 {
		return nil
	}
	used[mask] = true
	row := int64(0)
	return t.scan(ctx, []int{mask}, func(b *columnar.Batch) error {
		for i := range b.Rows {
			at := int64(i) * f.DType.Size()
			if f.DType.Integer(b.Columns[0].Data[at:]) != 0 && !b.Columns[0].Null(i) {
				if err := add(row + int64(i)); err != nil {
					return err
				}
			}
		}
		row += int64(b.Rows)
		return nil
	})
}

// eachSplit calls add for each row with the split that it is in.
func (t *table) eachSplit(ctx context.Context, at int, add func(name string, row int64) error) error {
	row := int64(0)
	return t.scan(ctx, []int{at}, func(b *columnar.Batch) error {
		v := &b.Columns[0]
		for i, s := range v.Texts {
			text := strings.ToLower(strings.TrimSpace(string(s)))
			if v.Null(i) || text == "" || text == "none" {
				continue
			}
			name, ok := splitNames[text]
			if !ok {
				return b.Fail(t.list[at].Name, columnar.AtRow(i, fmt.Errorf("%.40q is none of train, val and test", s)))
			}
			if err := add(name, row+int64(i)); err != nil {
				return err
			}
		}
		row += int64(b.Rows)
		return nil
	})
}

// others adds the columns that have no other part, under their own names.
func (x *graphOf) others(ctx context.Context, n *nodeType, node *source.NodeType, used map[int]bool) error {
	t, have := n.table, map[string]bool{}
	for _, c := range node.Columns {
		have[c.Name] = true
	}
	add := func(name string, i int) error {
		if used[i] = true; have[name] {
			x.g.Tell(source.LeftOut, name, 1, "%s: the column %q is not stored: another has its name", t.name, name)
			return nil
		}
		have[name] = true
		if t.list[i].Width == 0 {
			return t.fail(name, errors.New("has lists of as many numbers as that of the first row, which has none"))
		}
		if t.list[i].Text && !t.list[i].Times(name) {
			node.Strings = append(node.Strings, t.strings(ctx, name, i))
		} else {
			node.Columns = append(node.Columns, n.column(name, []int{i}))
		}
		return x.tell(ctx, t, i)
	}
	if n.spec.Time != "" {
		i, err := t.column(n.spec.Time)
		if err != nil {
			return err
		}
		if err := add("time", i); err != nil {
			return err
		}
	}
	for _, k := range n.spec.Keys {
		i, err := t.column(k.Column)
		if err != nil {
			return err
		}
		used[i] = true
	}
	if n.spec.Columns != nil {
		for _, name := range *n.spec.Columns {
			i, err := t.column(name)
			if err == nil {
				err = add(name, i)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	rest, err := x.rest(ctx, t, used, x.byNoName(t))
	for _, i := range rest {
		if err == nil {
			err = add(t.list[i].Name, i)
		}
	}
	return err
}

// rest returns the columns of numbers that are not used, with texts if they are wanted, and names the others in a
// note.
func (x *graphOf) rest(ctx context.Context, t *table, used map[int]bool, texts bool) (list []int, err error) {
	var left []string
	for i, f := range t.list {
		switch {
		case used[i]:
		case f.Bad == "" && (!f.Text || f.Unit != "" || texts && !f.Bytes) && f.Width > 0:
			list = append(list, i)
		default:
			kind := f.String()
			if texts && f.Bytes {
				kind = "bytes"
			}
			if left = append(left, fmt.Sprintf("%s (%s)", f.Name, kind)); f.Doubt != nil {
				err = x.tell(ctx, t, i)
			}
		}
	}
	switch {
	case left != nil && texts:
		x.g.Tell(source.LeftOut, t.name, int64(len(left)),
			"%s: not stored, since they are neither numbers nor texts: %s", t.name, source.Few(left))
	case left != nil && x.byNoName(t):
		x.g.Tell(source.LeftOut, t.name, int64(len(left)), "%s: not stored, since edges have numbers alone: %s", t.name,
			source.Few(left))
	case left != nil:
		x.g.Tell(source.LeftOut, t.name, int64(len(left)),
			"%s: not stored, since they are not numbers: %s; name them under \"columns\"", t.name,
			source.Few(left))
	}
	return list, err
}

// strings returns a column of text.
func (t *table) strings(ctx context.Context, name string, at int) source.Strings {
	return source.Strings{Name: name, Rows: t.count, Each: func(yield func(string) error) error {
		return t.scan(ctx, []int{at}, func(b *columnar.Batch) error {
			for i, s := range b.Columns[0].Texts {
				if !utf8.Valid(s) {
					remedy := ""
					if t.list[at].Bytes {
						remedy = "write the column as text, or the table without it"
					}
					return source.Error(b.Path, name, b.At(i), remedy, fmt.Errorf("%.40q is %w", s, graph.ErrText))
				}
				if err := yield(string(s)); err != nil {
					return err
				}
			}
			return nil
		})
	}}
}
