package convert

import (
	"context"
	"slices"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// findEdges finds the type of the edges.
func (d *dealer) findEdges() (err error) {
	var names []string
	for i := range d.schema.Edges {
		names = append(names, d.schema.Edges[i].String())
	}
	if d.opt.Type != "" || len(d.schema.Edges) != 1 {
		if d.typ, err = d.ds.Graph().Schema().EdgeTypes()(d.opt.Type); err != nil {
			return d.noType("an edge type", names)
		}
	}
	e := &d.schema.Edges[d.typ]
	if d.opt.Undirected && e.Src != e.Dst {
		return option.Errorf(ErrOptions, *d.opt, "Undirected", ": %v has two types of nodes: name the type of the "+
			"reverse edges by %v", e, option.NameOf(*d.opt, "Reverse"))
	}
	d.key = e.Key
	return nil
}

// dealtLinks are edges of a type by split.
type dealtLinks struct {
	*dealer
	index  int
	stage  uint64
	source func(edge int64) int64
	typeOf func(edge int64) int64
	ranks  ranks
	n      [3]int64 // links
}

// Stretches of the edges in the order of their draws: links of val and of test, those to learn from, and the rest,
// which training follows. Without Disjoint all of the rest are links to learn from as well.
const (
	dealtVal = iota
	dealtTest
	dealtApart
	dealtRest
)

// links deals edges.
func (d *dealer) links(index int) (_ dealt, err error) {
	x := &dealtLinks{dealer: d, index: index, stage: d.stage, typeOf: func(int64) int64 { return 0 }}
	g := d.ds.Graph()
	if err := d.ds.VerifyTopology(); err != nil {
		return nil, err
	}
	if x.source, err = unified.Integers(g.Indices()); err != nil {
		return nil, err
	}
	if t := g.Types(); t.Valid() {
		if x.typeOf, err = unified.Integers(t); err != nil {
			return nil, err
		}
	}
	if d.reverse == nil {
		if err := x.findReverse(); err != nil {
			return nil, err
		}
	}
	links := int64(0)
	if err := x.eachLink(func(_, _ int64, _ uint64) error { links++; return nil }); err != nil {
		return nil, err
	}
	d.res.Items = links
	if err := x.settle(links); err != nil {
		return nil, err
	}
	return x, x.eachLink(func(_, _ int64, draw uint64) error {
		if split := x.split(draw); split != inNone {
			x.n[split]++
		}
		return nil
	})
}

// findReverse finds the types that store the same links the other way round: the one that is given, and each that has
// the same edges but for their direction. Of others that lead back it notes how many of their edges reverse a link.
func (x *dealtLinks) findReverse() error {
	x.dealer.reverse = make([]bool, len(x.schema.Edges))
	e := &x.schema.Edges[x.typ]
	var back []int
	for r := range x.schema.Edges {
		if o := &x.schema.Edges[r]; r != x.typ && e.Src == o.Dst && e.Dst == o.Src {
			back = append(back, r)
		}
	}
	if x.opt.Reverse != "" {
		r, err := x.ds.Graph().Schema().EdgeTypes()(x.opt.Reverse)
		if err != nil {
			return option.Errorf(ErrOptions, *x.opt, "Reverse", " %s: %w", x.opt.Reverse, err)
		}
		if !slices.Contains(back, r) {
			return option.Errorf(ErrOptions, *x.opt, "Reverse", ": %v does not lead back as %v leads",
				&x.schema.Edges[r], e)
		}
		x.reverse[r] = true
	}
	if len(back) == 0 && !x.between() {
		return nil // no edge can be the reverse of a link
	}
	sums, both, err := x.pairSums(back)
	if err != nil {
		return err
	}
	x.res.Both = both
	for _, r := range back {
		if x.reverse[r] = x.reverse[r] || sums[r] == sums[x.typ]; x.reverse[r] {
			x.res.Reverses = append(x.res.Reverses, x.schema.Edges[r].String())
			continue
		}
		n, of, err := x.reversing(r)
		if err != nil {
			return err
		}
		if n > 0 {
			x.res.Back = append(x.res.Back, backEdges{x.schema.Edges[r].String(), n, of})
		}
	}
	return nil
}

// pairSums sums up hashes of the ends of all links, and of the reverses of edges of other types: equal sums are of the
// same edges, whatever their order, but for a chance of 2^-128. both reports whether all links are stored in both
// directions.
func (x *dealtLinks) pairSums(back []int) (sums map[int][3]uint64, both bool, err error) {
	sums = map[int][3]uint64{}
	var one, other [3]uint64
	err = x.eachEdge(func(e, u, v int64) error {
		t := int(x.typeOf(e))
		switch {
		case t == x.typ:
			one = plusPair(one, u, v)
			if x.between() {
				other = plusPair(other, v, u)
			}
		case slices.Contains(back, t):
			sums[t] = plusPair(sums[t], v, u)
		}
		return nil
	})
	sums[x.typ] = one
	return sums, one == other && one[0] > 0, err
}

// plusPair adds a hash of two nodes.
func plusPair(sum [3]uint64, u, v int64) [3]uint64 {
	a, b := rng.Stream(uint64(u), uint64(v)), rng.Stream(^uint64(u), uint64(v))
	return [3]uint64{sum[0] + 1, sum[1] + rng.Draw(a, 0), sum[2] + rng.Draw(b, 1)}
}

// between reports whether links are between nodes of one type, and may so have a reverse of their own type.
func (x *dealtLinks) between() bool {
	e := &x.schema.Edges[x.typ]
	return e.Src == e.Dst
}

// reversing counts, of some edges of a type that leads back, those that reverse a link.
func (x *dealtLinks) reversing(r int) (n, of int64, err error) {
	const some = 1024
	g := x.ds.Graph()
	step := max(1, x.schema.Edges[r].Count/some)
	at := int64(0)
	err = x.eachEdge(func(e, u, v int64) error { // v is the link's source
		if int(x.typeOf(e)) != r {
			return nil
		}
		if at++; at%step == 0 {
			of++
			for in := g.Indptr()[u]; in < g.Indptr()[u+1]; in++ {
				if x.source(in) == v && int(x.typeOf(in)) == x.typ {
					n++
					break
				}
			}
		}
		return nil
	})
	return n, of, err
}

// settle decides which draws are in which stretch.
func (x *dealtLinks) settle(links int64) error {
	val, err := x.opt.amount("Val", x.opt.Val, links)
	if err != nil {
		return err
	}
	test, err := x.opt.amount("Test", x.opt.Test, links)
	switch {
	case err != nil:
		return err
	case val < 0 || test < 0:
		return option.Errorf(ErrOptions, *x.opt, "Val", " and %v are counts or shares with %v: the rest is train",
			option.NameOf(*x.opt, "Test"), option.NameOf(*x.opt, "Links"))
	case val+test > links:
		return option.Errorf(ErrOptions, *x.opt, "Test", " and %v are %d in all, but %d links are there",
			option.NameOf(*x.opt, "Val"), val+test, links)
	}
	apart := int64(x.opt.Disjoint * float64(links-val-test))
	x.ranks, err = rank([]int64{val, val + test, val + test + apart}, links, &x.ledger,
		func(yield func(draw uint64) error) error {
			return x.eachLink(func(_, _ int64, draw uint64) error { return yield(draw) })
		})
	return err
}

// split returns the split that has a link of a draw.
func (x *dealtLinks) split(draw uint64) int {
	switch x.ranks.of(draw) {
	case dealtVal:
		return inVal
	case dealtTest:
		return inTest
	case dealtRest:
		if x.opt.Disjoint > 0 {
			return inNone
		}
	}
	return inTrain
}

// eachEdge yields all edges with their ends, fused ids.
func (x *dealtLinks) eachEdge(yield func(e, u, v int64) error) error {
	indptr := x.ds.Graph().Indptr()
	for v := range int64(len(indptr) - 1) {
		if v&0xFFFF == 0 && x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		for e := indptr[v]; e < indptr[v+1]; e++ {
			if err := yield(e, x.source(e), v); err != nil {
				return err
			}
		}
	}
	return nil
}

// draw returns the draw of an edge from its ends, fused ids, which is that of its reverse, too, of its own type or of
// another: both ways of a link go together. ok is false for edges that are not dealt.
func (x *dealtLinks) draw(e, u, v int64) (draw uint64, ok bool) {
	switch t := int(x.typeOf(e)); {
	case x.reverse[t]:
		u, v = v, u
	case t != x.typ:
		return 0, false
	}
	if x.between() {
		u, v = min(u, v), max(u, v)
	}
	edge, g := &x.schema.Edges[x.typ], x.ds.Graph()
	return rng.Draw(rng.Stream(x.stage, uint64(u-g.Offset(edge.Src))), uint64(v-g.Offset(edge.Dst))), true
}

// eachLink yields the edges that are links to predict, by own ids: those of the type, of undirected ones those from the
// smaller id.
func (x *dealtLinks) eachLink(yield func(u, v int64, draw uint64) error) error {
	edge, g := &x.schema.Edges[x.typ], x.ds.Graph()
	return x.eachEdge(func(e, u, v int64) error {
		if int(x.typeOf(e)) != x.typ || x.opt.Undirected && u > v {
			return nil
		}
		draw, _ := x.draw(e, u, v)
		return yield(u-g.Offset(edge.Src), v-g.Offset(edge.Dst), draw)
	})
}

func (x *dealtLinks) counts() [3]int64 { return x.n }
func (x *dealtLinks) bytes() int64 {
	return (x.n[0]+x.n[1]+x.n[2])*2*x.schema.IDType().Size() + 3*x.schema.NumEdges()
}

// write writes the links, and the columns of the edges.
func (x *dealtLinks) write(w *formats.Writer) error {
	var to [3][2]*dealtIDs
	e := &x.schema.Edges[x.typ]
	for i := range to {
		for end, node := range []int{e.Src, e.Dst} {
			cw, err := w.Links(x.opt.Names[i], x.index, x.typ, node, []string{"source", "target"}[end],
				x.schema.IDType(), x.n[i])
			if err != nil {
				return err
			}
			to[i][end] = x.idWriter(cw)
		}
	}
	err := x.eachLink(func(u, v int64, draw uint64) error {
		in := x.split(draw)
		if in == inNone {
			return nil
		}
		if err := to[in][0].add(u); err != nil {
			return err
		}
		return to[in][1].add(v)
	})
	for _, ends := range to {
		for _, list := range ends {
			if err == nil {
				err = list.close()
			}
		}
	}
	for i := range 3 {
		if err == nil {
			err = x.writeColumn(w, i)
		}
	}
	return err
}

// follows reports whether a split may follow an edge of a stretch: training those that are not its links, validation
// all to learn from, testing those of validation as well.
func follows(split, stretch int) bool {
	switch split {
	case inTrain:
		return stretch == dealtRest
	case inVal:
		return stretch == dealtRest || stretch == dealtApart
	}
	return stretch != dealtTest
}

// writeColumn writes the column that is 1 for the edges that a split may follow.
func (x *dealtLinks) writeColumn(w *formats.Writer, split int) error {
	c := graph.Column{Name: names.Follow(x.opt.Names[split], x.index), DType: unified.Uint8}
	cw, err := w.EdgeColumn(c, x.schema.NumEdges())
	if err != nil {
		return err
	}
	data := make([]byte, 0, 1<<16)
	err = x.eachEdge(func(e, u, v int64) error {
		follow := byte(1)
		if draw, ok := x.draw(e, u, v); ok && !follows(split, x.ranks.of(draw)) {
			follow = 0
		}
		if data = append(data, follow); len(data) < cap(data) {
			return nil
		}
		_, err := cw.Write(data)
		data = data[:0]
		return err
	})
	return fill(cw, err, func() error { _, err := cw.Write(data); return err })
}
