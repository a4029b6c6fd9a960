package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// maxNodes is the most nodes that are converted: beyond it sizes in bytes would overflow long before a disk is large
// enough.
const maxNodes = 1 << 48

// order is the way of a source's edges to the dataset.
type order struct {
	c         *conversion
	both      bool
	direction string
	most      int64 // edges that will be stored at most
	exact     bool  // so many
	opt       edgesort.Options
	stats     edgesort.Stats
	counts    []int64 // of the edges of each type
}

// plan decides on direction and order.
func (c *conversion) plan() (*order, error) {
	g, o := c.graph, &order{c: c}
	for _, n := range g.Nodes {
		if n.Count > maxNodes {
			return nil, source.Error(c.src, "", -1, "number the nodes from 0, or take the ids as names",
				fmt.Errorf("there are %d nodes", n.Count))
		}
	}
	if err := o.direct(); err != nil {
		return nil, err
	}
	o.opt = edgesort.Options{Nodes: g.Nodes, Types: g.Types, Columns: g.Edges.Columns, Both: o.both, ByTime: -1,
		Loops: edgesort.Loops(c.opt.Loops), Edges: g.Edges.Count, Budget: &c.budget, Progress: c.opt.Progress}
	switch c.opt.Merge {
	case MergeFirst, MergeSum, MergeMax:
		o.opt.Merge = edgesort.First + edgesort.Merge(c.opt.Merge-MergeFirst)
	case MergeNone:
		if o.both && len(g.Edges.Columns) == 0 {
			o.opt.Merge = edgesort.MostOfTwo
		}
	default:
		return nil, fmt.Errorf("%w: merge %d", ErrOptions, c.opt.Merge)
	}
	if c.opt.ByTime {
		if o.opt.ByTime = timeColumn(g.Edges.Columns); o.opt.ByTime < 0 {
			return nil, option.Textf("%w: edges have no column time of one number each: name it by %s", ErrOptions,
				option.NameOf(o.c.opt, "Columns"))
		}
	}
	o.most = g.Edges.Count
	if o.both {
		o.most *= 2
	}
	if o.opt.Loops == edgesort.AddLoops {
		for _, n := range g.Nodes {
			o.most += n.Count
		}
	}
	o.exact = !o.both && o.opt.Merge == edgesort.Keep && o.opt.Loops == edgesort.KeepLoops
	return o, nil
}

func timeColumn(columns []graph.Column) int {
	return slices.IndexFunc(columns, func(c graph.Column) bool {
		return c.Role() == graph.Time && len(c.Shape) == 0 && !c.DType.IsHalf()
	})
}

// direct decides on the directions that are stored.
func (o *order) direct() error {
	g := o.c.graph
	switch o.c.opt.Direction {
	case AsGiven:
		o.both, o.direction = g.Edges.Undirected, "directed, as listed"
		if o.both {
			o.direction = "undirected by definition: both directions, self-loops once"
			g.Tell(source.Doubled, "edges", g.Edges.Count,
				"%s both ways by the format's definition, and stored in both directions; %s says that it is meant, "+
					"%s stores them as listed", source.Counted(g.Edges.Count, "edge goes", "edges go"),
				option.Named("Symmetrise"), option.Named("Directed"))
		}
	case Directed:
		o.direction = "directed, as listed, by request"
	case Symmetrise:
		o.both, o.direction = true, "both directions, self-loops once, by request"
	default:
		return fmt.Errorf("%w: direction %d", ErrOptions, o.c.opt.Direction)
	}
	for _, t := range g.Types {
		if o.both && t.Source != t.Target {
			return option.Textf("%w: edges from %q to %q have no reverse of their own type: leave out %s",
				ErrOptions, g.Nodes[t.Source].Name, g.Nodes[t.Target].Name, option.Named("Symmetrise"))
		}
	}
	return nil
}

// sayNeeds says what ordering the edges takes of memory and disk, and refuses what the disk does not hold.
func (o *order) sayNeeds() (memory, spill int64, err error) {
	all, _ := edgesort.Need(o.opt)
	memory = min(all, o.c.ledger.Left()-o.c.ledger.Left()/8)
	spill = edgesort.Spill(o.opt, memory)
	o.c.opt.Log(fmt.Sprintf("%s, %s as listed: ordering takes at most %s of memory, %s of temporary files "+
		"beside the dataset, and about %v", source.Counted(o.nodes(), "node", "nodes"),
		source.Counted(o.c.graph.Edges.Count, "edge", "edges"), machine.Bytes(memory),
		machine.Bytes(spill), time.Duration(o.most/25_000_000+1)*time.Second))
	return memory, spill, o.c.budget.RoomOnDisk(spill)
}

func (o *order) nodes() (n int64) {
	for _, t := range o.c.graph.Nodes {
		n += t.Count
	}
	return n
}

// place has all edges taken in by a sorter, which is the caller's, as are the gaps among the nodes: those of no node
// unless they are watched for. Its errors are to be explained.
func (o *order) place(ctx context.Context) (*edgesort.Sorter, *gaps, error) {
	sorter, err := edgesort.New(o.opt)
	if err != nil {
		return nil, nil, err
	}
	g := &gaps{c: o.c}
	if o.c.watch {
		g = o.c.newGaps(o.opt.Nodes)
	}
	if err := g.watch(o.c.graph.Edges.Each)(func(b source.Batch) error { return sorter.Add(ctx, b) }); err != nil {
		g.close()
		_ = sorter.Close()
		return nil, nil, err
	}
	return sorter, g, nil
}

// write writes indptr, indices, types and the columns of the edges, and sets counts. The sorter has taken the edges in,
// or is nil.
func (o *order) write(ctx context.Context, w *formats.Writer, s *graph.Schema, sorter *edgesort.Sorter) (err error) {
	if sorter == nil {
		var g *gaps
		if sorter, g, err = o.place(ctx); err != nil {
			return o.explain(err)
		}
		g.say()
		g.close()
		defer func() { _ = sorter.Close() }()
	}
	sink, close, err := o.sink(w, s)
	if err != nil {
		return err
	}
	if err := sorter.Emit(ctx, sink); err != nil {
		return o.explain(err)
	}
	if err := close(); err != nil {
		return err
	}
	o.stats = sorter.Stats
	return sorter.Close()
}

// sink opens the arrays that edges go to.
func (o *order) sink(w *formats.Writer, s *graph.Schema) (sink edgesort.Sink, close func() error, err error) {
	var all []*formats.ColumnWriter
	add := func(cw *formats.ColumnWriter, e error) io.Writer {
		if err = errors.Join(err, e); err != nil {
			return nil
		}
		if !o.exact && len(all) > 0 {
			cw.AtMost()
		}
		all = append(all, cw)
		return cw
	}
	sink.Indptr = add(w.Topology("indptr", unified.Int64, o.nodes()+1))
	if err == nil {
		sink.Indices = add(w.Topology("indices", s.IDType(), o.most))
	}
	types := int64(len(o.c.graph.Types))
	o.counts = []int64{0}
	if types > 1 && err == nil {
		dtype := typeOf(int(types))
		o.counts = make([]int64, types)
		sink.Types = &typeCounter{add(w.Topology("type", dtype, o.most)), o.counts, dtype == unified.Uint16}
	}
	for _, c := range s.EdgeColumns {
		if err == nil {
			sink.Columns = append(sink.Columns, add(w.EdgeColumn(c, o.most)))
		}
	}
	return sink, func() error {
		for _, cw := range all {
			if err := cw.Close(); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// typeCounter counts the edge types that it passes on.
type typeCounter struct {
	io.Writer
	counts []int64
	wide   bool
}

func (t *typeCounter) Write(p []byte) (int, error) {
	if t.wide {
		for i := 0; i+1 < len(p); i += 2 {
			t.counts[int(p[i])|int(p[i+1])<<8]++
		}
	} else {
		for _, b := range p {
			t.counts[b]++
		}
	}
	return t.Writer.Write(p)
}

// explain says which edge of the source is wrong.
func (o *order) explain(err error) error {
	var bad *edgesort.RangeError
	if !errors.As(err, &bad) {
		return err
	}
	where := fmt.Sprintf("edge %d", bad.Edge)
	if o.c.graph.Edges.Where != nil {
		where = strings.TrimPrefix(o.c.graph.Edges.Where(bad.Edge), filepath.Clean(o.c.src)+": ")
	}
	if bad.Value < 0 {
		return source.Error(o.c.src, "", -1, "", fmt.Errorf("%s: %s %d is negative", where, bad.What, bad.Value))
	}
	return source.Error(o.c.src, "", -1, "", fmt.Errorf("%s: %s %d is not below %d nodes", where, bad.What, bad.Value,
		bad.Limit))
}

// notes says what was found on the way.
func (o *order) notes() (list []source.Note) {
	done := "added"
	if o.opt.Loops == edgesort.DropLoops {
		done = "dropped"
	}
	for _, n := range []struct {
		count           int64
		one, many, what string
	}{
		{o.stats.Reversed / 2, "edge was", "edges were", "listed in both directions: stored once each way"},
		{o.stats.Parallel, "edge is", "edges are", "parallel to an earlier one, and kept"},
		{o.stats.Merged, "edge was", "edges were", "merged into an earlier one between the same nodes"},
		{o.stats.Loops, "self-loop was", "self-loops were", done},
	} {
		if n.count > 0 {
			list = append(list, source.NewNote(source.Said, "edges", n.count, "%s %s",
				source.Counted(n.count, n.one, n.many), n.what))
		}
	}
	return list
}

// ids returns node ids as a split stores them.
func ids(list []int64, narrow bool) unified.Tensor {
	if !narrow {
		return unified.FromSlice(list)
	}
	short := make([]int32, len(list))
	for i, v := range list {
		short[i] = int32(v)
	}
	return unified.FromSlice(short)
}
