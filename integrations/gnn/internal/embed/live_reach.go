package embed

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/khop-gnn/khop/sparse"
)

// undo is a change under way: what it changed of tables and degrees, and the way back.
type undo struct {
	nodes    []int64            // of each type, before
	inLists  [][]int32          // [edge type] targets whose in-edges differ
	outLists [][]int32          // [edge type] sources whose out-edges differ
	changed  map[*Table][]int32 // nodes whose rows differ
	counted  map[string][]int32 // sources whose degrees differ, by name of the degrees
	saved    []saved
	shown    []saved // rows of the last table, which readers do not see yet
	degrees  []oldDegree
	rows     map[*Table]int64 // before, of tables that have grown
	room     arena
}

// saved are rows of nodes of a table, which are not in it.
type saved struct {
	t     *Table
	nodes []int32
	rows  []byte
}

// put writes the rows to the table.
func (s *saved) put(pool *sparse.Pool) error {
	row := s.t.rowBytes()
	return pool.Split(int64(len(s.nodes)), 1024, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			v := int64(s.nodes[i])
			copy(s.t.rows(v, v+1), s.rows[i*row:(i+1)*row])
		}
	})
}

// oldDegree is a degree before a change.
type oldDegree struct {
	of   *degrees
	node int32
	was  uint32
}

// end forgets the way back, but keeps its memory for the next change.
func (u *undo) end() {
	u.room.next, u.room.used = 0, 0
	*u = undo{room: u.room}
}

// arena is memory for rows of a change, in pieces.
type arena struct {
	pieces [][]byte
	frees  []func() error
	next   int // the piece in hand is the one before
	used   int // of its bytes
}

// pieceBytes is what an arena takes at least.
const pieceBytes = 16 << 20

// take returns n bytes, which hold anything.
func (a *arena) take(n int64, take takeMemory) ([]byte, error) {
	for a.next == 0 || int64(a.used)+n > int64(len(a.pieces[a.next-1])) {
		if a.next == len(a.pieces) {
			piece, free, err := take(max(n, pieceBytes))
			if err != nil {
				return nil, err
			}
			a.pieces, a.frees = append(a.pieces, piece), append(a.frees, free)
		}
		a.next, a.used = a.next+1, 0
	}
	a.used += int(n)
	return a.pieces[a.next-1][a.used-int(n) : a.used], nil
}

func (a *arena) close() (err error) {
	for _, free := range a.frees {
		err = errors.Join(err, free())
	}
	*a = arena{}
	return err
}

// marks are nodes of a type: which, and in the order in which they came.
type marks struct {
	set  set
	list []int32
}

func (m *marks) add(v int32) {
	if word, bit := &m.set[v/64], uint64(1)<<(v%64); *word&bit == 0 {
		*word |= bit
		m.list = append(m.list, v)
	}
}

func (m *marks) addAll(all []int32) {
	for _, v := range all {
		m.add(v)
	}
}

// take returns the nodes, ascending, and has none then. It takes as long as they are many.
func (m *marks) take() []int32 {
	list := m.list
	m.list = nil
	if len(list)*bits.Len(uint(len(list))) < len(m.set) {
		slices.Sort(list)
		for _, v := range list {
			m.set[v/64] = 0
		}
		return list
	}
	list = appendMembers(list[:0], m.set)
	clear(m.set)
	return list
}

// begin changes edges, features and degrees.
func (l *Live) begin(change *Change) error {
	r, schema := l.run, l.run.p.Graph.Schema()
	u := &undo{nodes: slices.Clone(l.in.nodes), changed: map[*Table][]int32{}, counted: map[string][]int32{},
		rows: map[*Table]int64{}, room: l.undo.room, inLists: make([][]int32, len(schema.Edges)),
		outLists: make([][]int32, len(schema.Edges))}
	l.undo = *u
	l.in.begin()
	l.out.begin()
	c, err := change.check(schema, l.in.nodes, l.inputs)
	if err != nil {
		return err
	}
	if err := l.reserve(c); err != nil {
		return err
	}
	if err := l.link(c); err != nil {
		return err
	}
	for t := range l.marks {
		for _, m := range []*marks{&l.marks[t], &l.from[t]} {
			if more := int(c.nodes[t]+63)/64 - len(m.set); more > 0 {
				m.set = append(m.set, make(set, more)...)
			}
		}
	}
	if err := l.grow(c.nodes); err != nil {
		return err
	}
	for i := range c.Rows {
		l.feature(&c.Rows[i])
	}
	l.count()
	return r.ctxErr()
}

// link changes the lists of edges.
func (l *Live) link(c *checked) (err error) {
	l.in.add(c.nodes)
	l.out.add(c.nodes)
	for e := range c.edits {
		of := &c.edits[e]
		l.undo.inLists[e], err = l.in.edit(e, of.inLess, of.inMore)
		if gone := (*missingEdge)(nil); errors.As(err, &gone) {
			return fmt.Errorf("%w: remove %v: there is no edge from %d to %d, or not as many; name edges that are "+
				"there", ErrChange, &l.run.p.Graph.Schema().Edges[e], gone.other, gone.node)
		}
		if err != nil {
			return err
		}
		if l.undo.outLists[e], err = l.out.edit(e, of.outLess, of.outMore); err != nil {
			return err
		}
	}
	return nil
}

// reserve sees that lists have room for edits.
func (l *Live) reserve(c *checked) error {
	in, out := int64(0), int64(0)
	for e := range c.edits {
		of := &c.edits[e]
		in += l.in.need(e, of.inLess, of.inMore)
		out += l.out.need(e, of.outLess, of.outMore)
	}
	if err := errors.Join(l.in.reserve(in), l.out.reserve(out)); err != nil {
		return err
	}
	l.in.begin()
	l.out.begin()
	l.run.topology.narrow = l.in.array
	return nil
}

// grow gives all tables rows for nodes that are new.
func (l *Live) grow(nodes []int64) error {
	one := func(t *Table, of int) error {
		if t == nil || t.free == nil || t.Rows == nodes[of] {
			return nil
		}
		l.undo.rows[t] = t.Rows
		if t == l.last {
			l.mu.Lock()
			defer l.mu.Unlock()
		}
		return t.grow(nodes[of], l.take)
	}
	var err error
	for of := range l.inputs {
		err = errors.Join(err, one(l.inputs[of].Table, of))
	}
	for _, s := range l.run.p.Steps {
		for _, t := range s.To {
			err = errors.Join(err, one(t, s.Type))
		}
	}
	return err
}

// feature writes rows of features.
func (l *Live) feature(c *ChangedRows) {
	in := &l.inputs[c.Type]
	t, width := in.Table, in.Width
	if t == nil {
		return
	}
	one, x := saved{t: t}, make([]float32, width)
	row := t.rowBytes()
	raw := make([]byte, row)
	for i, id := range c.IDs {
		copy(x, c.Rows[i*width:(i+1)*width])
		if in.Normalise {
			Normalise(x, width)
		}
		t.DType.PutFloats(raw, x)
		if at := t.rows(id, id+1); string(at) != string(raw) {
			one.nodes, one.rows = append(one.nodes, int32(id)), append(one.rows, at...)
			copy(at, raw)
		}
	}
	l.undo.saved = append(l.undo.saved, one)
	l.undo.changed[t] = append(l.undo.changed[t], one.nodes...)
}

// count counts degrees again.
func (l *Live) count() {
	schema := l.run.p.Graph.Schema()
	for name, rel := range l.normed {
		d := l.run.degrees[name]
		if d == nil {
			continue // not counted yet
		}
		of, t, touched := schema.Edges[rel.Edges].Src, l.run.topology, l.undo.inLists[rel.Edges]
		if rel.Reduce == Norm {
			t, touched = &topology{g: t.g, lists: l.out, narrow: l.out.array}, l.undo.outLists[rel.Edges]
		}
		for int64(len(d.of)) < l.in.nodes[of] {
			touched = append(touched, int32(len(d.of)))
			d.of = append(d.of, 0)
		}
		for _, v := range touched {
			if n := uint32(t.length(rel, int64(v), rel.Loops)); n != d.of[v] {
				l.undo.degrees = append(l.undo.degrees, oldDegree{d, v, d.of[v]})
				d.of[v] = n
				l.undo.counted[name] = append(l.undo.counted[name], v)
			}
		}
	}
}

// reached returns the nodes of a step whose rows a change may have changed.
func (l *Live) reached(s *Step) nodes {
	m, count := &l.marks[s.Type], l.in.nodes[s.Type]
	for v := l.undo.nodes[s.Type]; v < count; v++ {
		m.add(int32(v))
	}
	for _, t := range s.ownTables() {
		m.addAll(l.undo.changed[t])
	}
	for i := range s.Sums {
		rel := &s.Sums[i]
		m.addAll(l.undo.inLists[rel.Edges])
		sources := l.sources(rel)
		if rel.Loops {
			m.addAll(sources)
		}
		for _, j := range sources {
			if int64(len(m.list)) == count {
				break
			}
			m.addAll(l.out.of(rel.Edges, int64(j)))
		}
	}
	if list := m.take(); int64(len(list)) < count {
		return nodes{count: int64(len(list)), list: list}
	}
	return nodes{count: count}
}

// sources returns the sources whose rows or degrees, which a relation reads, have changed.
func (l *Live) sources(rel *Relation) []int32 {
	var some [][]int32
	add := func(list []int32) {
		if len(list) > 0 {
			some = append(some, list)
		}
	}
	for _, t := range rel.tables() {
		add(l.undo.changed[t])
	}
	if rel.Reduce.normed() {
		add(l.undo.counted[l.run.degreesName(rel)])
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	m := &l.from[l.run.p.Graph.Schema().Edges[rel.Edges].Src]
	for _, list := range some {
		m.addAll(list)
	}
	return m.take()
}

// back undoes a change.
func (l *Live) back() (err error) {
	for i := range slices.Backward(l.undo.saved) {
		err = errors.Join(err, l.undo.saved[i].put(l.run.pool))
	}
	for _, was := range slices.Backward(l.undo.degrees) {
		was.of.of[was.node] = was.was
	}
	for name, rel := range l.normed {
		if d := l.run.degrees[name]; d != nil {
			d.of = d.of[:l.undo.nodes[l.run.p.Graph.Schema().Edges[rel.Edges].Src]]
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, rows := range l.undo.rows {
		t.resize(rows)
	}
	l.in.undone(l.undo.nodes)
	l.out.undone(l.undo.nodes)
	l.undo.end()
	return err
}
