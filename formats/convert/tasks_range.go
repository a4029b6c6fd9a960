package convert

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/runs"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// rangeMade is the in-edges of a range of nodes, all types numbered through.
type rangeMade struct {
	First  int64          `json:"first"`
	Last   int64          `json:"last"` // behind the last
	Edges  int64          `json:"edges"`
	Counts []int64        `json:"counts"` // of each edge type
	Arrays []stored       `json:"arrays"` // indptr, indices, types where there are several, columns
	Stats  edgesort.Stats `json:"stats"`
}

// ranges divides the nodes by the edges that lead to them.
func (u *united) ranges() []runs.Key {
	var files []*runs.File
	for i := range u.reads {
		files = append(files, u.reads[i].Files...)
	}
	return runs.Borders(u.t.plan.Tasks, files)
}

// fused returns the number of a key among all nodes: of one beyond the nodes of its type that of the next type's first.
func (u *united) fused(k runs.Key) (n int64) {
	typ, id := k.Node()
	for i := range u.t.c.graph.Nodes {
		count := u.t.c.graph.Nodes[i].Count
		if i == typ {
			return n + min(id, count)
		}
		n += count
	}
	return n
}

// sortRange sorts the in-edges of a range of nodes.
func (t *task) sortRange(ctx context.Context) (err error) {
	u, err := t.unite()
	if err != nil {
		return err
	}
	c := t.c
	defer func() { err = errors.Join(err, c.graph.Close()) }()
	if err := u.placed(); err != nil {
		return err
	}
	borders := append(u.ranges(), runs.End)
	from, to := borders[t.Number], borders[t.Number+1]
	m := &rangeMade{First: u.fused(from), Last: u.fused(to), Counts: make([]int64, max(len(c.graph.Types), 1))}
	if m.First < m.Last {
		if err := u.sort(ctx, from, to, m); err != nil {
			return err
		}
	}
	return t.finish(made{Range: m})
}

// sort sorts the edges whose targets have keys from one on to below another.
func (u *united) sort(ctx context.Context, from, to runs.Key, m *rangeMade) (err error) {
	t, c := u.t, u.t.c
	o, err := c.plan()
	if err != nil {
		return err
	}
	both := o.both
	inside := func(k runs.Key) bool { return k >= from && k < to }
	c.graph.Edges.Each = func(yield func(source.Batch) error) error {
		for i := range u.reads {
			if err := u.each(&u.reads[i], 0, runs.ByTarget, from, to, nil, yield); err != nil {
				return err
			}
			if !both {
				continue
			}
			// of those that come from the range, and do not lead to it, the reverses are in it
			if err := u.each(&u.reads[i], 1, runs.BySource, from, to, inside, yield); err != nil {
				return err
			}
		}
		return nil
	}
	if err := u.times(ctx); err != nil {
		return err
	}
	if o, err = c.plan(); err != nil {
		return err
	}
	o.opt.First, o.opt.Last, o.opt.Inside = m.First, m.Last, !both && o.opt.Loops != edgesort.DropLoops
	if o.opt.Edges, err = u.count(from, to, both); err != nil {
		return err
	}
	sorter, err := edgesort.New(o.opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sorter.Close()) }()
	if err := c.graph.Edges.Each(func(b source.Batch) error { return sorter.Add(ctx, b) }); err != nil {
		return o.explain(err)
	}
	return t.emit(ctx, sorter, m)
}

// count returns how many edges are sorted, about; of both directions half as many.
func (u *united) count(from, to runs.Key, both bool) (n int64, err error) {
	orders := []runs.By{runs.ByTarget}
	if both {
		orders = append(orders, runs.BySource)
	}
	for i := range u.reads {
		for k, by := range orders {
			in, err := u.file(&u.reads[i], k, by)
			if err != nil {
				return 0, err
			}
			n += in.Count(from, to)
			if err := in.Close(); err != nil {
				return 0, err
			}
		}
	}
	if both {
		n = n/2 + 1
	}
	return n, nil
}

// emit writes the sorted edges.
func (t *task) emit(ctx context.Context, sorter *edgesort.Sorter, m *rangeMade) (err error) {
	c := t.c
	var all []*output
	defer func() {
		if err != nil {
			for _, out := range all {
				_ = out.file.Close()
			}
		}
	}()
	add := func(name string) io.Writer {
		out, e := t.create(name)
		if e != nil {
			err = errors.Join(err, e)
			return nil
		}
		all = append(all, out)
		return out
	}
	sink := edgesort.Sink{Indptr: add("indptr"), Indices: add("indices")}
	if n := len(c.graph.Types); n > 1 {
		sink.Types = &typeCounter{add("types"), m.Counts, typeOf(n).Size() == 2}
	}
	for i := range c.graph.Edges.Columns {
		sink.Columns = append(sink.Columns, add(fmt.Sprintf("column-%d", i)))
	}
	if err != nil {
		return err
	}
	if err := sorter.Emit(ctx, sink); err != nil {
		return err
	}
	for _, out := range all {
		s, err := out.finish()
		if err != nil {
			return err
		}
		m.Arrays = append(m.Arrays, s)
	}
	m.Stats = sorter.Stats
	if m.Edges = sorter.Stats.Edges; len(c.graph.Types) < 2 {
		m.Counts[0] = m.Edges
	}
	return nil
}
