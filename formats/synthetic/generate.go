package synthetic

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// version is that of what is generated: it changes when the same options make other files.
const version = "1"

// A chunk is about this many edges, or bytes of features, but never less than a row.
const (
	chunkEdges = 1 << 17
	chunkBytes = 1 << 19
)

// headBytes is what the heads and tails of all files take at most: not much over 64 KiB for each.
const headBytes = 1 << 20

// Result is what Generate made.
type Result struct {
	Kind        string
	Options     Options // resolved: exact counts
	Schema      graph.Schema
	MaxInDegree int64
	Bytes       int64 // of all arrays, without the files' heads
}

// Generate writes a graph of the given kind as a new dataset in the directory dst. The files depend only on kind and
// options, not on Workers or the machine.
//
// It works in constant memory, whatever the size: a few chunks of about 2 MB a worker (more only where a single
// destination has more than 2^17 in-edges) and a table of classes.
//
// Errors: ErrOptions, those of package formats, and context.Cause(ctx). After an error dst holds no
// dataset, or the one that Options.Force was to replace.
func Generate(ctx context.Context, kind, dst string, opt Options) (res *Result, err error) {
	o, err := opt.resolve(kind)
	if err != nil {
		return nil, err
	}
	p := newPlan(kind, o)
	if err := p.schema.Init(); err != nil {
		return nil, err
	}
	w, err := formats.Create(dst, formats.WriterOptions{Force: o.Force, Progress: o.Progress, ExpectBytes: p.bytes() +
		headBytes,
		Provenance: map[string]string{
			"generator":         "khop generate " + kind,
			"generator_version": version,
			"seed":              strconv.FormatUint(o.Seed, 10),
			"nodes":             strconv.FormatInt(o.Nodes, 10),
			"edges":             strconv.FormatInt(o.Edges, 10),
			"features":          strconv.Itoa(o.Features),
			"classes":           strconv.Itoa(o.Classes),
		}})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			res, err = nil, errors.Join(err, w.Abort())
		}
	}()
	g := &generator{plan: p, w: w, workers: o.Workers}
	res = &Result{Kind: kind, Options: o, Schema: p.schema, Bytes: p.bytes()}
	if res.MaxInDegree, err = g.topology(ctx); err != nil {
		return res, err
	}
	for t := range p.schema.Nodes {
		if err = g.columns(ctx, t); err != nil {
			return res, err
		}
	}
	order := newShuffle(p.splitKey, uint64(p.schema.Nodes[0].Count))
	first := uint64(0)
	for _, s := range p.splits {
		if err = g.split(ctx, s, &order, first); err != nil {
			return res, err
		}
		first += uint64(s.size)
	}
	if err = context.Cause(ctx); err != nil {
		return res, err
	}
	return res, w.Commit(p.schema)
}

// generator writes a plan.
type generator struct {
	plan    *plan
	w       *formats.Writer
	workers int
}

// topology writes the CSC and returns the greatest in-degree.
func (g *generator) topology(ctx context.Context) (maxDegree int64, err error) {
	s := &g.plan.schema
	nodes, edges, id := s.NumNodes(), s.NumEdges(), s.IDType()
	out := columns{}
	defer func() { err = out.close(err) }()
	indptr := out.add(g.w.Topology("indptr", unified.Int64, nodes+1))
	indices := out.add(g.w.Topology("indices", id, edges))
	var types *formats.ColumnWriter
	if len(s.Edges) > 1 {
		types = out.add(g.w.Topology("type", unified.Uint8, edges))
	}
	if out.err != nil {
		return 0, out.err
	}
	done := int64(0)
	if _, err := indptr.Write(make([]byte, 8)); err != nil {
		return 0, err
	}
	fill := func(c *chunk) {
		g.plan.edges(c)
		c.bytes = encodeIDs(c.bytes, c.sources, id.Size())
	}
	write := func(c *chunk) error {
		last := int64(0)
		for i, end := range c.ends {
			maxDegree = max(maxDegree, end-last)
			last = end
			c.ends[i] = done + end
		}
		done += last
		c.other = encodeIDs(c.other, c.ends, 8)
		return writeAll(piece{indptr, c.other}, piece{indices, c.bytes}, piece{types, c.types})
	}
	length := int(max(1, chunkEdges/(edges/max(nodes, 1)+1)))
	if err := inOrder(ctx, g.workers, nodes, length, fill, write); err != nil {
		return 0, err
	}
	if done != edges {
		return 0, fmt.Errorf("generated %d edges, not %d: this is a bug in package synthetic", done, edges)
	}
	return maxDegree, nil
}

// columns writes features and labels of a node type.
func (g *generator) columns(ctx context.Context, t int) (err error) {
	a, nt := g.plan.attributes[t], &g.plan.schema.Nodes[t]
	if a == nil || len(nt.Columns) == 0 {
		return nil
	}
	out := columns{}
	defer func() { err = out.close(err) }()
	var feature, label *formats.ColumnWriter
	for _, c := range nt.Columns {
		if c.Role() == graph.Feature {
			feature = out.add(g.w.NodeColumn(t, c, nt.Count))
		} else {
			label = out.add(g.w.NodeColumn(t, c, nt.Count))
		}
	}
	if out.err != nil {
		return out.err
	}
	write := func(c *chunk) error {
		return writeAll(piece{feature, c.bytes}, piece{label, c.other})
	}
	return inOrder(ctx, g.workers, nt.Count, max(1, chunkBytes/(4*a.width+8)), a.fill, write)
}

// split writes the seeds of a split: the nodes at positions first .. first+size-1 of a shuffled order.
func (g *generator) split(ctx context.Context, s split, order *shuffle, first uint64) (err error) {
	id := g.plan.schema.IDType()
	out := columns{}
	defer func() { err = out.close(err) }()
	seeds := out.add(g.w.Split(s.name, 0, 0, id, s.size))
	if out.err != nil {
		return out.err
	}
	fill := func(c *chunk) {
		for i := range uint64(c.n) {
			c.push(order.at(first + c.first + i))
		}
		c.bytes = encodeIDs(c.bytes, c.sources, id.Size())
	}
	write := func(c *chunk) error {
		return writeAll(piece{seeds, c.bytes})
	}
	return inOrder(ctx, g.workers, s.size, chunkBytes/8, fill, write)
}

// columns are the open files of a stage.
type columns struct {
	open []*formats.ColumnWriter
	err  error // the first that opening one met
}

func (cs *columns) add(c *formats.ColumnWriter, err error) *formats.ColumnWriter {
	if err != nil {
		if cs.err == nil {
			cs.err = err
		}
		return nil
	}
	cs.open = append(cs.open, c)
	return c
}

// close closes all and returns err, or else the first error of closing.
func (cs *columns) close(err error) error {
	for _, c := range cs.open {
		if e := c.Close(); err == nil {
			err = e
		}
	}
	return err
}

// piece is bytes for a column; a nil column is left out.
type piece struct {
	to    *formats.ColumnWriter
	bytes []byte
}

func writeAll(pieces ...piece) error {
	for _, p := range pieces {
		if p.to == nil {
			continue
		}
		if _, err := p.to.Write(p.bytes); err != nil {
			return err
		}
	}
	return nil
}
