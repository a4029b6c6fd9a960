package sampling

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/pinned"
)

// scarce gives memory, but refuses one time; none is refused at 0.
type scarce struct {
	refuse, asked int
	given         map[*byte]*pinned.Region
}

var errScarce = errors.New("there is no memory")

func (s *scarce) Take(n int64) ([]byte, error) {
	if s.asked++; s.asked == s.refuse {
		return nil, errScarce
	}
	r, err := pinned.Allocate(n, pinned.Options{})
	if err != nil {
		return nil, err
	}
	b := r.Bytes()[:n:n]
	s.given[unsafe.SliceData(b)] = r
	return b, nil
}

func (s *scarce) Give(b []byte) error {
	r := s.given[unsafe.SliceData(b)]
	if r == nil {
		return errors.New("this was not given")
	}
	delete(s.given, unsafe.SliceData(b))
	return r.Close()
}

// The smaller table is chosen, and it takes the stated memory, however many nodes a batch has.
func TestTablesTakeWhatTheyAreSaidTo(t *testing.T) {
	for _, batch := range []int64{1, 100, 2047, 2048, 2049, 4096, 4097, 8192, 8193, 10_000} {
		for _, nodes := range []int64{10, 4096, 4097, 2 * 4096, 2*4096 + 1, 4 * 4096, 4*4096 + 1, 8 * 4096, 8*4096 + 1,
			16 * 4096, 32 * 4096, 64 * 4096, 64*4096 + 1, 1 << 20} {
			if batch <= nodes {
				tableTakes[int32](t, nodes, batch)
				tableTakes[int64](t, nodes, batch)
			}
		}
	}
}

func tableTakes[V nodeID](t *testing.T, nodes, batch int64) {
	t.Helper()
	var ledger pinned.Ledger
	memory := &scratch{options: pinned.Options{Ledger: &ledger}}
	table := newRelabeler[V](nodes, batch, memory)
	expect.OK(t, table.begin())
	lists := []list[V]{{ids: make([]V, batch+1), count: V(nodes)}}
	out := make([]int32, 1)
	for lists[0].n < int(batch) {
		expect.OK(t, table.grow(1, lists))
		table.relabel([]V{V(lists[0].n)}, out, &lists[0])
	}
	said := relabelerBytes[V](nodes, batch)
	if took := ledger.Peak(); took > (pinned.Options{}).Size(said) {
		t.Errorf("%T of %d nodes, batches of %d: %d bytes were said, %d taken", table, nodes, batch, said, took)
	}
	err := memory.Close()
	expect.That(t, err == nil && ledger.Total() == 0, "closing leaves %d bytes: %v", ledger.Total(), err)
}

func TestASampleOfAnotherShapeIsRefused(t *testing.T) {
	g := graphs.CSC(t, []int64{0, 1, 3}, []int32{1, 0, 1})
	n := Neighbor{Fanouts: []int{1}, Disjoint: true}
	w := expect.Must(n.Open(Env{Graph: g, BatchSize: 4}))(t)
	defer w.Close()
	for _, c := range []struct {
		layers, arrays int
		says           string
	}{{2, 1, "request of 1 node types, sample of 2 layers; must be 1 and 1"},
		{1, 0, "sample with 0 arrays; must be 1: shape it by Bound.Init"}} {
		var out graph.Sample
		shape := Bound{Layers: c.layers, Arrays: make([]ArrayBound, c.arrays)}
		shape.Init(&out, g.Schema(), pinned.Options{})
		err := w.Sample(context.Background(), &Request{Seeds: [][]int64{{0}}}, &out)
		expect.That(t, errors.Is(err, ErrOptions) && strings.Contains(err.Error(), c.says), "%v, want %q", err, c.says)
		out.Close()
	}
}
