package convert

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
)

// begin settles the options of a conversion, and what it may take.
func begin(src, dst string, opt *Options) (*conversion, error) {
	if err := opt.Settle(); err != nil {
		return nil, err
	}
	c := newConversion(src, filepath.Dir(filepath.Clean(dst)), opt)
	c.dst = dst
	c.create = func(w formats.WriterOptions) (*formats.Writer, error) { return formats.Create(dst, w) }
	c.commit = (*formats.Writer).Commit
	return c, nil
}

// newConversion returns a conversion with settled options, whose temporary files are in a folder.
func newConversion(src, temporary string, opt *Options) *conversion {
	if opt.Log == nil {
		opt.Log = func(string) {}
	}
	c := &conversion{src: src, opt: *opt, skips: source.Skips{Limit: opt.SkipBad}}
	c.budget.Dir, c.budget.Memory = temporary, &c.ledger
	c.budget.Disk, _ = transaction.FreeSpace(temporary)
	c.ledger.SetLimit(opt.MemoryLimit)
	return c
}

// guarded calls a function while files are mapped, temporary ones among them.
func (c *conversion) guarded(run func() error) error {
	err := pinned.Guard(run)
	if errors.Is(err, pinned.ErrFault) && c.tree != nil {
		if changed := c.unchanged(); changed != nil { // a source that is mapped became shorter
			return changed
		}
		return source.Error(c.budget.Dir, "", -1, "see whether the disk is damaged, or choose a target on another one",
			fmt.Errorf("a temporary file of the edges: %w", err))
	}
	return err
}

// Settle sets MemoryLimit to the limit that Run keeps: the default where it is 0, and no more than what the control
// group leaves. pinned.ErrLimit where that is nothing. Run calls it.
func (o *Options) Settle() error {
	m := machine.Probe()
	if o.MemoryLimit == 0 {
		o.MemoryLimit = m.Room() / 4
	}
	_, room, ok := m.GroupRoom()
	if !ok {
		return nil
	}
	if room <= 0 {
		return m.GroupIsFull(pinned.ErrLimit)
	}
	o.MemoryLimit = min(o.MemoryLimit, room)
	return nil
}

// lateEdges is the least number of edges that are not read only to count the nodes. Tests change it.
var lateEdges int64 = 1 << 24

// placeFirst has the edges taken in before anything else, and counts the nodes meanwhile. Edges that reach beyond what
// the sample of them made believable are counted, and nil is returned.
func (c *conversion) placeFirst(ctx context.Context, o *order) (*edgesort.Sorter, error) {
	node := c.graph.Node()
	late := *o
	late.opt.Nodes = slices.Clone(o.opt.Nodes)
	late.opt.Nodes[0].Count = 1 << bits.Len64(uint64(max(node.Count-1, 1)))
	sorter, gaps, err := late.place(ctx)
	var beyond *edgesort.RangeError
	switch {
	case errors.As(err, &beyond):
		if err := c.graph.CountNodes(ctx); err != nil {
			return nil, err
		}
		c.watch = false
		return nil, c.noteGaps(ctx)
	case err != nil:
		return nil, o.explain(err)
	}
	defer gaps.close()
	node.Count = max(node.Count, sorter.Greatest()+1)
	if source.TooSparse(sorter.Greatest(), c.graph.Edges.Count) { // counting says so, with a remedy
		return nil, errors.Join(sorter.Close(), c.graph.CountNodes(ctx))
	}
	sorter.SetNodes(node.Count)
	gaps.say()
	return sorter, nil
}

// roomFor refuses a target that the dataset does not fit, before it is written.
func (c *conversion) roomFor(bytes int64) error {
	w, err := formats.Create(c.dst, formats.WriterOptions{Force: c.opt.Force, ExpectBytes: bytes,
		Inputs: c.inputs()})
	if err != nil {
		return err
	}
	return w.Abort()
}

// checkOptions refuses options that the kind of the source does not take.
func (c *conversion) checkOptions(r *source.Reader) error {
	for _, o := range []struct {
		set           bool
		field, allows string
	}{
		{len(c.opt.Columns) > 0, "Columns", "columns"},
		{c.opt.IDs != "" && c.opt.IDs != "auto", "IDs", "ids"},
		{c.opt.Header != "" && c.opt.Header != "auto", "Header", "header"},
		{len(c.opt.Null) > 0, "Null", "null"},
		{c.opt.SkipBad > 0, "SkipBad", "skips"},
		{c.opt.RelationsAsTypes, "RelationsAsTypes", "relations"},
		{c.opt.UpTo != "", "UpTo", "upto"},
		{c.opt.Task != "", "Task", "task"},
		{c.opt.Features != "", "Features", "tables"},
		{c.opt.Labels != "", "Labels", "tables"},
	} {
		if o.set && !slices.Contains(r.Options, o.allows) {
			return option.Errorf(ErrOptions, c.opt, o.field, " is for edge lists and the like, %s is: %s", c.src,
				r.Title)
		}
	}
	return nil
}
