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
	tokens []token[V] // of the row at hand
	nodes  []V        // [rows of a group, length]: fused ids of tokens, -1 behind the end
	dated  []datedPick
	seen   [][]uint8         // [node type]: whether a row has an entry of the list
	found  []sampledNodes[V] // [node type]
	blocks []sampledBlock    // [edge type]
	to     sequenceArrays
	edges  []int64 // of a row
}

// token is a node of a sequence, and what led to it.
type token[V nodeID] struct {
	node       V     // fused
	typ, local int32 // the list that has it, and where, if tokens are nodes that were reached
	hop        int32
	edgeType   int32 // -1 for a seed
	edge       int64
	age        int64
	weight     float32
}

// datedPick is a pick of a seed: where it is in the block of its edge type, and the time of the step.
type datedPick struct {
	edgeType, at int
	time         int64
}

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
	a.edgePos = false
	w := &sequenceWorker[V]{assembly: a, sequenceOf: k, tokens: make([]token[V], 0, k.length),
		nodes: make([]V, max(1, chunkPicks/k.length)*k.length), found: make([]sampledNodes[V], len(a.lists)),
		seen: make([][]uint8, len(a.lists)), blocks: make([]sampledBlock, len(a.edges)), edges: make([]int64, k.length)}
	if env.EdgePos = k.near != nil; env.EdgePos {
		if w.values, err = k.near.values(env.Graph); err != nil {
			return nil, err
		}
	}
	if w.of, err = k.of.Open(env); err != nil {
		return nil, err
	}
	if w.raw = make([][]V, len(a.edges)); k.hops == 1 {
		of := w.of
		if r, ok := of.(*reversedWorker); ok {
			of = r.Worker
		}
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
	if err := w.to.open(&w.sequenceRules, w.schema, out, int64(rows)); err != nil {
		return err
	}
	t, first, group := 0, 0, len(w.nodes)/w.length
	for at := range rows {
		for at-first == len(w.rows.Seeds[t]) {
			first += len(w.rows.Seeds[t])
			t++
		}
		w.row(t, at-first)
		w.put(at, w.nodes[at%group*w.length:][:w.length])
		if n := at%group + 1; n == group || at == rows-1 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := w.place(w.nodes[:n*w.length], w.to.local[(at+1-n)*w.length:], out); err != nil {
				return err
			}
		}
	}
	if err := w.to.view(out, int64(rows)); err != nil {
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

// row sets tokens to those of seed i of type t.
func (w *sequenceWorker[V]) row(t, i int) {
	w.tokens = w.tokens[:0]
	local := int32(i)
	if w.near == nil { // the same seed again has the same neighbours
		local = w.seedAt(t, i)
	}
	seed := token[V]{node: w.found[t].ids[local] + w.lists[t].offset, typ: int32(t), local: local, edgeType: -1, edge: -1}
	switch {
	case w.near == nil:
		w.scored(seed)
	case w.hops == 1:
		w.picked(seed)
	default:
		w.reached(seed)
	}
}

func (w *sequenceWorker[V]) seedAt(t, i int) int32 {
	local, _ := unified.View[int32](w.from.SeedLocal[t])
	return local[i]
}

// full reports whether the row has all tokens that it may have.
func (w *sequenceWorker[V]) full() bool { return len(w.tokens) == w.length }

// scored takes the neighbours of a seed by their scores.
func (w *sequenceWorker[V]) scored(seed token[V]) {
	b := &w.blocks[w.as]
	weights, _ := unified.View[float32](w.from.Arrays[0].Rows)
	lo, hi := b.indptr[seed.local], b.indptr[seed.local+1]
	if w.first {
		for i := lo; i < hi; i++ {
			if b.local[i] == seed.local {
				seed.weight = weights[i]
			}
		}
		w.tokens = append(w.tokens, seed)
	}
	for i := lo; i < hi && !w.full(); i++ {
		if local := b.local[i]; !w.first || local != seed.local {
			node := w.found[seed.typ].ids[local] + w.lists[seed.typ].offset
			w.tokens = append(w.tokens, token[V]{node: node, typ: seed.typ, weight: weights[i]})
		}
	}
}

// picked takes the picks of a seed: with times the latest first, of equal times the later ones.
func (w *sequenceWorker[V]) picked(seed token[V]) {
	if w.first {
		w.tokens = append(w.tokens, seed)
	}
	timed, ascend := w.timed(), true
	w.dated = w.dated[:0]
	for e := range w.blocks {
		if w.schema.Edges[e].Dst != int(seed.typ) {
			continue
		}
		b := &w.blocks[e]
		for i := int(b.indptr[seed.local]); i < int(b.indptr[seed.local+1]); i++ {
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
	for _, p := range w.dated[:min(len(w.dated), w.length-len(w.tokens))] {
		k := token[V]{node: w.raw[p.edgeType][p.at], typ: int32(w.schema.Edges[p.edgeType].Src), hop: 1,
			edgeType: int32(p.edgeType), edge: w.blocks[p.edgeType].position(p.at)}
		if timed {
			k.age = w.found[seed.typ].times[seed.local] - p.time
		}
		w.tokens = append(w.tokens, k)
	}
}

// reached takes the nodes of a seed's tree, hop by hop, in the order of the nodes that lead to them.
func (w *sequenceWorker[V]) reached(seed token[V]) {
	w.seen[seed.typ][seed.local] = 1
	if w.first {
		w.tokens = append(w.tokens, seed)
	}
	w.expand(seed, seed)
	for at := int(bit(w.first)); at < len(w.tokens) && !w.full(); at++ {
		w.expand(seed, w.tokens[at])
	}
}

// expand takes the nodes that the picks of a token lead to and the row does not have.
func (w *sequenceWorker[V]) expand(seed, from token[V]) {
	for e := range w.blocks {
		et, b := &w.schema.Edges[e], &w.blocks[e]
		if et.Dst != int(from.typ) || int(from.local)+1 >= len(b.indptr) {
			continue
		}
		for i := b.indptr[from.local]; i < b.indptr[from.local+1]; i++ {
			if w.full() {
				return
			}
			local := b.local[i]
			if w.seen[et.Src][local] != 0 {
				continue
			}
			w.seen[et.Src][local] = 1
			k := token[V]{node: w.found[et.Src].ids[local] + w.lists[et.Src].offset, typ: int32(et.Src), local: local,
				hop: from.hop + 1, edgeType: int32(e), edge: b.position(int(i))}
			if w.timed() {
				k.age = w.found[seed.typ].times[seed.local] - w.timeOf(e, k.edge, k.node, seed)
			}
			w.tokens = append(w.tokens, k)
		}
	}
}

// timeOf returns the time of the step over an edge, whose source is a fused id.
func (w *sequenceWorker[V]) timeOf(e int, position int64, source V, seed token[V]) int64 {
	src := w.schema.Edges[e].Src
	switch v := &w.values; {
	case v.times.valid():
		return v.times.at(position)
	case v.nodes[src].valid():
		return v.nodes[src].at(int64(source - w.lists[src].offset))
	}
	return w.found[seed.typ].times[seed.local]
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

// sequenceArrays are the arrays of a sample; those that it does not have are nil.
type sequenceArrays struct {
	length                       int
	local, types, hops, edgeType []int32
	edge                         posSink
	ages                         []int64
	weights                      []float32
}

// put writes the tokens of a row to the arrays, and their nodes to nodes.
func (w *sequenceWorker[V]) put(at int, nodes []V) {
	n, to, at := len(w.tokens), &w.to, at*w.length
	fillWith(nodes[n:], -1)
	for i := range w.tokens {
		nodes[i] = w.tokens[i].node
	}
	rows := func(all []int32, of func(k *token[V]) int32) {
		if all == nil {
			return
		}
		row := all[at : at+w.length]
		fillWith(row[n:], -1)
		for i := range w.tokens {
			row[i] = of(&w.tokens[i])
		}
	}
	rows(to.types, func(k *token[V]) int32 { return k.typ })
	rows(to.hops, func(k *token[V]) int32 { return k.hop })
	rows(to.edgeType, func(k *token[V]) int32 { return k.edgeType })
	if to.edge.wanted {
		fillWith(w.edges[n:], -1)
		for i := range w.tokens {
			w.edges[i] = w.tokens[i].edge
		}
		to.edge.put(w.edges)
	}
	if to.ages != nil {
		clear(to.ages[at+n : at+w.length])
		for i := range w.tokens {
			to.ages[at+i] = w.tokens[i].age
		}
	}
	if to.weights != nil {
		clear(to.weights[at+n : at+w.length])
		for i := range w.tokens {
			to.weights[at+i] = w.tokens[i].weight
		}
	}
}

// open makes room for rows of the arrays.
func (a *sequenceArrays) open(r *sequenceRules, s *graph.Schema, out *graph.Sample, rows int64) (err error) {
	*a = sequenceArrays{length: r.length}
	cells := rows * int64(r.length)
	for i := range out.Arrays {
		b := &out.Buffers.Arrays[i]
		switch out.Arrays[i].Name {
		case "sequence":
			a.local, err = unified.Grow[int32](b, cells, 0)
		case "sequence_type":
			a.types, err = unified.Grow[int32](b, cells, 0)
		case "sequence_hop":
			a.hops, err = unified.Grow[int32](b, cells, 0)
		case "sequence_edge":
			a.edge.wanted = true
			err = a.edge.open(b, s.PosType(), 0, cells)
		case "sequence_edge_type":
			a.edgeType, err = unified.Grow[int32](b, cells, 0)
		case "sequence_age":
			a.ages, err = unified.Grow[int64](b, cells, 0)
		default:
			a.weights, err = unified.Grow[float32](b, cells, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// view views the arrays as the sample's.
func (a *sequenceArrays) view(out *graph.Sample, rows int64) (err error) {
	for i := range out.Arrays {
		c := &out.Arrays[i]
		if c.Rows, err = out.Buffers.Arrays[i].Tensor(c.DType, rows, int64(a.length)); err != nil {
			return err
		}
	}
	return nil
}
