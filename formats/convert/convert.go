package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/inspect"
	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/staged"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/heap"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// ErrOptions is returned for options that make no sense, or none for the source at hand.
var ErrOptions = source.ErrOptions

// ErrStrict is returned if Options.Strict refuses a guess.
var ErrStrict = errors.New("the dataset would not be what the source holds")

// ErrUnknown is returned for a source of no known kind.
var ErrUnknown = source.ErrUnknown

// Direction says which directions of an edge are stored.
type Direction uint8

const (
	// AsGiven stores both directions where the format is undirected by definition, else the edges as listed.
	AsGiven Direction = iota
	// Directed stores the edges as listed.
	Directed
	// Symmetrise stores both directions.
	Symmetrise
)

// Merge says what becomes of edges of one type between the same two nodes.
type Merge uint8

const (
	// MergeNone keeps all of them; but where both directions are stored and edges have no columns, of p edges listed
	// one way and q the other, max(p, q) are stored each way.
	MergeNone Merge = iota
	// MergeFirst keeps the first that is listed.
	MergeFirst
	// MergeSum keeps one, whose columns are the sums of theirs; "time" is the latest.
	MergeSum
	// MergeMax keeps one, whose columns are the greatest of theirs.
	MergeMax
)

// Loops says what becomes of self-loops.
type Loops uint8

const (
	// KeepLoops stores those that are listed, once.
	KeepLoops Loops = iota
	// DropLoops stores none.
	DropLoops
	// AddLoops adds one to each node that has none, of weight 1; its other columns are 0.
	AddLoops
)

// Options say how to convert. The zero value recognises everything. Package internal/option reads the tags.
type Options struct {
	// From names the kind of the source (see Kinds).
	From      string    `value:"KIND" help:"Kind of the source; without it khop recognises the kind."`
	Direction Direction `switches:"directed,symmetrise"`
	Merge     Merge     `name:"dedupe" choices:"no,first,sum,max" default:"no" help:"..."`
	Loops     Loops     `name:"self-loops" choices:"keep,drop,add" default:"keep" help:"..."`
	ByTime    bool      `help:"Order each node's edges by their time, for faster temporal sampling."`
	// TimeUnit is the unit that all times are stored in, rounded down; "": seconds, or the coarsest that holds all of
	// them. Those of whose unit neither the source nor TimesIn say anything stay as they are.
	TimeUnit string `choices:"s,ms,us,ns" empty:"auto" default:"auto" help:"Unit to store times in:"`
	// TimesIn is the unit of times that are plain numbers in the source. "": of those with fractions seconds.
	TimesIn string `choices:"s,ms,us,ns" empty:"as-is" default:"as-is" help:"Unit of times that are plain numbers:"`
	// RelationsAsTypes is for knowledge graphs.
	RelationsAsTypes bool `help:"Make each relation of a knowledge graph an edge type."`
	// Features and Labels are .npy files: features [n, width] of any number type, labels [n] of integers. They go
	// beside, or in place of, what the source has.
	Features string `value:"FILE" help:".npy file with a row of features per node."`
	Labels   string `value:"FILE" help:".npy file with a label per node."`
	// Feature names the column of nodes that becomes "feature".
	Feature string `name:"feature" empty:"none" value:"COLUMN" help:"Node column to use as features."`
	// Label names the column of nodes that becomes "label"; numbers are classes, texts are numbered as they appear.
	Label string `name:"label" empty:"none" value:"COLUMN" help:"..."`
	// Keep names the columns that are kept, of nodes and edges alike; nil: all.
	Keep []string `value:"COLUMN" help:"Columns to keep; all others are left out."`
	// Strict refuses a source of which the dataset would not hold all as it is there, unless options ask for it.
	Strict bool `help:"Fail if anything would be left out, guessed, renumbered, renamed, doubled, altered or shared."`
	// Columns name the fields of an edge list, see edgelist.Options.
	Columns []string `value:"NAME" help:"Fields of an edge list, in order: src,dst,time:int64; - skips one."`
	IDs     string   `choices:"auto,numbers,names" default:"auto" help:"Ids of an edge list:"`
	Header  string   `choices:"auto,yes,no" default:"auto" help:"First line of an edge list is names:"`
	// Null are cells of CSV tables and of columns of edge lists. An empty cell of a table is missing, too.
	Null []string `name:"null" value:"CELL" help:"..."`
	// Encoding is that of the source's texts.
	Encoding string `choices:"latin-1,windows-1252,utf-16" empty:"utf-8" default:"utf-8" help:"..."`
	// FeatureDType is what rows of floating-point numbers a node are stored as: float16, bfloat16, int8 or int4, or
	// "column=int4" for one column. int8 has a scale a row in a column of its own, "feature_scale" for "feature"; int4
	// is a code (graph.Code). nil: all rows stay as they are.
	FeatureDType []string `value:"[COLUMN=]DTYPE" empty:"as-is" help:"..."`
	// RowStride is a power of two from 8 to 65,536, for columns of nodes that have several numbers; 0: rows stay as
	// they are.
	RowStride int64 `value:"BYTES" help:"Pad node rows with zeros to a multiple of BYTES, a power of two."`
	// Reorder keeps the numbers that nodes have in the source as the column "old_id".
	Reorder Reorder `default:"auto" help:"Renumber the nodes:"`
	// Heat, for ByHeat, scores nodes by how often batches need their rows. indptr and indices are the in-edges of each
	// node; seeds are the nodes of the split train, or all nodes.
	Heat func(ctx context.Context, indptr []int64, indices unified.Tensor, seeds []int64) ([]float64, error) `json:"-"`
	// UpTo is a date or a time, or "all". A database's own is that of its test.
	UpTo string `name:"upto" value:"DATE" help:"Leave out database rows later than DATE; all: leave out none."`
	// Task has columns left out that one of a database's tasks must not see.
	Task string `value:"NAME" help:"Leave out the columns that this database task must not see."`
	// SkipBad counts lines of texts. Result has their number, and its notes name the first.
	SkipBad int64 `default:"0" range:"0," help:"..."`
	// DryRun reads the source. Result's counts of edges and bytes are bounds then, its peaks what is expected.
	DryRun bool `help:"Write nothing; print what would be written, and the memory, disk and time needed."`
	Force  bool `help:"Replace a dataset that is there."`
	// MemoryLimit bounds, in bytes, what reading the source and ordering the edges take together, beside some megabytes
	// of buffers. Settle lowers it to what the control group leaves.
	MemoryLimit int64 `same:"max-memory" kind:"size" help:"...bounded-memory"`

	// Remote says where sources that have an address are kept.
	Remote remote.Options `json:"-"`

	Progress formats.Progress `json:"-"`
	// Spell says how notes name options, such as "--ids"; nil: by their fields. Errors name them by fields.
	Spell func(option, field string) string `json:"-"`
	// Log, if set, receives what was understood of the source and what will happen, a line at a time.
	Log func(line string) `json:"-"`

	shared bool   // others may be writing the same dataset
	named  string // what the source is called in the manifest, where that is not its path
}

// Result says what was converted. "khop convert --json" prints it.
type Result struct {
	Kind string `json:"kind"` // of the source
	// Draft is a mapping to begin with, where a dry run finds tables without one; nothing else is known then.
	Draft       string         `json:"draft,omitempty"`
	Nodes       int64          `json:"nodes"`
	Edges       int64          `json:"edges"`        // stored
	SourceEdges int64          `json:"source_edges"` // listed in the source
	Direction   string         `json:"direction"`
	FeatureDim  int64          `json:"feature_dim"`
	Classes     int64          `json:"classes"`
	Splits      int            `json:"splits"`
	Bytes       int64          `json:"bytes"`   // of all arrays, about
	Skipped     int64          `json:"skipped"` // bad lines that were left out
	Notes       []formats.Note `json:"notes"`
	// the most that counted against MemoryLimit at a time; 0 without a limit
	MemoryPeak  int64 `json:"memory_peak"`
	TempPeak    int64 `json:"temporary_peak"`    // the most that temporary files took at a time
	TempWritten int64 `json:"temporary_written"` // bytes written to temporary files
	TempRead    int64 `json:"temporary_read"`    // bytes read from the files that edges are sorted in
}

// Run converts the file or directory src to a new dataset at dst. Both may be addresses (docs/machines.md).
//
// Errors: *formats.Error with file, row and remedy for what is wrong with the source; ErrUnknown, ErrOptions;
// pinned.ErrLimit, which says what is needed; formats.ErrExist and formats.ErrSpace for the target;
// context.Cause(ctx). After an error dst is as it was: it holds no dataset, or the one that Force was to replace.
func Run(ctx context.Context, src, dst string, opt Options) (res *Result, err error) {
	if opt.Log == nil {
		opt.Log = func(string) {}
	}
	err = to(ctx, dst, opt, func(dir string) error {
		res, err = run(ctx, src, dir, opt)
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// run converts to a folder.
func run(ctx context.Context, src, dir string, opt Options) (res *Result, err error) {
	// say at once, not after an hour of reading, that the target cannot be
	c, err := begin(src, dir, &opt)
	if err != nil {
		return nil, err
	}
	if err := c.roomFor(0); err != nil {
		return nil, err
	}
	if _, err := c.come(ctx, true); err != nil {
		return nil, err
	}
	err = c.guarded(func() error {
		res, err = c.run(ctx)
		return err
	})
	return res, errors.Join(err, c.leave())
}

// conversion is one run.
type conversion struct {
	src, dst string
	create   func(formats.WriterOptions) (*formats.Writer, error)
	commit   func(*formats.Writer, graph.Schema) error
	opt      Options
	budget   source.Budget
	ledger   pinned.Ledger

	elsewhere *staged.Source // the source, if it has an address; nil: it has none
	brings    source.Bringer // what is not there of it

	tree   *source.Tree
	skips  source.Skips
	kind   string
	graph  *source.Graph
	tables []*table
	watch  bool                         // for nodes that no edge has
	told   int                          // notes of the graph that the result has
	found  map[string]source.TimesFound // in columns of times, by what they are called; nil: they are looked at
}

func (c *conversion) run(ctx context.Context) (res *Result, err error) {
	t, err := c.open()
	if err != nil {
		return nil, err
	}
	c.tree = t
	defer func() {
		if err != nil { // that is then why
			err = t.ExplainText(err)
			if changed := c.unchanged(); changed != nil {
				err = changed
			}
		}
	}()
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := c.read(ctx, t); err != nil {
		return c.draft(ctx, err)
	}
	defer func() { err = errors.Join(err, c.graph.Close()) }()
	heap.Trim() // what the reader has given back makes room for the structure
	return c.write(ctx)
}

// open opens the source; of a folder that holds nothing but one archive, and perhaps texts about it, the archive.
func (c *conversion) open() (*source.Tree, error) {
	t, err := source.OpenBrought(c.src, &c.budget, c.brings)
	if err != nil {
		return nil, err
	}
	t.SetEncoding(c.opt.Encoding)
	archives := t.Archives()
	_, _, err = recognise(t, c.opt.From)
	if several := new(severalError); err == nil || errors.As(err, &several) || len(archives) != 1 {
		return t, nil
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if t, err = source.OpenBrought(archives[0], &c.budget, c.brings); err == nil {
		t.SetEncoding(c.opt.Encoding)
	}
	return t, err
}

// read recognises the source and reads it, with the tables beside it.
func (c *conversion) read(ctx context.Context, t *source.Tree) (err error) {
	r, at, err := recognise(t, c.opt.From)
	if err != nil {
		return err
	}
	c.kind = r.Name
	if err := c.checkOptions(&r); err != nil {
		return err
	}
	nodes, err := c.openTables()
	if err != nil {
		return err
	}
	c.opt.Log(fmt.Sprintf("%s: %s", at.Path(), r.Title))
	c.graph, err = r.Read(ctx, at, c.request(nodes))
	if err != nil {
		return err
	}
	c.graph.Notes = append(c.graph.Notes, c.skips.Notes()...)
	if err := source.Steps(ctx, c.addTables, c.choose, c.times, c.narrow, c.pad); err != nil {
		return errors.Join(err, c.graph.Close())
	}
	return nil
}

// request is what a reader is asked for. nodes is the number of rows that tables beside the source have.
func (c *conversion) request(nodes int64) *source.Request {
	return &source.Request{Budget: &c.budget, Progress: c.opt.Progress, Nodes: nodes,
		Columns: c.opt.Columns, IDs: c.opt.IDs, Header: c.opt.Header, Null: c.opt.Null,
		RelationsAsTypes: c.opt.RelationsAsTypes, Skips: &c.skips, UpTo: c.opt.UpTo, Task: c.opt.Task,
		TimesIn: c.opt.TimesIn,
		Label:   c.opt.Label, LateCount: lateEdges}
}

// inputs are the files and folders that are read.
func (c *conversion) inputs() []string {
	return slices.DeleteFunc([]string{c.src, c.opt.Features, c.opt.Labels}, func(s string) bool { return s == "" })
}

// unchanged refuses a source that was written to meanwhile: what was read may be neither the old nor the new one.
func (c *conversion) unchanged() error {
	for _, t := range c.tables {
		if err := source.Unchanged(t.path, t.info); err != nil {
			return err
		}
	}
	return c.tree.Unchanged()
}

// schema describes the dataset, whose counts of edges are not known yet.
func (c *conversion) schema(o *order) (*graph.Schema, error) {
	s := &graph.Schema{EdgeColumns: c.graph.Edges.Columns}
	for _, n := range c.graph.Nodes {
		t := graph.NodeType{Name: n.Name, Count: n.Count}
		for _, col := range n.Columns {
			t.Columns = append(t.Columns, col.Column)
		}
		s.Nodes = append(s.Nodes, t)
	}
	for _, e := range c.graph.Types {
		t := graph.EdgeType{Source: c.graph.Nodes[e.Source].Name, Relation: e.Relation,
			Target: c.graph.Nodes[e.Target].Name}
		if o.opt.ByTime >= 0 {
			t.Order = graph.ByTime
		}
		s.Edges = append(s.Edges, t)
	}
	if err := s.Init(); err != nil {
		return nil, source.Error(c.tree.Path, "", -1, "give it another name in the source, or leave it out", err)
	}
	return s, nil
}

// write writes the dataset.
func (c *conversion) write(ctx context.Context) (res *Result, err error) {
	// what numbers, shares or adds to nodes has to know them before
	later := c.graph.CountNodes != nil && !c.opt.DryRun && c.opt.Reorder <= AsListed && c.opt.Loops != AddLoops
	o, err := c.prepare(ctx, later)
	if err != nil {
		return nil, err
	}
	schema, err := c.schema(o)
	if err != nil {
		return nil, err
	}
	memory, spill, err := o.sayNeeds()
	if err != nil {
		return nil, err
	}
	c.noteShared(schema, c.splits())
	if res, err = c.judge(schema, o); err != nil {
		return nil, err
	}
	if c.opt.DryRun {
		res.MemoryPeak, res.TempPeak = max(memory+c.ledger.Total(), c.ledger.Peak()), spill+c.budget.DiskPeak()
		return res, nil
	}
	var sorter *edgesort.Sorter
	if later {
		if err := c.roomFor(res.Bytes); err != nil {
			return nil, err
		}
		if sorter, err = c.placeFirst(ctx, o); err != nil {
			return nil, err
		}
		if sorter != nil {
			defer func() { _ = sorter.Close() }()
		}
		o.opt.Nodes = c.graph.Nodes
		if schema, err = c.schema(o); err != nil {
			return nil, err
		}
		if res, err = c.judge(schema, o); err != nil {
			return nil, err
		}
	}
	return res, c.writeAll(ctx, o, schema, res, sorter)
}

// prepare counts the nodes, unless that is done later, decides on the order of the edges and numbers the nodes.
func (c *conversion) prepare(ctx context.Context, later bool) (*order, error) {
	if c.graph.CountNodes != nil && !later {
		if err := c.graph.CountNodes(ctx); err != nil {
			return nil, err
		}
	}
	// whether nodes without edges are found while edges are taken in; else before, for nothing may be written then
	if c.watch = later || !c.opt.Strict && !c.opt.DryRun; !c.watch {
		if err := c.noteGaps(ctx); err != nil {
			return nil, err
		}
	}
	o, err := c.plan()
	if err == nil {
		err = c.reorder(ctx, o)
	}
	return o, err
}

// writeAll writes the dataset, of which the sorter has the edges already, unless it is nil.
func (c *conversion) writeAll(ctx context.Context, o *order, schema *graph.Schema, res *Result,
	sorter *edgesort.Sorter) (err error) {
	c.opt.Log(fmt.Sprintf("writing %s: %s, %s (%s), about %s", c.dst, source.Counted(res.Nodes, "node", "nodes"),
		source.Counted(res.Edges, "edge", "edges"), res.Direction, machine.Bytes(res.Bytes)))
	w, err := c.create(formats.WriterOptions{
		Force: c.opt.Force, Progress: c.opt.Progress, ExpectBytes: res.Bytes, Provenance: c.provenance(res),
		Inputs: c.inputs()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }() // where a mapped file faults, err is not set yet
	if err = o.write(ctx, w, schema, sorter); err != nil {
		return err
	}
	if err = c.writeColumns(ctx, w, schema); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err = c.unchanged(); err != nil {
		return err
	}
	if res.Edges = o.stats.Edges; len(schema.Edges) == 1 {
		o.counts[0] = res.Edges
	}
	for i := range schema.Edges {
		schema.Edges[i].Count = o.counts[i]
	}
	if err = c.commit(w, *schema); err != nil {
		return err
	}
	c.finish(res, o, schema)
	return nil
}

// judge returns what is known of the result, if nothing of it is to be refused.
func (c *conversion) judge(s *graph.Schema, o *order) (*Result, error) {
	res := c.result(s, o)
	return res, c.strict(c.graph.Notes)
}

// strict refuses changes that no option asks for, with Strict.
func (c *conversion) strict(notes []source.Note) error {
	var list []error
	for _, n := range notes {
		if n.Change != source.Said {
			list = append(list, option.Textf("%s: %w", n.Change, n.Told))
		}
	}
	if !c.opt.Strict || list == nil {
		return nil
	}
	said := list[0]
	for _, more := range list[1:] {
		said = option.Textf("%w; %w", said, more)
	}
	return source.Error(c.src, "", -1,
		option.Textf("say by options what is meant, or leave out %s", option.NameOf(c.opt, "Strict")),
		option.Textf("%w: %w", ErrStrict, said))
}

// splits returns the splits of nodes as those of a graph.
func (c *conversion) splits() (all []graph.Split) {
	for _, s := range c.graph.Splits {
		if s.Task != "" { // whose nodes are there as of several times
			continue
		}
		all = append(all, graph.Split{Name: s.Name, Index: s.Index, Seeds: graph.Seeds{Sets: []graph.SeedSet{
			{Type: s.NodeType, IDs: unified.FromSlice(s.IDs)}}}})
	}
	return all
}

// noteShared notes the nodes that splits share; without a bit for each node and split in memory it finds nothing.
func (c *conversion) noteShared(s *graph.Schema, splits []graph.Split) {
	of, most := map[int]int64{}, int64(0) // splits of each index
	for _, split := range splits {
		of[split.Index]++
		most = max(most, of[split.Index])
	}
	bits := s.NumNodes() / 8 * most
	if c.ledger.Take(pinned.Sources, bits) != nil {
		return
	}
	defer c.ledger.Give(pinned.Sources, bits)
	for _, shared := range inspect.Shared(s, splits) {
		c.graph.Tell(source.Shared, shared.Type, shared.Nodes, "%v", shared)
	}
}

// provenance says where the dataset comes from.
func (c *conversion) provenance(res *Result) map[string]string {
	p := map[string]string{
		"source":       cmp.Or(c.opt.named, paths.Text(filepath.Base(filepath.Clean(c.src)))),
		"kind":         c.kind,
		"source_edges": strconv.FormatInt(res.SourceEdges, 10),
		"direction":    res.Direction,
		"classes":      strconv.FormatInt(res.Classes, 10),
	}
	putKeys(p, c.graph.Nodes)
	if c.opt.Loops != KeepLoops {
		p[loopsKey] = []string{"drop", "add"}[c.opt.Loops-1]
	}
	return p
}

// finish says what was found and taken.
func (c *conversion) finish(res *Result, o *order, s *graph.Schema) {
	res.Bytes = c.bytes(s, res.Edges)
	res.Notes = append(res.Notes, c.spell(append(c.graph.Notes[c.told:], o.notes()...))...)
	res.MemoryPeak, res.TempPeak = c.ledger.Peak(), c.budget.DiskPeak()
	res.TempWritten, res.TempRead = c.budget.Traffic()
	for _, line := range source.Lines(res.Notes) {
		c.opt.Log("note: " + line)
	}
}

// spell returns notes with the names of options that are asked for.
func (c *conversion) spell(notes []source.Note) []formats.Note {
	return source.Spell(notes, func(n option.Name) string {
		if c.opt.Spell == nil {
			return cmp.Or(n.Field, n.Option)
		}
		return c.opt.Spell(n.Option, n.Field)
	})
}

func (c *conversion) result(s *graph.Schema, o *order) *Result {
	g := c.graph
	c.told = len(g.Notes)
	r := &Result{Kind: c.kind, Nodes: s.NumNodes(), Edges: o.most, SourceEdges: g.Edges.Count, Direction: o.direction,
		Splits: len(g.Splits) + len(g.Links), Skipped: c.skips.Count(),
		Notes: c.spell(g.Notes), Bytes: c.bytes(s, o.most)}
	for _, n := range g.Nodes {
		r.Classes = max(r.Classes, n.Classes)
		for _, col := range n.Columns {
			if col.Role() == graph.Feature {
				r.FeatureDim = col.Width()
			}
		}
	}
	return r
}

// bytes returns what the arrays take, about.
func (c *conversion) bytes(s *graph.Schema, edges int64) int64 {
	n := 8*(s.NumNodes()+1) + edges*(s.IDType().Size()+csc.TypeBytes(len(s.Edges)))
	for _, col := range s.EdgeColumns {
		n += edges * col.RowBytes()
	}
	for _, t := range s.Nodes {
		for _, col := range t.Columns {
			n += t.Count * col.RowBytes()
		}
	}
	for _, split := range c.graph.Splits {
		n += int64(len(split.IDs))*s.IDType().Size() + 8*int64(len(split.Times)+len(split.From)) +
			int64(len(split.Labels))
		if to := split.Targets; to != nil {
			n += int64(len(to.IDs))*s.IDType().Size() + 8*int64(len(to.Offsets))
		}
	}
	for _, k := range c.graph.Links {
		n += int64(len(k.Src))*2*s.IDType().Size() + 8*int64(len(k.Labels))
	}
	return n
}
