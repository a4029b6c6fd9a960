package convert

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/khop-gnn/khop/formats/internal/depot"
	"github.com/khop-gnn/khop/formats/internal/runs"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/renumber"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// number finds the numbers of nodes that no read task knows. Keys get numbers in the order of their first appearance
// in the source: the read tasks have listed those of their parts in that order. Then nodes may get others by their
// degrees.
func (t *task) number(ctx context.Context) error {
	u, err := t.unite()
	if err != nil {
		return err
	}
	m := made{Maps: make([][]stored, len(u.nodes.Nodes))}
	for i := range u.nodes.Nodes {
		n := t.c.graph.Nodes[i]
		is := nodesMade{Name: n.Name, Count: n.Count}
		if u.keyed(i) {
			if err := u.numberKeys(ctx, i, &is, &m); err != nil {
				return err
			}
			t.c.graph.Nodes[i].Count = is.Count
		}
		m.Nodes = append(m.Nodes, is)
	}
	if t.c.opt.Reorder == ByDegree {
		if err := u.byDegree(ctx, &m); err != nil {
			return err
		}
	}
	return t.finish(m)
}

// keyed reports whether ids of a node type are those of a read task.
func (u *united) keyed(t int) bool {
	for i := range u.reads {
		if u.reads[i].Nodes[t].Keys != nil {
			return true
		}
	}
	return false
}

// numberKeys numbers the keys of a node type.
func (u *united) numberKeys(ctx context.Context, typ int, is *nodesMade, m *made) (err error) {
	t := u.t
	names := source.NewNames(&t.c.budget)
	defer func() { err = errors.Join(err, names.Close()) }()
	known := u.nodes.Nodes[typ].Keys
	if known != nil {
		if err := known.eachKey(u.dir, func(key []byte) error {
			_, err := names.Number(key)
			return err
		}); err != nil {
			return err
		}
	}
	for i := range u.reads {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		list := u.reads[i].Nodes[typ].Keys
		if list == nil {
			return u.wrong("a read task has not listed keys of nodes")
		}
		s, err := u.numberSome(names, list, i, typ, known != nil)
		if err != nil {
			return err
		}
		m.Maps[typ] = append(m.Maps[typ], s)
	}
	if is.Count = names.Len(); known != nil {
		return nil
	}
	list := names.Strings("id")
	is.Keys, err = t.writeKeys(fmt.Sprintf("keys-%d", typ), &list)
	return err
}

// numberSome numbers the keys of a node type that a read task has listed.
func (u *united) numberSome(names *source.Names, list *keys, read, typ int, fixed bool) (_ stored, err error) {
	out, err := u.t.create(fmt.Sprintf("map-%d-%d", typ, read))
	if err != nil {
		return stored{}, err
	}
	var buf [4]byte
	if err := list.eachKey(u.reads[read].dir, func(key []byte) (err error) {
		id := names.Find(key)
		if id < 0 && fixed {
			return source.Error(u.t.plan.Source, "", -1, "", fmt.Errorf("%.60q is not the id of a node of %q", key,
				u.nodes.Nodes[typ].Name))
		}
		if id < 0 {
			if id, err = names.Number(key); err != nil {
				return err
			}
		}
		binary.LittleEndian.PutUint32(buf[:], uint32(id))
		_, err = out.Write(buf[:])
		return err
	}); err != nil {
		return stored{}, errors.Join(err, out.file.Close())
	}
	return out.finish()
}

// byDegree numbers nodes by how many edges they have.
func (u *united) byDegree(ctx context.Context, m *made) (err error) {
	t, c := u.t, u.t.c
	num := c.newNumbering()
	defer func() { err = errors.Join(err, num.Close()) }()
	if num.n > math.MaxUint32 {
		return fmt.Errorf("%w: %d nodes cannot be numbered anew: at most %d", ErrOptions, num.n, uint32(math.MaxUint32))
	}
	if err := num.keep(8+8, num.n); err != nil {
		return err
	}
	degree := make([]int64, num.n)
	for typ := range u.nodes.Nodes {
		for r := range u.reads {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			of := degree[num.offset[typ]:][:c.graph.Nodes[typ].Count]
			if err := u.addDegrees(of, typ, r, depot.Folder(t.dir()), m); err != nil {
				return err
			}
		}
	}
	num.byType(renumber.Descending(degree))
	for typ := range num.types {
		s, err := t.store(fmt.Sprintf("order-%d", typ), unified.FromSlice(num.types[typ].order).Bytes())
		if err != nil {
			return err
		}
		m.Nodes[typ].Order = &s
	}
	return nil
}

// addDegrees adds the degrees that a read task has counted to those of a node type.
func (u *united) addDegrees(degree []int64, typ, read int, maps depot.Depot, m *made) error {
	of := u.reads[read].Nodes[typ].Degrees
	if of == nil {
		return u.wrong("a read task has not counted degrees")
	}
	var number []uint32
	if m.Maps[typ] != nil {
		var err error
		if number, err = u.t.loadIDs(maps, &m.Maps[typ][read]); err != nil {
			return err
		}
		defer u.t.giveIDs(number)
	}
	at := 0
	return of.each(u.reads[read].dir, 8, func(rows []byte) error {
		for ; len(rows) > 0; rows = rows[8:] {
			id := at
			if at++; number != nil && id < len(number) {
				id = int(number[id])
			} else if number != nil {
				return u.wrong("more degrees than keys")
			}
			if n := int64(binary.LittleEndian.Uint64(rows)); id < len(degree) {
				degree[id] += n
			} else if n > 0 {
				return u.beyond(id, typ)
			}
		}
		return nil
	})
}

// beyond is the error of an id that no node of a type has.
func (u *united) beyond(id, typ int) error {
	n := &u.t.c.graph.Nodes[typ]
	return source.Error(u.t.plan.Source, "", -1, "", fmt.Errorf("%d is not a node of %q, of which there are %d", id,
		n.Name, n.Count))
}

// loadIDs reads a file of numbers of 4 bytes, whose memory giveIDs gives back.
func (t *task) loadIDs(dir depot.Depot, s *stored) (list []uint32, err error) {
	if err := t.c.ledger.Take(pinned.Sources, s.Bytes); err != nil {
		return nil, fmt.Errorf("number %d nodes: %w", s.Bytes/4, err)
	}
	list = make([]uint32, 0, s.Bytes/4)
	err = s.each(dir, 4, func(rows []byte) error {
		for ; len(rows) > 0; rows = rows[4:] {
			list = append(list, binary.LittleEndian.Uint32(rows))
		}
		return nil
	})
	return list, err
}

func (t *task) giveIDs(list []uint32) { t.c.ledger.Give(pinned.Sources, 4*int64(len(list))) }

// numbering returns the new numbers of the nodes that the number task has found; nil where there are none.
func (u *united) numbering() (*numbering, error) {
	if u.number == nil || u.t.c.opt.Reorder != ByDegree {
		return nil, nil
	}
	_, dir, err := u.t.look(taskNumber, 0)
	if err != nil {
		return nil, err
	}
	num := u.t.c.newNumbering()
	u.t.c.graph.Own(num)
	if err := num.keep(4, num.n); err != nil {
		return nil, err
	}
	for typ := range num.types {
		of := u.number.Nodes[typ].Order
		if of == nil || of.Bytes != 4*u.t.c.graph.Nodes[typ].Count {
			return nil, u.wrong("the number task has not numbered all nodes")
		}
		order, err := u.t.loadIDs(dir, of)
		if err != nil {
			return nil, err
		}
		num.taken += of.Bytes
		number := make([]uint32, len(order))
		for i, v := range order {
			if int(v) >= len(number) {
				return nil, u.wrong("the number task has numbered other nodes")
			}
			number[v] = uint32(i)
		}
		num.types[typ] = anew{order, number}
	}
	return num, nil
}

// renumbering is new numbers of the ids of a read task.
type renumbering struct {
	u     *united
	maps  [][]uint32 // numbers of its keys, of each node type; nil: it has none
	order *numbering // nil: nodes keep theirs
}

// renumbering reads the numbers that the number task has found for a read task, whose memory is given back with the
// graph.
func (u *united) renumbering(read int) (*renumbering, error) {
	m, dir, err := u.t.look(taskNumber, 0)
	if err != nil {
		return nil, err
	}
	u.number = &m
	g := u.t.c.graph
	if len(m.Nodes) != len(g.Nodes) || len(m.Maps) != len(g.Nodes) {
		return nil, u.wrong("the number task knows other node types")
	}
	r := &renumbering{u: u, maps: make([][]uint32, len(g.Nodes))}
	for i := range g.Nodes {
		g.Nodes[i].Count = m.Nodes[i].Count
		if m.Maps[i] == nil {
			continue
		}
		if read >= len(m.Maps[i]) {
			return nil, u.wrong("the number task knows other read tasks")
		}
		if r.maps[i], err = u.t.loadIDs(dir, &m.Maps[i][read]); err != nil {
			return nil, err
		}
		g.Own(idsCloser{u.t, r.maps[i]})
	}
	r.order, err = u.numbering()
	return r, err
}

// idsCloser gives the memory of numbers back.
type idsCloser struct {
	t    *task
	list []uint32
}

// Close implements io.Closer.
func (c idsCloser) Close() error {
	c.t.giveIDs(c.list)
	return nil
}

// of returns the number of an id of a node type.
func (r *renumbering) of(typ int, id int64) (int64, error) {
	n := &r.u.t.c.graph.Nodes[typ]
	if list := r.maps[typ]; list != nil {
		if uint64(id) >= uint64(len(list)) {
			return 0, r.u.wrong(fmt.Sprintf("%s has no key %d", paths.Text(n.Name), id))
		}
		id = int64(list[id])
	}
	if uint64(id) >= uint64(n.Count) {
		return 0, r.u.beyond(int(id), typ)
	}
	if r.order != nil {
		id = r.order.of(typ, id)
	}
	return id, nil
}

// batch makes the ends of edges those numbers.
func (r *renumbering) batch(b source.Batch) error {
	types := r.u.t.c.graph.Types
	for i := range b.Src {
		typ := types[source.TypeAt(b.Types, i)]
		var e1, e2 error
		b.Src[i], e1 = r.of(typ.Source, b.Src[i])
		b.Dst[i], e2 = r.of(typ.Target, b.Dst[i])
		if e1 != nil || e2 != nil {
			return errors.Join(e1, e2)
		}
	}
	return nil
}

// place writes the edges of a read task between nodes as they are numbered in the dataset.
func (t *task) place(ctx context.Context) (err error) {
	u, err := t.unite()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.c.graph.Close()) }()
	numbers, err := u.renumbering(t.Number)
	if err != nil {
		return err
	}
	read := &u.reads[t.Number]
	in, err := u.file(read, 0, runs.AsListed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	o, err := t.c.plan()
	if err != nil {
		return err
	}
	t.c.graph.Edges.Columns = read.columns
	var m made
	m.Files, err = t.writeEdges(ctx, o.both, false, func(yield func(source.Batch) error) error {
		return in.Each(0, runs.End, func(b source.Batch) error {
			if err := numbers.batch(b); err != nil {
				return err
			}
			return yield(b)
		})
	})
	if err != nil {
		return err
	}
	return t.finish(m)
}
