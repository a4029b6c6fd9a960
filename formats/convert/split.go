package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// SplitOptions say how nodes or links are dealt into splits at random.
type SplitOptions struct {
	Links bool   `help:"Split edges into links to predict, in place of nodes."`
	Type  string `value:"TYPE" help:"Node type to split, or edge type with --links; default: the only one."`
	// Train, Val and Test are a count, a share of all (with a point), or "rest".
	Train string `default:"rest" help:"Size of train: a count, a share such as 0.6, or rest."`
	Val   string `default:"0.1" help:"Size of val: a count, a share, or rest."`
	Test  string `default:"0.2" help:"Size of test: a count, a share, or rest."`
	// PerClass nodes of each class are in train, in place of Train.
	PerClass int `name:"train-per-class" default:"0" range:"0," help:"..."`
	Splits   int `default:"1" range:"1,1000" help:"Number of splits to draw, with the indexes 0, 1, .."`
	// Undirected takes one link for both directions of an edge, the one from the smaller id. Both ways of a link are in
	// the same split in any case.
	Undirected bool `help:"With --links: edges are stored in both directions; take one link for both."`
	// Reverse is an edge type whose edges lead back along links: both go together, and batches that may not follow one
	// do not follow the other. Types that have the same edges reversed do so without being named.
	Reverse string `value:"TYPE" help:"With --links: edge type that stores some of the same edges reversed."`
	// Disjoint is the share of the links to learn from that training does not follow.
	Disjoint float64  `default:"0" range:"0,1" help:"With --links: share of train that training does not follow."`
	Names    []string `default:"train,val,test" value:"NAME" help:"Names of the three splits."`
	Seed     uint64   `default:"0" help:"Key of every random choice."`
	Force    bool     `help:"Replace columns and splits of the same names."`
	// MemoryLimit is that of Options.
	MemoryLimit int64 `same:"max-memory" kind:"size" help:"...bounded-memory"`
	Progress    formats.Progress
}

// SplitResult says what became of what was dealt.
type SplitResult struct {
	Items    int64      `json:"items"`     // that were dealt
	NoLabel  int64      `json:"unlabeled"` // nodes that were not, because their label is below 0
	Counts   [][3]int64 `json:"counts"`    // of train, val and test, by index
	Replaced int        `json:"replaced"`  // splits and columns that were there

	// Of links: the edge types that go with them because they store the same edges reversed; those that lead back along
	// some links and do not; and whether all links are stored in both directions.
	Reverses []string    `json:"reverses"`
	Back     []backEdges `json:"back"`
	Both     bool        `json:"both_directions"`
}

// backEdges counts the edges of a type, among Of that were looked at, that reverse a link and yet are followed.
type backEdges struct {
	Type  string `json:"type"`
	Edges int64  `json:"edges"`
	Of    int64  `json:"of"`
}

// Split deals the nodes of a type, or edges as links to predict, into splits at random, as docs/sampling.md ("Dealing
// items into splits") says: the result depends on Seed, and on the dataset. It goes over the items several times and
// keeps none of them in memory. ErrOptions; formats.ErrExist; else the errors of Add.
func Split(ctx context.Context, dir string, opt SplitOptions) (*SplitResult, error) {
	option.Fill(&opt)
	if opt.Names == nil {
		opt.Names = []string{"train", "val", "test"}
	}
	limit := Options{MemoryLimit: opt.MemoryLimit}
	if err := cmp.Or(opt.check(), limit.Settle()); err != nil {
		return nil, err
	}
	ds, err := remote.Open(ctx, dir, remote.Options{})
	if err != nil {
		return nil, err
	}
	res := &SplitResult{Reverses: []string{}, Back: []backEdges{}}
	d := &dealer{ctx: ctx, opt: &opt, ds: ds, schema: ds.SchemaOf(), res: res}
	d.ledger.SetLimit(limit.MemoryLimit)
	err = pinned.Guard(func() error { return d.deal(dir) })
	if err := errors.Join(err, ds.Close()); err != nil {
		return nil, err
	}
	return d.res, nil
}

// check checks what needs no dataset.
func (o *SplitOptions) check() error {
	if err := option.Check(ErrOptions, *o); err != nil {
		return err
	}
	if len(o.Names) != 3 || o.Names[0] == o.Names[1] || o.Names[1] == o.Names[2] || o.Names[0] == o.Names[2] {
		return option.Errorf(ErrOptions, *o, "Names", " is %q: must be three names", o.Names)
	}
	for field, set := range map[string]bool{"Undirected": o.Undirected, "Reverse": o.Reverse != "",
		"Disjoint": o.Disjoint != 0} {
		if set && !o.Links {
			return option.Errorf(ErrOptions, *o, field, " is for %v", option.NameOf(*o, "Links"))
		}
	}
	switch {
	case o.Links && (o.Train != "rest" || o.PerClass != 0):
		return option.Errorf(ErrOptions, *o, "Train", " is the rest with %v: an edge that is no link of another "+
			"split is one to learn from", option.NameOf(*o, "Links"))
	case o.Undirected && o.Reverse != "":
		return option.Errorf(ErrOptions, *o, "Reverse", " is for edges of one direction: leave out %v",
			option.NameOf(*o, "Undirected"))
	case o.PerClass != 0 && o.Train != "rest":
		return option.Errorf(ErrOptions, *o, "PerClass", " takes the place of %v: leave out one",
			option.NameOf(*o, "Train"))
	}
	return nil
}

// amount reads a count, or a share of some items; -1 is the rest.
func (o *SplitOptions) amount(field, text string, of int64) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	share, err := strconv.ParseFloat(text, 64)
	switch {
	case text == "rest":
		return -1, nil
	case err != nil || !(share >= 0 && share <= 1):
		return 0, option.Errorf(ErrOptions, *o, field, " is %q: must be a count, a share from 0.0 to 1.0, or rest",
			text)
	}
	return int64(math.Round(share * float64(of))), nil
}

// dealer deals items into the splits of one dataset.
type dealer struct {
	ctx    context.Context
	opt    *SplitOptions
	ds     *formats.Dataset
	schema graph.Schema
	ledger pinned.Ledger
	res    *SplitResult
	typ    int
	key    uint64 // of the type
	stage  uint64 // of the index at hand
	// reverse are the edge types that store the same links the other way round, by number.
	reverse []bool
}

// Which split an item is in.
const (
	inTrain = iota
	inVal
	inTest
	inNone
)

// deal deals, and writes.
func (d *dealer) deal(dir string) error {
	var all []dealt
	find, kind := d.findNodes, d.nodes
	if d.opt.Links {
		find, kind = d.findEdges, d.links
	}
	if err := find(); err != nil {
		return err
	}
	if err := d.refuse(); err != nil {
		return err
	}
	for index := range d.opt.Splits {
		d.stage = rng.StageKey(rng.BatchKey(d.opt.Seed, 0, uint32(index), 0), d.key, rng.Split, 0)
		x, err := kind(index)
		if err != nil {
			return err
		}
		all, d.res.Counts = append(all, x), append(d.res.Counts, x.counts())
	}
	how := formats.ExtendOptions{Progress: d.opt.Progress, Drop: d.drops}
	for _, x := range all {
		how.ExpectBytes += x.bytes()
	}
	w, err := formats.Extend(dir, how)
	if err != nil {
		return err
	}
	for _, x := range all {
		if err := x.write(w); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	if err := w.Commit(d.schema); err != nil {
		return errors.Join(err, w.Abort())
	}
	return nil
}

// dealt are splits of an index whose items are known, and not yet written.
type dealt interface {
	counts() [3]int64
	bytes() int64
	write(w *formats.Writer) error
}

// named reports whether a split that is there has the name and index of one that is dealt.
func (d *dealer) named(name string, index int) bool {
	return slices.Contains(d.opt.Names, name) && index < d.opt.Splits
}

// drops reports whether an array gives way to what is dealt. Links would lie hidden behind nodes of the same name.
func (d *dealer) drops(owner, name string, index int) bool {
	switch {
	case owner == formats.OwnerEdges:
		return d.opt.Links && slices.Contains(d.columns(), name)
	case owner == formats.OwnerLinks, owner == formats.OwnerOfSplit(d.typ) && !d.opt.Links,
		d.opt.Links && slices.ContainsFunc(d.schema.Nodes, func(n graph.NodeType) bool {
			return owner == formats.OwnerOfSplit(d.schema.NodeType(n.Name))
		}):
		return d.named(name, index)
	}
	return false
}

// columns are the columns of the edges that are written.
func (d *dealer) columns() (all []string) {
	for index := range d.opt.Splits {
		for i := range 3 {
			all = append(all, names.Follow(d.opt.Names[i], index))
		}
	}
	return all
}

// refuse refuses names that are there, unless they are replaced, and adds the columns to the schema.
func (d *dealer) refuse() error {
	exist := func(what, name string) error {
		d.res.Replaced++
		if d.opt.Force {
			return nil
		}
		return source.Error(d.ds.Path(), "", -1, "", exists(what, name))
	}
	for _, s := range d.ds.Graph().Splits() {
		if d.named(s.Name, s.Index) && (d.opt.Links || hasSplit(d.ds, s.Name, s.Index, d.typ)) {
			if err := exist("split", s.Name); err != nil {
				return err
			}
		}
	}
	for _, s := range d.ds.LinkSplits() {
		if d.named(s.Name, s.Index) {
			if err := exist("split", s.Name); err != nil {
				return err
			}
		}
	}
	if !d.opt.Links {
		return nil
	}
	for _, name := range d.columns() {
		at := func(c graph.Column) bool { return c.Name == name }
		if slices.ContainsFunc(d.schema.EdgeColumns, at) {
			if err := exist("column", name); err != nil {
				return err
			}
			d.schema.EdgeColumns = slices.DeleteFunc(d.schema.EdgeColumns, at)
		}
		d.schema.EdgeColumns = append(d.schema.EdgeColumns, graph.Column{Name: name, DType: unified.Uint8})
	}
	return nil
}

// dealtIDs writes ids, in the dataset's own width, to a column.
type dealtIDs struct {
	narrow bool
	to     *formats.ColumnWriter
	list   []int64
}

func (d *dealer) idWriter(to *formats.ColumnWriter) *dealtIDs {
	return &dealtIDs{narrow: d.schema.IDType() == unified.Int32, to: to}
}

func (w *dealtIDs) add(id int64) error {
	if w.list = append(w.list, id); len(w.list) < 1<<13 {
		return nil
	}
	return w.flush()
}

func (w *dealtIDs) flush() error {
	_, err := w.to.Write(ids(w.list, w.narrow).Bytes())
	w.list = w.list[:0]
	return err
}

func (w *dealtIDs) close() error { return cmp.Or(w.flush(), w.to.Close()) }

// noType is the error of a type that is not there, or is not said.
func (d *dealer) noType(what string, names []string) error {
	return option.Errorf(ErrOptions, *d.opt, "Type", " is %q: name %s; there are: %s", d.opt.Type, what,
		fmt.Sprintf("%q", names))
}
