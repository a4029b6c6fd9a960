package sampling

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// sequenceWorker makes the sequences of a batch: it samples each seed in a tree of its own, and then writes the rows.
type sequenceWorker[V nodeID] struct {
	*assembly[V]
	sequenceOf
	values edgeValues // times
	of     Worker
	raw    [][]V        // [edge type]: sources of its picks, where tokens are picks; else of no use
	from   graph.Sample // what it samples
	rows   rowRequest
	found  []sampledNodes[V] // [node type]
	blocks []sampledBlock    // [edge type]
	seen   [][]uint8         // [node type]: whether a row has an entry of the list
	ascend bool              // picks lie in the order of their times
	dated  []datedPick       // of the row at hand
	queue  []reached         // likewise: its tokens
	nodes  []V               // [rows of a group, length]: fused ids of tokens, -1 behind the end
	row    tokenRow[V]
}

// datedPick is a pick of a seed: where it is in the block of its edge type, and the time of the step.
type datedPick struct {
	edgeType, at int
	time         int64
}

// reached is a node of a seed's tree: in which list it is, and where.
type reached struct{ typ, local, hop int32 }

// sampledNodes are the nodes of a type that were sampled, and their times.
type sampledNodes[V nodeID] struct {
	ids   []V
	times []int64
}

// sampledBlock is what was sampled of an edge type: the picks of each destination, and their positions in the graph.
type sampledBlock struct {
	indptr, local []int32
	pos32         []int32
	pos64         []int64
}

func (b *sampledBlock) position(i int) int64 {
	if b.pos32 != nil {
		return int64(b.pos32[i])
	}
	return b.pos64[i]
}

func newSequences[V nodeID](k sequenceOf, env Env, a *assembly[V]) (_ Worker, err error) {
	w := &sequenceWorker[V]{assembly: a, sequenceOf: k, nodes: make([]V, max(1, chunkPicks/k.length)*k.length),
		found: make([]sampledNodes[V], len(a.lists)), seen: make([][]uint8, len(a.lists)),
		blocks: make([]sampledBlock, len(a.edges))}
	if env.EdgePos = k.near != nil; env.EdgePos {
		if w.values, err = k.near.values(env.Graph); err != nil {
			return nil, err
		}
		w.ascend = k.timed() && !k.edges && !k.near.Replace && k.near.Direction == In &&
			k.near.Time.ordered(&w.schema.Edges[0])
	}
	if w.of, err = k.of.Open(env); err != nil {
		return nil, err
	}
	if k.hops == 1 {
		of := w.of
		if r, ok := of.(*reversedWorker); ok {
			of = r.Worker
		}
		w.raw = make([][]V, len(a.edges))
		of.(*worker[V]).raw = w.raw
	}
	k.inner.Init(&w.from, w.schema, env.Scratch)
	return w, nil
}

func (w *sequenceWorker[V]) Close() error {
	return errors.Join(w.of.Close(), w.from.Close(), w.assembly.Close())
}

func (w *sequenceWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	asked := *req
	asked.Exclude = nil // the other sampler leaves them out
	err := w.beginLists(&asked, out)
	if err == nil {
		err = w.rows.of(w.schema, req, w.near, w.values.nodes)
	}
	if err == nil {
		err = w.of.Sample(ctx, &w.rows.Request, &w.from)
	}
	if err == nil {
		err = w.view()
	}
	if err != nil {
		return err
	}
	rows := int(w.rows.numItems())
	if err := w.row.open(w.length, w.schema, out, int64(rows)); err != nil {
		return err
	}
	t, first, group := 0, 0, len(w.nodes)/w.length
	for at := range rows {
		for at-first == len(w.rows.Seeds[t]) {
			first += len(w.rows.Seeds[t])
			t++
		}
		w.row.begin(at, w.nodes[at%group*w.length:][:w.length])
		w.write(t, at-first)
		w.row.end()
		if n := at%group + 1; n == group || at == rows-1 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := w.place(w.nodes[:n*w.length], w.row.local[(at+1-n)*w.length:], out); err != nil {
				return err
			}
		}
	}
	if err := w.row.view(out, int64(rows)); err != nil {
		return err
	}
	return w.finishLists(req, out)
}

// view views what was sampled.
func (w *sequenceWorker[V]) view() (err error) {
	for t := range w.found {
		f := &w.found[t]
		if f.ids, err = unified.View[V](w.from.Nodes[t]); err != nil {
			return err
		}
		w.seen[t] = slices.Grow(w.seen[t][:0], len(f.ids))[:len(f.ids)]
		clear(w.seen[t])
		if w.timed() {
			if f.times, err = unified.View[int64](w.from.Arrays[len(w.found)+t].Rows); err != nil {
				return err
			}
		}
	}
	for e := range w.blocks {
		from, b := &w.from.Blocks[0][e], &w.blocks[e]
		if b.indptr, err = unified.View[int32](from.Indptr); err != nil {
			return err
		}
		if b.local, err = unified.View[int32](from.Indices); err != nil {
			return err
		}
		if b.pos32, b.pos64 = nil, nil; w.near == nil || from.EdgePos.Len() == 0 {
			continue
		}
		if b.pos32, err = unified.View[int32](from.EdgePos); err != nil {
			if b.pos64, err = unified.View[int64](from.EdgePos); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the row of seed i of type t.
func (w *sequenceWorker[V]) write(t, i int) {
	seed := reached{typ: int32(t), local: int32(i)}
	if w.near == nil { // the same seed again has the same neighbours
		local, _ := unified.View[int32](w.from.SeedLocal[t])
		seed.local = local[i]
		w.scored(seed)
		return
	}
	if w.first {
		w.row.put(w.node(seed), w.lists[t].offset, seed, -1, -1)
	}
	if w.hops == 1 {
		w.picked(seed)
	} else {
		w.reached(seed)
	}
}

// node returns the fused id of a node.
func (w *sequenceWorker[V]) node(k reached) V {
	return w.found[k.typ].ids[k.local] + w.lists[k.typ].offset
}

// scored takes the neighbours of a seed by their scores.
func (w *sequenceWorker[V]) scored(seed reached) {
	b := &w.blocks[w.as]
	weights, _ := unified.View[float32](w.from.Arrays[0].Rows)
	lo, hi := int(b.indptr[seed.local]), int(b.indptr[seed.local+1])
	own := lo + slices.Index(b.local[lo:hi], seed.local)
	if w.first {
		weight := float32(0)
		if own >= lo {
			weight = weights[own]
		}
		w.row.putScore(w.node(seed), w.lists[seed.typ].offset, seed, weight)
	}
	for i := lo; i < hi && !w.row.full(); i++ {
		if !w.first || i != own {
			k := reached{typ: seed.typ, local: b.local[i]}
			w.row.putScore(w.node(k), w.lists[k.typ].offset, k, weights[i])
		}
	}
}

// picked takes the picks of a seed: with times the latest first, of equal times the later ones.
func (w *sequenceWorker[V]) picked(seed reached) {
	timed, ascend := w.timed(), true
	w.dated = w.dated[:0]
	for e := range w.blocks {
		if w.schema.Edges[e].Dst != int(seed.typ) {
			continue
		}
		b := &w.blocks[e]
		lo, hi := int(b.indptr[seed.local]), int(b.indptr[seed.local+1])
		if w.ascend {
			for i := hi - 1; i >= lo && !w.row.full(); i-- {
				w.putPick(seed, e, i, w.values.times.at(b.position(i)))
			}
			return
		}
		for i := lo; i < hi; i++ {
			p := datedPick{edgeType: e, at: i}
			if timed {
				p.time = w.timeOf(e, b.position(i), w.raw[e][i], seed)
				ascend = ascend && (len(w.dated) == 0 || w.dated[len(w.dated)-1].time <= p.time)
			}
			w.dated = append(w.dated, p)
		}
	}
	if timed {
		if !ascend {
			slices.SortStableFunc(w.dated, func(a, b datedPick) int { return cmp.Compare(a.time, b.time) })
		}
		slices.Reverse(w.dated)
	}
	for _, p := range w.dated {
		if w.row.full() {
			return
		}
		w.putPick(seed, p.edgeType, p.at, p.time)
	}
}

// putPick makes a token of pick i of an edge type.
func (w *sequenceWorker[V]) putPick(seed reached, e, i int, time int64) {
	src := w.schema.Edges[e].Src
	w.row.put(w.raw[e][i], w.lists[src].offset, reached{typ: int32(src), hop: 1}, e, w.blocks[e].position(i))
	if w.timed() {
		w.row.age(w.found[seed.typ].times[seed.local] - time)
	}
}

// reached takes the nodes of a seed's tree, hop by hop, in the order of the nodes that lead to them.
func (w *sequenceWorker[V]) reached(seed reached) {
	w.seen[seed.typ][seed.local] = 1
	w.queue = append(w.queue[:0], seed)
	for at := 0; at < len(w.queue) && !w.row.full(); at++ {
		w.expand(seed, w.queue[at])
	}
}

// expand takes the nodes that the picks of a token lead to and the row does not have.
func (w *sequenceWorker[V]) expand(seed, from reached) {
	for e := range w.blocks {
		et, b := &w.schema.Edges[e], &w.blocks[e]
		if et.Dst != int(from.typ) || int(from.local)+1 >= len(b.indptr) {
			continue
		}
		seen := w.seen[et.Src]
		for i := b.indptr[from.local]; i < b.indptr[from.local+1]; i++ {
			k := reached{typ: int32(et.Src), local: b.local[i], hop: from.hop + 1}
			if seen[k.local] != 0 {
				continue
			}
			if w.row.full() {
				return
			}
			seen[k.local] = 1
			w.queue = append(w.queue, k)
			node, position := w.node(k), b.position(int(i))
			if w.row.put(node, w.lists[k.typ].offset, k, e, position); w.timed() {
				w.row.age(w.found[seed.typ].times[seed.local] - w.timeOf(e, position, node, from))
			}
		}
	}
}

// timeOf returns the time of the step from a node over an edge, whose source is a fused id.
func (w *sequenceWorker[V]) timeOf(e int, position int64, source V, from reached) int64 {
	src := w.schema.Edges[e].Src
	return w.values.step(position, int64(source-w.lists[src].offset), src, w.found[from.typ].times[from.local])
}

// tokenRow is the row at hand, in the arrays of a sample; those that it does not have are nil.
type tokenRow[V nodeID] struct {
	length                       int
	local, types, hops, edgeType []int32 // of all rows
	ids                          []V
	edge32                       []int32
	edge64                       []int64
	ages                         []int64
	weights                      []float32

	at, stop int // in these: where the next token goes, and the end of the row
	nodes    []V // of the row; the first of those that are left
}

// open makes room for rows.
func (r *tokenRow[V]) open(length int, s *graph.Schema, out *graph.Sample, rows int64) (err error) {
	*r = tokenRow[V]{length: length}
	for i := range out.Arrays {
		b := &out.Buffers.Arrays[i]
		cells := rows * int64(length)
		switch name := out.Arrays[i].Name; {
		case name == "sequence_edge" && s.PosType() == unified.Int64:
			r.edge64, err = unified.Grow[int64](b, cells, 0)
		case name == "sequence_id":
			r.ids, err = unified.Grow[V](b, cells, 0)
		case name == "sequence_age":
			r.ages, err = unified.Grow[int64](b, cells, 0)
		case name == "sequence_weight":
			r.weights, err = unified.Grow[float32](b, cells, 0)
		default:
			*r.numbers(name), err = unified.Grow[int32](b, cells, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// numbers returns where an array of int32 is.
func (r *tokenRow[V]) numbers(name string) *[]int32 {
	switch name {
	case "sequence_type":
		return &r.types
	case "sequence_hop":
		return &r.hops
	case "sequence_edge_type":
		return &r.edgeType
	case "sequence_edge":
		return &r.edge32
	}
	return &r.local
}

// begin goes to a row, whose nodes go to a slice.
func (r *tokenRow[V]) begin(row int, nodes []V) {
	r.at, r.stop, r.nodes = row*r.length, (row+1)*r.length, nodes
}

// full reports whether the row has all tokens that it may have.
func (r *tokenRow[V]) full() bool { return r.at == r.stop }

// put writes a token: a node by its fused id, of a type whose ids begin at offset, and the edge that led to it, of type
// -1 for none.
func (r *tokenRow[V]) put(node, offset V, k reached, edgeType int, edge int64) {
	at := r.at
	r.nodes[0], r.ids[at], r.nodes, r.at = node, node-offset, r.nodes[1:], at+1
	if r.types != nil {
		r.types[at] = k.typ
	}
	if r.hops != nil {
		r.hops[at] = k.hop
	}
	if r.edgeType != nil {
		r.edgeType[at] = int32(edgeType)
	}
	if r.edge32 != nil {
		r.edge32[at] = int32(edge)
	} else if r.edge64 != nil {
		r.edge64[at] = edge
	}
	if r.ages != nil {
		r.ages[at] = 0
	}
}

// age sets the age of the last token.
func (r *tokenRow[V]) age(age int64) { r.ages[r.at-1] = age }

// putScore writes a token with its score.
func (r *tokenRow[V]) putScore(node, offset V, k reached, weight float32) {
	r.weights[r.at] = weight
	r.put(node, offset, k, -1, -1)
}

// end fills the rest of the row.
func (r *tokenRow[V]) end() {
	fillWith(r.nodes, -1)
	fillWith(r.ids[r.at:r.stop], -1)
	for _, some := range [][]int32{r.types, r.hops, r.edgeType, r.edge32} {
		if some != nil {
			fillWith(some[r.at:r.stop], -1)
		}
	}
	if r.edge64 != nil {
		fillWith(r.edge64[r.at:r.stop], -1)
	}
	if r.ages != nil {
		clear(r.ages[r.at:r.stop])
	}
	if r.weights != nil {
		clear(r.weights[r.at:r.stop])
	}
}

// view views the arrays as the sample's.
func (r *tokenRow[V]) view(out *graph.Sample, rows int64) (err error) {
	for i := range out.Arrays {
		c := &out.Arrays[i]
		if c.Rows, err = out.Buffers.Arrays[i].Tensor(c.DType, rows, int64(r.length)); err != nil {
			return err
		}
	}
	return nil
}

// rowRequest is a request whose items are the seeds of another one: each is a node with the times of its item.
type rowRequest struct {
	Request
	times, from                []int64   // of items
	seeds, seedTimes, seedFrom [][]int64 // [node type]
}

// of makes the request. near is the Neighbor that samples, if it is one, and nodes are the times of nodes.
func (q *rowRequest) of(s *graph.Schema, req *Request, near *Neighbor, nodes []timeColumn) error {
	if q.seeds == nil {
		q.seeds, q.seedTimes, q.seedFrom = make([][]int64, len(s.Nodes)), make([][]int64, len(s.Nodes)),
			make([][]int64, len(s.Nodes))
	}
	n := int(req.numItems())
	q.Request = Request{Seeds: q.seeds, Exclude: req.Exclude, Rand: req.Rand}
	if near != nil && near.Time.on() {
		q.Times, q.times = q.seedTimes, slices.Grow(q.times[:0], n)[:n]
		if err := req.itemTimes(s, nodes, near.Time.AsOf, q.times); err != nil {
			return err
		}
		if bounded, _ := req.bounded(true); bounded {
			q.From, q.from = q.seedFrom, slices.Grow(q.from[:0], n)[:n]
			req.itemFrom(q.from)
		}
	}
	for t := range s.Nodes {
		q.seeds[t], q.seedTimes[t], q.seedFrom[t] = q.seeds[t][:0], q.seedTimes[t][:0], q.seedFrom[t][:0]
		_ = req.seeds(s, t, func(ids []int64, item int) error {
			q.seeds[t] = append(q.seeds[t], ids...)
			if q.Times != nil {
				q.seedTimes[t] = append(q.seedTimes[t], q.times[item:item+len(ids)]...)
			}
			if q.From != nil {
				q.seedFrom[t] = append(q.seedFrom[t], q.from[item:item+len(ids)]...)
			}
			return nil
		})
	}
	return nil
}
