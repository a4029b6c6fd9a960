package convert

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// drawn is an edge list and how it is converted, and what the plain converter makes of it.
type drawn struct {
	nodes   int64
	weights bool
	times   bool
	opt     Options
	edges   []line
	old     []int64 // of each new number
}

// line is an edge, as it is listed or stored.
type line struct {
	src, dst, weight, time int64
	back                   bool
}

func draw(r *rand.Rand) *drawn {
	d := &drawn{nodes: 1 + r.Int64N(40), weights: r.IntN(2) == 0}
	d.times = d.weights && r.IntN(2) == 0
	d.opt = Options{Direction: Direction(r.IntN(3)), Merge: Merge(r.IntN(4)), Loops: Loops(r.IntN(3)),
		Reorder: Reorder(1 + r.IntN(4)), ByTime: d.times && r.IntN(2) == 0,
		MemoryLimit: []int64{0, 8 << 20}[r.IntN(2)]}
	for range r.IntN(150) {
		d.edges = append(d.edges, line{src: r.Int64N(d.nodes), dst: r.Int64N(r.Int64N(d.nodes) + 1),
			weight: 1 + r.Int64N(9), time: r.Int64N(20)})
	}
	d.edges = append(d.edges, line{src: d.nodes - 1, dst: 0, weight: 1}) // names the last node
	return d
}

func (d *drawn) text() string {
	var b strings.Builder
	b.WriteString("src,dst")
	if d.weights {
		b.WriteString(",weight")
	}
	if d.times {
		b.WriteString(",time")
	}
	b.WriteString("\n")
	for _, e := range d.edges {
		fmt.Fprintf(&b, "%d,%d", e.src, e.dst)
		if d.weights {
			fmt.Fprintf(&b, ",%d", e.weight)
		}
		if d.times {
			fmt.Fprintf(&b, ",%d", e.time)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// neighbours lists those of each node, and counts its edges both ways: of p one way and q the other, max(p, q).
func (d *drawn) neighbours() (near [][]int64, degree []int) {
	near, degree = make([][]int64, d.nodes), make([]int, d.nodes)
	times := map[[2]int64]int{}
	for _, e := range d.edges {
		near[e.src], near[e.dst] = append(near[e.src], e.dst), append(near[e.dst], e.src)
		times[[2]int64{e.src, e.dst}]++
	}
	for v := range near {
		slices.Sort(near[v])
		near[v] = slices.Compact(near[v])
		for _, u := range near[v] {
			degree[v] += max(times[[2]int64{int64(v), u}], times[[2]int64{u, int64(v)}])
		}
	}
	return near, degree
}

// order numbers the nodes anew, with lists and no care for time.
func (d *drawn) order() []int64 {
	near, degree := d.neighbours()
	ends := make([]int64, d.nodes)
	for _, e := range d.edges {
		ends[e.src]++
		ends[e.dst]++
	}
	list := make([]int64, d.nodes)
	for v := range list {
		list[v] = int64(v)
	}
	switch d.opt.Reorder {
	case AsListed:
		return list
	case ByDegree:
		slices.SortStableFunc(list, func(a, b int64) int { return cmp.Compare(ends[b], ends[a]) })
		return list
	}
	few := func(a, b int64) int { return cmp.Compare(degree[a], degree[b]) }
	rcm := d.opt.Reorder == ReverseCuthillMcKee
	slices.SortStableFunc(list, func(a, b int64) int {
		if rcm {
			return few(a, b)
		}
		return few(b, a)
	})
	var found []int64
	for _, s := range list {
		if slices.Contains(found, s) {
			continue
		}
		found = append(found, s)
		for at := len(found) - 1; at < len(found); at++ {
			next := slices.DeleteFunc(slices.Clone(near[found[at]]),
				func(u int64) bool { return slices.Contains(found, u) })
			if rcm {
				slices.SortStableFunc(next, few)
			}
			found = append(found, next...)
		}
	}
	if rcm {
		slices.Reverse(found)
	}
	return found
}

// stored is what is written: by destination, source and place, or by destination and time.
func (d *drawn) stored() (all []line) {
	number := make([]int64, d.nodes)
	d.old = d.order()
	for v, old := range d.old {
		number[old] = int64(v)
	}
	looped := make([]bool, d.nodes)
	for _, e := range d.edges {
		e.src, e.dst = number[e.src], number[e.dst]
		if e.src == e.dst {
			looped[e.src] = true
			if d.opt.Loops == DropLoops {
				continue
			}
		}
		all = append(all, e)
		if d.opt.Direction == Symmetrise && e.src != e.dst {
			all = append(all, line{e.dst, e.src, e.weight, e.time, true})
		}
	}
	for v := range looped {
		if d.opt.Loops == AddLoops && !looped[v] {
			all = append(all, line{src: int64(v), dst: int64(v), weight: 1})
		}
	}
	pair := func(a, b line) int { return cmp.Or(cmp.Compare(a.dst, b.dst), cmp.Compare(a.src, b.src)) }
	slices.SortStableFunc(all, func(a, b line) int {
		return cmp.Or(pair(a, b), cmp.Compare(fmt.Sprint(a.back), fmt.Sprint(b.back)))
	})
	all = d.merged(all, pair)
	if d.opt.ByTime {
		slices.SortStableFunc(all, func(a, b line) int {
			return cmp.Or(cmp.Compare(a.dst, b.dst), cmp.Compare(a.time, b.time))
		})
	}
	return all
}

func (d *drawn) merged(all []line, pair func(a, b line) int) (kept []line) {
	for lo, hi := 0, 0; lo < len(all); lo = hi {
		back := 0
		for hi = lo; hi < len(all) && pair(all[lo], all[hi]) == 0; hi++ {
			if all[hi].back {
				back++
			}
		}
		n, one := hi-lo, all[lo]
		for _, e := range all[lo+1 : hi] {
			switch d.opt.Merge {
			case MergeSum:
				one.weight, one.time = one.weight+e.weight, max(one.time, e.time)
			case MergeMax:
				one.weight, one.time = max(one.weight, e.weight), max(one.time, e.time)
			}
		}
		switch {
		case d.opt.Merge != MergeNone:
			kept = append(kept, one)
		case d.opt.Direction == Symmetrise && !d.weights:
			kept = append(kept, all[lo:lo+max(back, n-back)]...)
		default:
			kept = append(kept, all[lo:hi]...)
		}
	}
	return kept
}

// TestEveryOptionDoesWhatAPlainConverterDoes compares drawn edge lists under drawn options, array by array, whole and
// in drawn tasks; and a dry run with what was then taken.
func TestEveryOptionDoesWhatAPlainConverterDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 11))
	for i := range 30 {
		d := draw(r)
		src := write(t, "edges.csv", d.text())
		want := d.stored()
		res, ds := convert(t, src, d.opt)
		g := ds.Graph()
		var indptr, indices, weight, time []byte
		at := 0
		for v := range d.nodes {
			indptr = binary.LittleEndian.AppendUint64(indptr, uint64(at))
			for ; at < len(want) && want[at].dst == v; at++ {
				indices = binary.LittleEndian.AppendUint32(indices, uint32(want[at].src))
				weight = binary.LittleEndian.AppendUint64(weight, uint64(want[at].weight))
				time = binary.LittleEndian.AppendUint64(time, uint64(want[at].time))
			}
		}
		indptr = binary.LittleEndian.AppendUint64(indptr, uint64(at))
		same := bytes.Equal(unified.FromSlice(g.Indptr()).Bytes(), indptr) && bytes.Equal(g.Indices().Bytes(), indices)
		if c, ok := g.EdgeColumn("weight"); ok != d.weights || ok && !bytes.Equal(c.Bytes(), weight) {
			same = false
		}
		if c, ok := g.EdgeColumn("time"); ok != d.times || ok && !bytes.Equal(c.Bytes(), time) {
			same = false
		}
		if c, ok := g.NodeColumn(0, oldIDs); ok != (d.opt.Reorder != AsListed) || ok && !bytes.Equal(c.Bytes(),
			unified.FromSlice(d.old).Bytes()) {
			same = false
		}
		expect.Ensure(t, same, "%d: %+v: %d edges of %d nodes:\n%s\nbecome %s\nnot %v", i, d.opt, len(d.edges),
			d.nodes, d.text(), spell32(ds.Graph().Indices()), want)
		expect.That(t, res.Nodes == d.nodes && res.Edges == int64(len(want)) &&
			res.SourceEdges == int64(len(d.edges)) && res.Bytes == arraysOf(ds), "%d: %+v: %+v", i, d.opt, res)
		dry := d.opt
		dry.DryRun = true
		if said, err := Run(t.Context(), src, filepath.Join(t.TempDir(), "x"), dry); err != nil ||
			said.Edges < res.Edges || said.Bytes < res.Bytes || d.opt.MemoryLimit > 0 &&
			(said.MemoryPeak*5/4 < res.MemoryPeak || said.MemoryPeak > d.opt.MemoryLimit) { // about
			t.Errorf("%d: a dry run says %+v, %v; then it is %+v", i, said, err, res)
		}
		if i%4 > 0 {
			continue
		}
		tasksMake(t, ds, src, 1+r.IntN(5), d.opt)
	}
}

func spell32(x unified.Tensor) string {
	v, err := unified.View[int32](x)
	return fmt.Sprint(v, err)
}
