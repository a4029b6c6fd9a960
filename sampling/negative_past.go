package sampling

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/khop-gnn/khop/unified"
)

// pastEdge is an edge as the node at one end has it.
type pastEdge struct{ time, other int64 }

func (a pastEdge) compare(b pastEdge) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.other, b.other))
}

// pastEdges are the edges of a type by the node at one end, those of a node by (time, other end).
type pastEdges struct {
	starts []int64    // where those of each node begin, and those of the last end
	words  []int64    // two an edge
	edges  []pastEdge // a view of them

	memory [2]unified.Buffer
}

// find returns the edges of a node, and how many are before one.
func (p *pastEdges) find(node int64, one pastEdge) (run []pastEdge, before int) {
	run = p.edges[p.starts[node]:p.starts[node+1]]
	return run, sort.Search(len(run), func(i int) bool { return run[i].compare(one) >= 0 })
}

// draw returns the other end of one of a node's edges before a time; found is false if there are none.
func (p *pastEdges) draw(draw uint64, node, time int64) (id int64, found bool) {
	run, n := p.find(node, pastEdge{time, math.MinInt64})
	if n == 0 {
		return 0, false
	}
	return run[bounded(draw, uint64(n))].other, true
}

// has reports whether a node has an edge to another at a time.
func (p *pastEdges) has(node, time, other int64) bool {
	one := pastEdge{time, other}
	run, n := p.find(node, one)
	return n < len(run) && run[n] == one
}

// stays reports whether negatives look edges up by an end: 0 the source, 1 the target.
func (n *Negatives) stays(end int) bool {
	return n.Law == Historical && (n.Replace == EitherEnd || n.Replace == [...]End{TargetEnd, SourceEnd}[end])
}

// listPast lists the edges of the types that have seeds by the ends that stay.
func (d *Drawer) listPast(ctx context.Context, progress func(done, total int64)) error {
	column, _ := d.finder.graph.EdgeColumn(d.opt.History) // Validate saw that it is there
	times, err := unified.Integers(column)
	if err != nil {
		return fmt.Errorf("%w: negatives: column %q of the edges is %v; it must have one integer an edge", ErrOptions,
			d.opt.History, column)
	}
	d.past = make([][2]pastEdges, len(d.ends))
	for e := range d.past {
		for end, in := range d.ends[e] {
			if in != nil && d.opt.stays(end) && err == nil {
				err = d.listBy(ctx, progress, times, e, end)
			}
		}
	}
	return err
}

// listBy lists the edges of a type by one end.
func (d *Drawer) listBy(ctx context.Context, progress func(done, total int64), times func(int64) int64,
	e, end int) (err error) {
	p, n := &d.past[e][end], d.ends[e][end].n
	d.memory.own(&p.memory[0], &p.memory[1])
	if p.starts, err = exactly[int64](&p.memory[0], n+1); err != nil {
		return err
	}
	clear(p.starts)
	err = d.eachEdge(ctx, e, progress, func(source, target, _ int64) {
		p.starts[[...]int64{source, target}[end]+1]++
	})
	for v := range n {
		p.starts[v+1] += p.starts[v]
	}
	if err == nil {
		p.words, err = exactly[int64](&p.memory[1], 2*p.starts[n])
	}
	if err != nil {
		return err
	}
	p.edges = part[pastEdge](unified.FromSlice(p.words).Bytes(), 0, len(p.words)/2)
	err = d.eachEdge(ctx, e, progress, func(source, target, pos int64) {
		ends := [...]int64{source, target}
		at := &p.starts[ends[end]]
		p.edges[*at] = pastEdge{times(pos), ends[1-end]}
		*at++
	})
	copy(p.starts[1:], p.starts) // each had come to where the next begins
	p.starts[0] = 0
	for v := range n {
		slices.SortFunc(p.edges[p.starts[v]:p.starts[v+1]], pastEdge.compare)
	}
	return err
}
