package convert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// maxNodes is the most nodes that are converted: beyond it sizes in bytes would overflow long before a disk is large
// enough.
const maxNodes = 1 << 48

// topology is a CSC that is being made of a source's edges.
//
// To store both directions each edge is given to the builder forth and back, and the direction rides in the low bit of
// the source: within a destination it then comes as (source, forth before back), and one look at the run of a source
// tells how many of the backward ones were not listed anyway.
type topology struct {
	g         *source.Graph
	both      bool
	direction string
	edges     int64 // that will be stored
	dropped   int64 // reverse edges that were listed anyway
	parallel  int64

	opt    csc.Options
	stream bool // in parts, because the whole does not fit
	part   *csc.Part
	free   func()

	ledger *pinned.Ledger
	taken  int64 // charged for it
}

// close frees the memory. A second close does nothing.
func (t *topology) close() {
	if t.free != nil {
		t.free()
	}
	t.ledger.Give(pinned.Building, t.taken)
	t.free, t.part, t.taken = nil, nil, 0
}

// plan decides on direction and memory, and counts the edges that will be stored.
func (c *conversion) plan(ctx context.Context) (*topology, error) {
	g := c.graph
	if g.Nodes > maxNodes {
		return nil, source.Error(c.src, "", -1, "number the nodes from 0, or take the ids as names",
			fmt.Errorf("there are %d nodes", g.Nodes))
	}
	t := &topology{g: g, ledger: &c.ledger}
	switch c.opt.Direction {
	case AsGiven:
		t.both, t.direction = g.Edges.Undirected, "directed, as listed"
		if t.both {
			t.direction = "undirected by definition: both directions, self-loops once"
		}
	case Directed:
		t.direction = "directed, as listed, by request"
	case Symmetrise:
		t.both, t.direction = true, "both directions, self-loops once, by request"
	default:
		return nil, fmt.Errorf("%w: direction %d", ErrOptions, c.opt.Direction)
	}
	t.opt = csc.Options{
		Nodes: g.Nodes, Permutation: len(g.Edges.Columns) > 0, Progress: c.opt.Progress,
		Alloc: func(n int64) ([]byte, func(), error) {
			r, err := pinned.Allocate(n, pinned.Options{})
			if err != nil {
				return nil, nil, err
			}
			return r.Bytes(), func() { _ = r.Close() }, nil
		},
	}
	given := g.Edges.Count
	if t.both {
		t.opt.Sources, given = 2*g.Nodes, 2*given
	}
	if err := t.charge(given); err != nil {
		return nil, err
	}
	c.opt.Log(fmt.Sprintf("%d nodes, %d edges as listed: building takes at most %s of memory and about %v",
		g.Nodes, g.Edges.Count, machine.Bytes(t.taken), time.Duration(given/15_000_000+1)*time.Second))
	if t.edges = g.Edges.Count; !t.both {
		return t, nil
	}
	t.edges = 0
	run := newRun(t)
	return t, t.parts(ctx, func(p csc.Part) error {
		run.each(p, func(int, int64) { t.edges++ }, nil)
		t.dropped = run.dropped
		return nil
	})
}

// charge charges the ledger for building a structure of so many edges: all at once where that fits, else in parts, with
// as many workers as fit.
func (t *topology) charge(edges int64) (err error) {
	all, least := csc.Estimate(t.opt, edges)
	t.taken = all
	if left := t.ledger.Left(); all > left {
		for t.opt.Workers = machine.Workers(); left < least && t.opt.Workers > 1; { // each takes some
			t.opt.Workers /= 2
			_, least = csc.Estimate(t.opt, edges)
		}
		t.stream, t.opt.MemoryLimit, t.taken = true, left, max(left, least)
	}
	if err = t.ledger.Take(pinned.Building, t.taken); err != nil {
		t.taken = 0
		return fmt.Errorf("build a structure of %d edges in parts (at once it takes %s): %w", edges, machine.Bytes(all),
			err)
	}
	return nil
}

// parts calls emit with the parts of the structure. It builds what fits only once.
func (t *topology) parts(ctx context.Context, emit func(csc.Part) error) error {
	edges := edgesOf(&t.g.Edges)
	if t.both {
		edges = bothWays(&t.g.Edges, t.opt.Permutation)
	}
	var err error
	if t.stream {
		err = csc.Stream(ctx, edges, t.opt, emit)
	} else {
		if t.part == nil {
			var p csc.Part
			if p, t.free, err = csc.Build(ctx, edges, t.opt); err == nil {
				t.part = &p
			}
		}
		if err == nil {
			err = emit(*t.part)
		}
	}
	if errors.Is(err, csc.ErrMemory) {
		return fmt.Errorf("%w: build a structure in parts: %w; allow so much more", pinned.ErrLimit, err)
	}
	var bad *csc.RangeError
	if errors.As(err, &bad) {
		edge, where := bad.Edge, fmt.Sprintf("edge %d", bad.Edge)
		if t.both {
			where = "an edge" // the number is that of one direction
		}
		if t.g.Edges.Where != nil && !t.both {
			where = t.g.Edges.Where(edge)
		}
		return fmt.Errorf("%s: %s %d is not below %d nodes", where, bad.What, bad.Value, t.g.Nodes)
	}
	return err
}

// edgesOf yields the edges of a source as the builder wants them.
func edgesOf(e *source.Edges) csc.Edges[int64] {
	return func(yield func(csc.Chunk[int64]) error) error {
		return e.Each(func(src, dst []int64) error { return yield(csc.Chunk[int64]{Src: src, Dst: dst}) })
	}
}

// bothWays yields each edge and, unless it is a self-loop, its reverse, with the direction in the low bit of the
// source.
func bothWays(e *source.Edges, numbered bool) csc.Edges[int64] {
	var out csc.Chunk[int64] // of all walks, which come one after another
	return func(yield func(csc.Chunk[int64]) error) error {
		next := int64(0) // number of an edge
		put := func(src, dst int64) {
			out.Src, out.Dst = append(out.Src, src), append(out.Dst, dst)
			if numbered {
				out.Numbers = append(out.Numbers, next)
			}
		}
		return e.Each(func(src, dst []int64) error {
			out.Src, out.Dst, out.Numbers = out.Src[:0], out.Dst[:0], out.Numbers[:0]
			for i, s := range src {
				put(2*s, dst[i])
				if s != dst[i] {
					put(2*dst[i]+1, s)
				}
				next++
			}
			return yield(out)
		})
	}
}

// run goes over the positions of the parts and drops what is a reverse edge of one that was listed.
type run struct {
	t        *topology
	src      int64 // of the run of parallel edges that we are in; -1: none
	listed   int64 // of them listed
	reversed int64 // of them reverse edges
	dropped  int64
	parallel int64
	kept     int64
	width    int64
}

func newRun(t *topology) *run {
	sources := t.opt.Nodes
	if t.both {
		sources = t.opt.Sources
	}
	return &run{t: t, src: -1, width: csc.IDBytes(sources)}
}

// each calls edge for each position that is kept, with its place in the part and its source, and node, if not nil, for
// each node whose edges begin, with how many edges were kept before it.
func (r *run) each(p csc.Part, edge func(i int, src int64), node func(before int64)) {
	next := 0
	begin := func(pos int64) {
		for ; next < len(p.Indptr) && p.Indptr[next] == pos; next++ {
			r.src = -1
			if node != nil {
				node(r.kept)
			}
		}
	}
	var narrow []int32
	var wide []int64
	if t, err := unified.New(unified.Int32, p.Indices, p.Edges); r.width == 4 && err == nil {
		narrow, _ = unified.View[int32](t)
	} else if t, err := unified.New(unified.Int64, p.Indices, p.Edges); err == nil {
		wide, _ = unified.View[int64](t)
	}
	for i := range int(p.Edges) {
		begin(p.FirstEdge + int64(i))
		var s int64
		if narrow != nil {
			s = int64(narrow[i])
		} else {
			s = wide[i]
		}
		if r.keep(&s) {
			r.kept++
			edge(i, s)
		}
	}
	begin(p.FirstEdge + p.Edges)
}

// keep decides on the next edge of a destination and takes the direction out of its source.
func (r *run) keep(src *int64) bool {
	back := int64(0)
	if r.t.both {
		back = *src & 1
		*src >>= 1
	}
	if *src != r.src {
		r.src, r.listed, r.reversed = *src, 0, 0
	}
	if back == 0 {
		r.listed++
	} else if r.reversed++; r.reversed <= r.listed {
		r.dropped++
		return false
	}
	if max(r.listed, r.reversed) > 1 {
		r.parallel++
	}
	return true
}

// write writes indptr, indices and the columns of the edges.
func (t *topology) write(ctx context.Context, w *formats.Writer, s *graph.Schema) error {
	nodes := t.g.Nodes
	indptr, err := newArray(w.Topology("indptr", unified.Int64, nodes+1))
	if err != nil {
		return err
	}
	indices, err := newArray(w.Topology("indices", s.IDType(), t.edges))
	if err != nil {
		return err
	}
	all := []*array{indptr, indices}
	var columns []*array
	for _, c := range t.g.Edges.Columns {
		a, err := newArray(w.EdgeColumn(c.Column, t.edges))
		if err != nil {
			return err
		}
		a.from, a.width = c.Data, c.RowBytes()
		columns = append(columns, a)
		all = append(all, a)
	}
	run := newRun(t)
	width := s.IDType().Size()
	err = t.parts(ctx, func(p csc.Part) error {
		run.each(p, func(i int, src int64) {
			indices.put(src, width)
			for _, c := range columns {
				c.putRow(p.Perm.At(i))
			}
		}, func(before int64) { indptr.put(before, 8) })
		for _, a := range all {
			if a.err != nil {
				return a.err
			}
		}
		return ctx.Err()
	})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	t.parallel = run.parallel
	for _, a := range all {
		if err == nil {
			err = a.close()
		}
	}
	return err
}

// notes says what was found on the way.
func (t *topology) notes() []string {
	var n []string
	if t.dropped > 0 {
		n = append(n, fmt.Sprintf("%d edges were listed in both directions: they are stored once each way",
			t.dropped/2))
	}
	if t.parallel > 0 {
		n = append(n, fmt.Sprintf("%d edges are parallel to an earlier one; they are kept", t.parallel))
	}
	return n
}
