package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Addition is an array that is added to a dataset: a .npy file.
type Addition struct {
	Name string // of the column or split
	Type string // of the nodes; "" where the dataset has one type
	Path string
}

// UnmarshalText reads "name=file" or "type:name=file".
func (a *Addition) UnmarshalText(text []byte) error {
	name, path, ok := strings.Cut(string(text), "=")
	*a = Addition{Name: name, Path: path}
	typ, of, typed := strings.Cut(name, ":")
	if typed {
		a.Type, a.Name = typ, of
	}
	if !ok || a.Name == "" || typed && typ == "" || a.Path == "" {
		return fmt.Errorf("%q: write name=file.npy, or type:name=file.npy for nodes of a type", text)
	}
	return nil
}

// AddOptions say what to add, and how.
type AddOptions struct {
	// Columns have a row a node, by own id.
	Columns []Addition `name:"column" kind:"each" value:"NAME=FILE" help:"Add a column of nodes from a .npy file."`
	// EdgeColumns have a row an edge, in the order of the dataset.
	EdgeColumns []Addition `name:"edge-column" kind:"each" value:"NAME=FILE" help:"Add a column of edges."`
	// Splits are own ids, or a boolean a node.
	Splits []Addition `name:"split" kind:"each" value:"NAME=FILE" help:"Add a split: ids, or a boolean a node."`
	Force  bool       `help:"Replace columns and splits of the same names."`
	Strict bool       `help:"Fail where splits would share nodes."`
	// TimesIn is the unit of added times that are plain numbers; "": nobody says it.
	TimesIn string `same:"times-in" choices:"s,ms,us,ns" empty:"as-is" default:"as-is" help:"Unit of plain numbers:"`
	// MemoryLimit is that of Options.
	MemoryLimit int64 `same:"max-memory" kind:"size" help:"Memory to take at most; default: a quarter of what is free."`
	Progress    formats.Progress
	// Log, if set, is told what a person should know of it, a line at a time.
	Log func(line string)
}

// sort says what an addition is.
type sort uint8

const (
	nodeColumn sort = iota
	edgeColumn
	split
)

// additions returns what to add.
func (o *AddOptions) additions() (all []*addition, err error) {
	for is, list := range [][]Addition{nodeColumn: o.Columns, edgeColumn: o.EdgeColumns, split: o.Splits} {
		for _, a := range list {
			if a.Type != "" && sort(is) == edgeColumn {
				return nil, option.Errorf(ErrOptions, *o, "EdgeColumns", ": %q is a type of nodes: write name=file.npy",
					a.Type)
			}
			all = append(all, &addition{Addition: a, sort: sort(is), npy: npy{path: a.Path}})
		}
	}
	if len(all) == 0 {
		return nil, option.Errorf(ErrOptions, *o, "Columns", ", %s, %s: name what to add",
			option.NameOf(*o, "EdgeColumns"), option.NameOf(*o, "Splits"))
	}
	return all, nil
}

// addition is an Addition on its way.
type addition struct {
	Addition
	sort
	npy
	typ    int
	col    graph.Column
	ids    []int64 // of a split
	labels []int64
	stream func(context.Context, io.Writer) error // of times of another unit than in the file; nil: the file's rows
}

// Add adds columns and splits to the dataset at dir. The arrays that it has are not written again (formats.Extend). It
// returns the schema. Errors: *formats.Error with the file; ErrOptions; formats.ErrExist for names that are there;
// those of formats.Extend. After an error the dataset is as it was.
func Add(ctx context.Context, dir string, opt AddOptions) (*graph.Schema, error) {
	adds, err := opt.additions()
	if err != nil {
		return nil, err
	}
	c := &conversion{src: dir, opt: Options{MemoryLimit: opt.MemoryLimit, Strict: opt.Strict, Force: opt.Force,
		TimesIn: opt.TimesIn},
		graph: &source.Graph{}}
	if err := c.opt.Settle(); err != nil {
		return nil, err
	}
	c.ledger.SetLimit(c.opt.MemoryLimit)
	how := formats.ExtendOptions{Provenance: map[string]string{}, Progress: opt.Progress}
	schema, err := c.openAdditions(ctx, adds, &how)
	if err != nil {
		return nil, err
	}
	w, err := formats.Extend(dir, how)
	if err != nil {
		return nil, err
	}
	for _, x := range adds {
		if err := x.write(ctx, w, &schema, &c.ledger); err != nil {
			return nil, errors.Join(err, w.Abort())
		}
	}
	if err := w.Commit(schema); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	for _, n := range c.graph.Notes {
		if opt.Log != nil {
			opt.Log("note: " + n.Text)
		}
	}
	return &schema, nil
}

// openAdditions opens what is added, and compares it with the dataset, whose schema it returns with all columns.
func (c *conversion) openAdditions(ctx context.Context, adds []*addition,
	how *formats.ExtendOptions) (s graph.Schema, err error) {
	ds, err := formats.Open(c.src)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	s = ds.SchemaOf()
	for _, x := range adds {
		if err := x.open(ds, &s, &c.ledger, c.opt.Force); err != nil {
			return s, err
		}
		how.ExpectBytes, how.Inputs = how.ExpectBytes+x.header.Bytes(), append(how.Inputs, x.Path)
		if x.labels != nil {
			how.Provenance["classes"] = strconv.FormatInt(source.Classes(x.labels), 10)
		}
	}
	how.Drop = func(owner, name string, index int) bool {
		replaces := func(x *addition) bool { return x.replaces(owner, name, index) }
		return c.opt.Force && slices.ContainsFunc(adds, replaces)
	}
	if err := c.timesOfAdditions(ctx, ds, adds, &s); err != nil {
		return s, err
	}
	err = pinned.Guard(func() error {
		c.noteShared(&s, splitsAfter(ds, adds, how.Drop))
		return nil
	})
	if err != nil {
		return s, err
	}
	return s, c.strict(c.graph.Notes)
}

func (x *addition) replaces(owner, name string, index int) bool {
	if name != x.Name || index != 0 {
		return false
	}
	return owner == map[sort]string{nodeColumn: fmt.Sprintf("nodes/%d", x.typ), edgeColumn: formats.OwnerEdges,
		split: formats.OwnerOfSplit(x.typ)}[x.sort]
}

// splitsAfter returns the splits of nodes that a dataset will have.
func splitsAfter(ds *formats.Dataset, adds []*addition,
	drop func(owner, name string, index int) bool) (all []graph.Split) {
	for _, s := range ds.Graph().Splits() {
		s.Seeds.Sets = slices.DeleteFunc(slices.Clone(s.Seeds.Sets), func(set graph.SeedSet) bool {
			return drop(formats.OwnerOfSplit(set.Type), s.Name, s.Index)
		})
		all = append(all, s)
	}
	for _, x := range adds {
		if x.sort == split {
			all = append(all, graph.Split{Name: x.Name, Seeds: graph.Seeds{Sets: []graph.SeedSet{
				{Type: x.typ, IDs: unified.FromSlice(x.ids)}}}})
		}
	}
	return all
}

// open reads the file's header, compares it with the dataset, and adds the column to the schema.
func (x *addition) open(ds *formats.Dataset, s *graph.Schema, l *pinned.Ledger, force bool) error {
	if x.typ = s.NodeType(x.Type); x.Type == "" && len(s.Nodes) == 1 {
		x.typ = 0
	}
	if x.typ < 0 && x.sort != edgeColumn {
		return fmt.Errorf("%w: %q: there are several types of nodes, or none of that name: name one, as in %s:%s=%s",
			ErrOptions, x.Type, s.Nodes[0].Name, x.Name, x.Path)
	}
	rows, what := s.NumEdges(), "edges"
	if x.sort != edgeColumn {
		rows, what = s.Nodes[x.typ].Count, "nodes"
	}
	f, err := source.Open(x.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if x.header, err = array.ReadHeader(f); err == nil {
		err = x.check(f)
	}
	h := &x.header
	switch {
	case err != nil:
	case x.sort == split && h.Kind == array.Bool && (len(h.Shape) != 1 || h.Shape[0] != rows):
		err = fmt.Errorf("a mask has a boolean a node, not %v for %d nodes", h, rows)
	case x.sort == split && len(h.Shape) != 1:
		err = fmt.Errorf("a split is a list of ids, or a boolean a node, not %v", h)
	case x.sort != split && (len(h.Shape) == 0 || len(h.Shape) > 4 || h.Shape[0] != rows):
		err = fmt.Errorf("has the shape %v, but there are %d %s", h.Shape, rows, what)
	case x.sort == split && !force && hasSplit(ds, x.Name, 0, x.typ):
		err = exists("split", x.Name)
	case x.sort == split:
		err = x.readIDs(f, rows, l)
	default:
		err = x.addColumn(f, s, l, force)
	}
	if err != nil {
		return source.Error(x.Path, "", -1, "", err)
	}
	return nil
}

// addColumn adds the column to the schema, and reads labels.
func (x *addition) addColumn(f *source.File, s *graph.Schema, l *pinned.Ledger, force bool) (err error) {
	h := &x.header
	x.col = graph.Column{Name: x.Name, DType: h.DType, Shape: h.Shape[1:]}
	if x.col.Width() == 1 {
		x.col.Shape = nil
	}
	if x.sort == nodeColumn && graph.RoleOf(x.Name) == graph.Label && len(x.col.Shape) == 0 {
		x.col.DType = unified.Int64
		if x.labels, err = array.ReadInts(f, *h, l); err != nil {
			return err
		}
	}
	to := &s.EdgeColumns
	if x.sort == nodeColumn {
		to = &s.Nodes[x.typ].Columns
	}
	for i := range *to {
		if (*to)[i].Name == x.Name {
			if !force {
				return exists("column", x.Name)
			}
			(*to)[i] = x.col
			return nil
		}
	}
	*to = append(*to, x.col)
	return nil
}

// exists is the error of a column or split that is there.
func exists(what, name string) error {
	return option.Textf("%w: there is a %s %q already: choose another name, or replace it by %s", formats.ErrExist,
		what, name, option.NameOf(AddOptions{}, "Force"))
}

// hasSplit reports whether a dataset has a split of nodes of a type, or links of the name.
func hasSplit(ds *formats.Dataset, name string, index, typ int) bool {
	for _, s := range ds.Graph().Splits() {
		if s.Name == name && s.Index == index &&
			slices.ContainsFunc(s.Seeds.Sets, func(set graph.SeedSet) bool { return set.Type == typ }) {
			return true
		}
	}
	return slices.ContainsFunc(ds.LinkSplits(), func(l formats.LinkSplit) bool {
		return l.Name == name && l.Index == index
	})
}

// readIDs reads the nodes of a split, each of which it has once.
func (x *addition) readIDs(f *source.File, nodes int64, l *pinned.Ledger) error {
	list, err := array.ReadInts(f, x.header, l)
	if err != nil {
		return err
	}
	x.ids = list
	if x.header.Kind == array.Bool {
		x.ids = nil
		for v, in := range list {
			if in != 0 {
				x.ids = append(x.ids, int64(v))
			}
		}
	}
	words := nodes/64 + 1
	if err := l.Take(pinned.Sources, 8*words); err != nil {
		return err
	}
	defer l.Give(pinned.Sources, 8*words)
	seen := make([]uint64, words)
	for i, v := range x.ids {
		switch {
		case v < 0 || v >= nodes:
			err = fmt.Errorf("node %d is not below %d", v, nodes)
		case seen[v/64]>>(v%64)&1 != 0:
			err = fmt.Errorf("node %d is in row %d already", v, slices.Index(x.ids, v))
		}
		if err != nil {
			return source.Error(x.Path, "", int64(i), "", err)
		}
		seen[v/64] |= 1 << (v % 64)
	}
	return nil
}

// write writes the array.
func (x *addition) write(ctx context.Context, w *formats.Writer, s *graph.Schema, l *pinned.Ledger) error {
	if x.sort == split {
		list := ids(x.ids, s.IDType() == unified.Int32)
		cw, err := w.Split(x.Name, 0, x.typ, list.DType(), list.Len())
		return fill(cw, err, func() error { _, err := cw.Write(list.Bytes()); return err })
	}
	open := func(c graph.Column, rows int64) (*formats.ColumnWriter, error) { return w.NodeColumn(x.typ, c, rows) }
	if x.sort == edgeColumn {
		open = w.EdgeColumn
	}
	cw, err := open(x.col, x.header.Shape[0])
	return fill(cw, err, func() error {
		if x.labels != nil {
			_, err := cw.Write(unified.FromSlice(x.labels).Bytes())
			return err
		}
		if x.stream != nil {
			return x.stream(ctx, cw)
		}
		return x.writer(l)(ctx, cw)
	})
}
