package prepared

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// circle is a graph of n nodes, each with the in-edges of the next 8.
func circle(t *testing.T, n int64) *graph.Graph {
	t.Helper()
	var e graph.EdgeData
	for i := range 8 * n {
		e.Src, e.Dst = append(e.Src, (i/8+i%8+1)%n), append(e.Dst, i/8)
	}
	return expect.Must(graph.New(graph.Data{Nodes: []graph.NodeData{{Count: n}}, Edges: []graph.EdgeData{e}}))(t)
}

// bounded is a sampler of which a test knows the bound.
type bounded struct {
	sampling.Sampler
	bound sampling.Bound
}

func (bounded) Fingerprint() string { return "bounded" }
func (b bounded) Describe(*graph.Schema, int) (sampling.Description, error) {
	return sampling.Description{Bound: b.bound}, nil
}

// What is prepared has room for the most sources and edges that a block can have, after the sampler's own arrays.
func TestTheBoundOfWhatIsPrepared(t *testing.T) {
	s := &graph.Schema{Nodes: []graph.NodeType{{Name: "a", Count: 100}, {Name: "b", Count: 100}},
		Edges: []graph.EdgeType{{Source: "a", Relation: "to", Target: "a"}, {Source: "b", Relation: "of", Target: "a",
			Src: 1}}}
	a, b := s.Edges[0].String(), s.Edges[1].String()
	own := sampling.ArrayBound{Column: graph.Column{Name: "own", DType: unified.Int8}, Rows: 3}
	for name, c := range map[string]struct {
		what    Preparation
		bound   sampling.Bound
		scratch int64
		want    []string
	}{
		"no layers":    {7, sampling.Bound{Layers: 0, Nodes: 9, Edges: 20}, 36, nil},
		"fewer layers": {2, sampling.Bound{Layers: -1, Nodes: 9, Edges: 20}, 36, nil},
		"transposes": {Transpose, sampling.Bound{Layers: 1, Nodes: 9, Edges: 20, Scratch: 5,
			Arrays: []sampling.ArrayBound{own}}, 5, []string{"own int8 3",
			"transpose/0/" + a + "/indptr int32 10", "transpose/0/" + a + "/indices int32 20",
			"transpose/0/" + a + "/edges int32 20", "transpose/0/" + b + "/indptr int32 10",
			"transpose/0/" + b + "/indices int32 20", "transpose/0/" + b + "/edges int32 20"}},
		"norms by block": {GCNNorm, sampling.Bound{Layers: 2, Nodes: 9, Edges: 20, Scratch: 5,
			Blocks: [][]int64{{7, 1}, {2, 8}}}, 5 + 36, []string{
			"gcn_norm/0/" + a + " float32 7", "gcn_norm/0/" + b + " float32 8",
			"gcn_norm/1/" + a + " float32 7", "gcn_norm/1/" + b + " float32 8"}},
		"loops by list": {Loops | GCNNorm, sampling.Bound{Layers: 1, Nodes: 9, Edges: 20,
			Lists: []int64{6, 4}}, 36, []string{
			"loops/0/" + a + "/indptr int32 7", "loops/0/" + a + "/indices int32 26", "gcn_norm/0/" + a + " float32 26",
			"loops/0/" + b + "/indptr int32 5", "loops/0/" + b + "/indices int32 24",
			"gcn_norm/0/" + b + " float32 24"}},
	} {
		room := append(make([]sampling.ArrayBound, 0, 20), c.bound.Arrays...)
		c.bound.Arrays = room
		of := bounded{bound: c.bound}
		p := preparing{of, c.what}
		said := expect.Must(p.Describe(s, 5))(t)
		got := said.Bound
		var list []string
		for _, x := range got.Arrays {
			list = append(list, fmt.Sprintf("%s %v %d", x.Name, x.DType, x.Rows))
		}
		d := expect.Diff(c.want, list)
		expect.That(t, d == "" && got.Scratch == c.scratch && got.Nodes == 9 && room[:20][len(room)].Rows == 0,
			"%s: scratch of %d, %s, and in the sampler's own bound is %v", name, got.Scratch, d, room[:20])
		expect.That(t, p.Fingerprint() == fmt.Sprintf("bounded prepare=%d", c.what) && p.Unwrap() != nil, "%s: %s",
			name, p.Fingerprint())
	}
}

// However little memory there is for it, preparing says so and keeps the sample's shape, or makes what it should.
func TestPreparingWithLittleMemorySaysSo(t *testing.T) {
	g := circle(t, 600)
	all := Transpose | GCNNorm | Loops
	p := preparing{sampling.Neighbor{Fanouts: []int{3, 2}}, all}
	of := expect.Must(p.Describe(g.Schema(), 100))(t)
	bound := of.Bound
	var want [][]byte
	refused := 0
	for limit := int64(0); ; limit += 4096 {
		var ledger pinned.Ledger
		ledger.SetLimit(max(limit-4096, 0)) // 0, for none, comes first and second
		memory := pinned.Options{Ledger: &ledger, Purpose: pinned.Batches}
		var out graph.Sample
		bound.Init(&out, g.Schema(), memory)
		w, err := p.Open(sampling.Env{Graph: g, BatchSize: 100, Scratch: memory})
		if err == nil {
			seeds := make([]int64, 100)
			for i := range seeds {
				seeds[i] = int64(5 * i)
			}
			err = w.Sample(context.Background(), &sampling.Request{Seeds: [][]int64{seeds},
				Rand: sampling.NewRand(1, 2, 3, 4)}, &out)
			var got [][]byte
			for _, a := range out.Arrays {
				got = append(got, slices.Clone(a.Rows.Bytes()))
			}
			if limit == 0 {
				want = got
			} else if err == nil && expect.Diff(want, got) != "" || len(out.Arrays) != len(bound.Arrays) {
				t.Fatalf("%d bytes: %d arrays, others than without a limit", limit, len(out.Arrays))
			}
			err = errors.Join(err, w.Close())
		}
		if err := out.Close(); err != nil || ledger.Total() != 0 {
			t.Fatalf("%d bytes are held: %v", ledger.Total(), err)
		}
		switch {
		case err == nil && limit > 4096:
			expect.That(t, refused >= 20, "%d limits were too little", refused)
			return
		case limit > 4096 && !errors.Is(err, pinned.ErrLimit) || limit <= 4096 && err != nil:
			t.Fatalf("%d bytes: %v", limit, err)
		}
		refused++
	}
}

// A block whose rows fill whole pages has room for the end of the last.
func TestPreparedRowsThatFillAPageHaveTheirEnd(t *testing.T) {
	g := circle(t, 4000)
	p := preparing{sampling.Neighbor{Fanouts: []int{1}}, Loops | Transpose}
	of := expect.Must(p.Describe(g.Schema(), 1024))(t)
	var out graph.Sample
	of.Bound.Init(&out, g.Schema(), pinned.Options{})
	w := expect.Must(p.Open(sampling.Env{Graph: g, BatchSize: 1024}))(t)
	seeds := make([]int64, 1024)
	for i := range seeds {
		seeds[i] = int64(i)
	}
	err := w.Sample(context.Background(), &sampling.Request{Seeds: [][]int64{seeds},
		Rand: sampling.NewRand(1, 2, 3, 4)}, &out)
	expect.That(t, err == nil && out.Arrays[0].Rows.Len() == 1025 && out.Blocks[0][0].NumDst == 1024,
		"%v: %v of %d rows", err, out.Arrays[0].Rows, out.Blocks[0][0].NumDst)
	expect.OK(t, errors.Join(w.Close(), out.Close()))
}
