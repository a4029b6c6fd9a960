package embed

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sparse"
)

// lists has a list of neighbours for each edge type and node, ascending by own id: sources of in-edges, or targets of
// out-edges. All lists are in one array. One that changes is written anew at the array's end, and the old one is left
// where it was, so that a change is undone by the places alone. Without room at the end the array moves.
type lists struct {
	nodes   []int64   // how many, of each type of nodes
	owner   []int     // [edge type] type of the nodes that have the lists
	from    [][]int64 // [edge type][node] where the list begins
	length  [][]int32
	array   []int32
	region  *pinned.Region
	used    int64 // of the array
	whole   int64 // elements of all lists
	undo    []oldList
	start   int64 // of the array, where changes began
	options pinned.Options
}

// oldList is where a list was before a change.
type oldList struct {
	edges  int
	node   int64
	from   int64
	length int32
}

// listSlack is which part of an array is room for lists that change: one in so many.
const listSlack = 4

// listBytes returns what the array of lists of this number of edges takes.
func listBytes(edges int64) int64 { return 4 * (edges + edges/listSlack + minSlack) }

// nodeBytes is what lists take for a node and an edge type.
const nodeBytes = 12

// minSlack is the least room for lists that change, in elements.
const minSlack = 64

// between returns where a node's list is in the array.
func (l *lists) between(edges int, node int64) (lo, hi int64) {
	lo = l.from[edges][node]
	return lo, lo + int64(l.length[edges][node])
}

// of returns a node's list, which is valid until the array moves.
func (l *lists) of(edges int, node int64) []int32 {
	lo, hi := l.between(edges, node)
	return l.array[lo:hi]
}

// open takes an array for the lists whose lengths are set, and says where each begins.
func (l *lists) open() error {
	l.used = 0
	for e := range l.length {
		l.from[e] = make([]int64, len(l.length[e]))
		for v, n := range l.length[e] {
			l.from[e][v] = l.used
			l.used += int64(n)
		}
	}
	l.whole = l.used
	array, region, err := l.take(l.used + l.used/listSlack + minSlack)
	l.array, l.region = array, region
	return err
}

func (l *lists) take(n int64) ([]int32, *pinned.Region, error) {
	region, err := pinned.Allocate(4*n, l.options)
	if err != nil {
		return nil, nil, err
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(region.Bytes()))), n), region, nil
}

// reserve sees that n elements have room at the end of the array.
func (l *lists) reserve(n int64) error {
	if l.used+n <= int64(len(l.array)) {
		return nil
	}
	array, region, err := l.take(l.whole + n + (l.whole+n)/listSlack + minSlack)
	if err != nil {
		return err
	}
	at := int64(0)
	for e := range l.from {
		for v := range l.from[e] {
			n := int64(copy(array[at:], l.of(e, int64(v))))
			l.from[e][v] = at
			at += n
		}
	}
	old := l.region
	l.array, l.region, l.used = array, region, at
	return old.Close()
}

// add gives nodes that are new empty lists.
func (l *lists) add(nodes []int64) {
	l.nodes = slices.Clone(nodes)
	for e, t := range l.owner {
		for int64(len(l.from[e])) < nodes[t] {
			l.from[e], l.length[e] = append(l.from[e], 0), append(l.length[e], 0)
		}
	}
}

// link is an edge of a list: who has the list, and what is in it.
type link struct{ node, other int32 }

func byNode(a, b link) int { return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.other, b.other)) }

// missingEdge is an edge that is not there.
type missingEdge link

func (m *missingEdge) Error() string { return fmt.Sprintf("%d, %d", m.other, m.node) }

// edit takes edges of a type away, and adds others behind that: both ascend by node, and then by neighbour. It returns
// the nodes whose lists differ, ascending. An edge that is not there is a missingEdge; undone takes back what was done.
func (l *lists) edit(edges int, remove, add []link) (touched []int32, err error) {
	for len(remove)+len(add) > 0 {
		node := int32(math.MaxInt32)
		for _, first := range [][]link{remove, add} {
			if len(first) > 0 {
				node = min(node, first[0].node)
			}
		}
		var less, more []link
		less, remove = ofNode(remove, node)
		more, add = ofNode(add, node)
		if err := l.change(edges, node, less, more); err != nil {
			return nil, err
		}
		touched = append(touched, node)
	}
	return touched, nil
}

// ofNode cuts off the links of a node.
func ofNode(all []link, node int32) (of, rest []link) {
	n := 0
	for n < len(all) && all[n].node == node {
		n++
	}
	return all[:n], all[n:]
}

// change writes a node's list anew.
func (l *lists) change(edges int, node int32, less, more []link) error {
	old := l.of(edges, int64(node))
	if err := l.reserved(int64(len(old) + len(more))); err != nil {
		return err
	}
	to := l.array[l.used:l.used:min(l.used+int64(len(old)+len(more)), int64(len(l.array)))]
	for _, j := range old {
		if len(less) > 0 && less[0].other <= j {
			if less[0].other < j {
				break
			}
			less = less[1:]
			continue
		}
		for len(more) > 0 && more[0].other <= j {
			to, more = append(to, more[0].other), more[1:]
		}
		to = append(to, j)
	}
	if len(less) > 0 {
		return (*missingEdge)(&less[0])
	}
	for _, one := range more {
		to = append(to, one.other)
	}
	from, length := &l.from[edges][node], &l.length[edges][node]
	l.undo = append(l.undo, oldList{edges, int64(node), *from, *length})
	l.whole += int64(len(to)) - int64(*length)
	*from, *length = l.used, int32(len(to))
	l.used += int64(len(to))
	return nil
}

// reserved reports lists that grow beyond what was reserved for a change.
func (l *lists) reserved(n int64) error {
	if l.used+n > int64(len(l.array)) {
		return fmt.Errorf("embed: %d elements of lists were not reserved", n)
	}
	return nil
}

// need returns how many elements an edit writes at most.
func (l *lists) need(edges int, all ...[]link) (n int64) {
	for _, some := range all {
		last := int32(-1)
		for _, one := range some {
			n++
			if one.node != last && int64(one.node) < int64(len(l.length[edges])) {
				n += int64(l.length[edges][one.node])
			}
			last = one.node
		}
	}
	return n
}

// begin has changes from now on be those that undone takes back.
func (l *lists) begin() { l.undo, l.start = l.undo[:0], l.used }

// undone takes all changes back since begin, the last first.
func (l *lists) undone(nodes []int64) {
	for _, was := range slices.Backward(l.undo) {
		l.whole += int64(was.length) - int64(l.length[was.edges][was.node])
		l.from[was.edges][was.node], l.length[was.edges][was.node] = was.from, was.length
	}
	l.nodes = slices.Clone(nodes)
	for e, t := range l.owner {
		l.from[e], l.length[e] = l.from[e][:nodes[t]], l.length[e][:nodes[t]]
	}
	l.undo, l.used = l.undo[:0], l.start
}

func (l *lists) close() error {
	if l.region == nil {
		return nil
	}
	err := l.region.Close()
	l.region, l.array = nil, nil
	return err
}

// listsOf returns the in-edges and the out-edges of a topology as lists.
func listsOf(t *topology, pool *sparse.Pool, options pinned.Options) (in, out *lists, err error) {
	in, out = &lists{options: options}, &lists{options: options}
	schema := t.g.Schema()
	for i := range schema.Nodes {
		in.nodes = append(in.nodes, schema.Nodes[i].Count)
	}
	out.nodes = slices.Clone(in.nodes)
	for e := range schema.Edges {
		of := &schema.Edges[e]
		in.owner, out.owner = append(in.owner, of.Dst), append(out.owner, of.Src)
		in.length = append(in.length, make([]int32, in.nodes[of.Dst]))
		out.length = append(out.length, make([]int32, in.nodes[of.Src]))
		if err := pool.Split(in.nodes[of.Dst], 4096, func(lo, hi int64) {
			for v := lo; v < hi; v++ {
				from, to := t.between(e, v)
				in.length[e][v] = int32(to - from)
			}
		}); err != nil {
			return in, out, err
		}
		offset := t.offset(e)
		for v := range in.nodes[of.Dst] {
			for lo, hi := t.between(e, v); lo < hi; lo++ {
				out.length[e][t.source(lo, offset)]++
			}
		}
	}
	in.from, out.from = make([][]int64, len(schema.Edges)), make([][]int64, len(schema.Edges))
	if err = in.open(); err == nil {
		err = out.open()
	}
	for e := range schema.Edges {
		if err == nil {
			err = fill(in, out, t, pool, e)
		}
	}
	return in, out, err
}

// fill writes the lists of edges of a type.
func fill(in, out *lists, t *topology, pool *sparse.Pool, e int) error {
	rel := &Relation{Edges: e}
	if err := pool.Split(int64(len(in.from[e])), 256, func(lo, hi int64) {
		for v := lo; v < hi; v++ {
			copyRow(in.of(e, v), t, rel, v, false)
		}
	}); err != nil {
		return err
	}
	next := slices.Clone(out.from[e])
	for v := range in.from[e] {
		for _, j := range in.of(e, int64(v)) {
			out.array[next[j]] = int32(v)
			next[j]++
		}
	}
	return nil
}
