package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/remote"
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
	Columns []Addition `name:"column" kind:"each" value:"NAME=FILE" help:"..."`
	// EdgeColumns have a row an edge, in the order of the dataset.
	EdgeColumns []Addition `name:"edge-column" kind:"each" value:"NAME=FILE" help:"..."`
	// Splits are own ids, or a boolean a node.
	Splits []Addition `name:"split" kind:"each" value:"NAME=FILE" help:"..."`
	// Rows are files of new rows by the table of a database, or folders of them.
	Rows []Addition `kind:"each" value:"TABLE=FILE" help:"Add rows to a database table, from Parquet, Arrow or CSV."`
	// FeatureDType is that of Options, of rows that the dataset has and of columns that are added.
	FeatureDType []string `same:"feature-dtype" value:"[COLUMN=]DTYPE" empty:"as-is" help:"..."`
	Force        bool     `help:"Replace columns and splits of the same names."`
	Strict       bool     `help:"Fail if splits would share nodes, or new rows would lose columns or keys."`
	// TimesIn is the unit of added times that are plain numbers; "": nobody says it.
	TimesIn string `same:"times-in" choices:"s,ms,us,ns" empty:"as-is" default:"as-is" help:"..."`
	// Null is that of Options, of rows that come as CSV.
	Null []string `same:"null" value:"CELL" help:"..."`
	// MemoryLimit is that of Options.
	MemoryLimit int64 `same:"max-memory" kind:"size" help:"...bounded-memory"`
	// Remote says where a dataset that has an address is kept meanwhile.
	Remote   remote.Options `json:"-"`
	Progress formats.Progress
	// Log, if set, receives what a person should know of it, a line at a time.
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
	if len(all)+len(o.Rows)+len(o.FeatureDType) == 0 {
		return nil, option.Errorf(ErrOptions, *o, "Columns", ", %s, %s, %s: name what to add, or %s",
			option.NameOf(*o, "EdgeColumns"), option.NameOf(*o, "Splits"), option.NameOf(*o, "Rows"),
			option.NameOf(*o, "FeatureDType"))
	}
	if len(o.Rows) > 0 && len(o.FeatureDType) > 0 {
		return nil, option.Errorf(ErrOptions, *o, "FeatureDType", " and %s: do one after the other",
			option.NameOf(*o, "Rows"))
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
	fields []byte  // of the column; nil for none
	ids    []int64 // of a split
	labels []int64
	stream func(context.Context, io.Writer) error // of times of another unit than in the file; nil: the file's rows
	again  bool                                   // a column of the dataset that is stored as another type
}

// Add adds columns, splits and rows of tables to the dataset at dir, which may be an address. Existing arrays are not
// written again (formats.Extend), except those of tables that get rows, and the structure of the edges. It returns the
// schema. Errors: *formats.Error with the file; ErrOptions; formats.ErrExist for names that are there; those of
// formats.Extend. After an error the dataset is as it was.
func Add(ctx context.Context, dir string, opt AddOptions) (_ *graph.Schema, err error) {
	if address.Is(dir) {
		return addElsewhere(ctx, dir, opt)
	}
	adds, err := opt.additions()
	if err != nil {
		return nil, err
	}
	c, err := begin(dir, dir, &Options{MemoryLimit: opt.MemoryLimit, Strict: opt.Strict, Force: opt.Force,
		FeatureDType: opt.FeatureDType, TimesIn: opt.TimesIn, Progress: opt.Progress, Log: opt.Log})
	if err != nil {
		return nil, err
	}
	c.graph = &source.Graph{}
	a := &extension{c: c, adds: adds, how: formats.ExtendOptions{Provenance: map[string]string{},
		Progress: opt.Progress}}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := pinned.Guard(func() error { // temporary files are mapped
		if err := a.open(ctx, &opt); err != nil {
			return err
		}
		return a.write(ctx)
	}); err != nil {
		return nil, err
	}
	for _, n := range a.notes {
		c.opt.Log("note: " + n.Text)
	}
	return &a.schema, nil
}

// extension is one run of Add.
type extension struct {
	c      *conversion
	ds     *formats.Dataset // nil when it is closed
	schema graph.Schema     // of what will be there
	adds   []*addition
	rows   *moreRows // nil: none
	how    formats.ExtendOptions
	notes  []source.Note
}

// close gives back what is held.
func (a *extension) close() (err error) {
	if a.rows != nil {
		err = a.rows.Close()
		a.rows = nil
	}
	if a.ds != nil {
		err = errors.Join(err, a.ds.Close())
		a.ds = nil
	}
	return err
}

// open opens what is added, and compares it with the dataset.
func (a *extension) open(ctx context.Context, opt *AddOptions) (err error) {
	if a.ds, err = formats.Open(a.c.src); err != nil {
		return err
	}
	a.schema = a.ds.SchemaOf()
	if opt.Rows != nil {
		given := func(t int, column string) bool {
			return opt.Force && slices.ContainsFunc(a.adds, func(x *addition) bool {
				return x.sort == nodeColumn && x.Name == column && x.typeIn(&a.schema) == t
			})
		}
		if a.rows, err = a.c.openRows(ctx, a.ds, opt, &a.schema, given); err != nil {
			return err
		}
		a.how.ExpectBytes = a.rows.bytes(&a.schema, a.rows.graph.Edges.Count)
		for path := range a.rows.inputs {
			a.how.Inputs = append(a.how.Inputs, path)
		}
		a.notes = a.rows.graph.Notes
	}
	err = a.openAdditions(ctx)
	a.notes = append(a.notes, a.c.graph.Notes...)
	if err != nil {
		return err
	}
	return a.c.strict(a.notes)
}

// openAdditions opens columns and splits.
func (a *extension) openAdditions(ctx context.Context) error {
	for _, x := range a.adds {
		if err := x.open(a.ds, &a.schema, &a.c.ledger, a.c.opt.Force); err != nil {
			return err
		}
		a.how.ExpectBytes, a.how.Inputs = a.how.ExpectBytes+x.header.Bytes(), append(a.how.Inputs, x.Path)
		if x.labels != nil {
			a.how.Provenance["classes"] = strconv.FormatInt(source.Classes(x.labels), 10)
		}
	}
	replaced := func(owner, name string, index int) bool {
		return slices.ContainsFunc(a.adds, func(x *addition) bool {
			return (a.c.opt.Force || x.again) && x.replaces(owner, name, index)
		})
	}
	a.how.Drop = func(owner, name string, index int) bool {
		return replaced(owner, name, index) || a.rows != nil && index == 0 && a.rows.drops(owner, name)
	}
	if err := a.c.timesOfAdditions(ctx, a.ds, a.adds, &a.schema); err != nil {
		return err
	}
	if err := a.storeNarrow(ctx); err != nil {
		return err
	}
	return pinned.Guard(func() error {
		a.c.noteShared(&a.schema, splitsAfter(a.ds, a.adds, replaced))
		return nil
	})
}

// write writes the new generation. What is read of the old one is closed before it is replaced.
func (a *extension) write(ctx context.Context) (err error) {
	w, err := formats.Extend(a.c.src, a.how)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	if a.rows != nil {
		if err := a.rows.write(ctx, w, &a.schema); err != nil {
			return err
		}
	}
	for _, x := range a.adds {
		if err := x.write(ctx, w, &a.schema, &a.c.ledger); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if a.rows != nil {
		if err := a.rows.unchanged(); err != nil {
			return err
		}
	}
	if err := a.close(); err != nil {
		return err
	}
	return w.Commit(a.schema)
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
	if x.typ = x.typeIn(s); x.typ < 0 && x.sort != edgeColumn {
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
		x.fields = x.embeds(ds)
		err = x.addColumn(f, s, l, force)
	}
	if err != nil {
		return source.Error(x.Path, "", -1, "", err)
	}
	return nil
}

// ofText follows the name of a text in that of the column with its embeddings.
const ofText = "_embedding"

// embeds returns what a column is that has the embeddings of a text of its nodes; nil for another.
func (x *addition) embeds(ds *formats.Dataset) []byte {
	text, ok := strings.CutSuffix(x.Name, ofText)
	if !ok || x.sort != nodeColumn || !x.header.DType.IsFloat() || len(x.header.Shape) != 2 {
		return nil
	}
	if list, err := ds.Strings(x.typ, text); err != nil || list.Len() != x.header.Shape[0] {
		return nil
	}
	name, _ := json.Marshal(text) // texts can always be written
	return fmt.Appendf(nil, `[{"name":%s,"kind":"embedding","width":%d,"missing":0}]`, name, x.header.Shape[1])
}

// typeIn returns the node type; -1 where it is not told.
func (x *addition) typeIn(s *graph.Schema) int {
	if x.Type == "" && len(s.Nodes) == 1 {
		return 0
	}
	return s.NodeType(x.Type)
}

// addColumn adds the column to the schema, and reads labels.
func (x *addition) addColumn(f *source.File, s *graph.Schema, l *pinned.Ledger, force bool) (err error) {
	h := &x.header
	x.col = graph.Column{Name: x.Name, DType: h.DType, Shape: h.Shape[1:], Fields: x.fields}
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
	i := slices.IndexFunc(*to, func(c graph.Column) bool { return c.Name == x.Name })
	if i >= 0 && !force {
		return exists("column", x.Name)
	}
	setColumn(to, i, x.col)
	return nil
}

// setColumn puts a column in the place of column i, or behind all where there is none.
func setColumn(to *[]graph.Column, i int, col graph.Column) {
	if i < 0 || i >= len(*to) {
		*to = append(*to, col)
	} else {
		(*to)[i] = col
	}
}

// exists is the error of a column or split that is there.
func exists(what, name string) error {
	return option.Textf("%w: there is a %s %q already: choose another name, or replace it (%s)", formats.ErrExist,
		what, name, option.On("Force"))
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
