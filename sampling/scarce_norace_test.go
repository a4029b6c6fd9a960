//go:build !race

package sampling

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// giver gives memory to any goroutine, refuses one piece (none at 0), and may give what was something else before.
type giver struct {
	scarce
	mu   sync.Mutex
	used bool
}

func newGiver(refuse int) *giver {
	return &giver{scarce: scarce{refuse: refuse, given: map[*byte]*pinned.Region{}}}
}

func (g *giver) Take(n int64) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b, err := g.scarce.Take(n)
	if g.used {
		for i := range b {
			b[i] = 0xA5
		}
	}
	return b, err
}

func (g *giver) Give(b []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.scarce.Give(b)
}

// wholly writes all that a sample is.
func wholly(out *graph.Sample) string {
	var text strings.Builder
	fmt.Fprintln(&text, out.NumNodes, out.ViewOf)
	for i := range out.Nodes {
		fmt.Fprintf(&text, "%x %x\n", out.Nodes[i].Bytes(), out.SeedLocal[i].Bytes())
	}
	for _, layer := range out.Blocks {
		for e := range layer {
			b := &layer[e]
			fmt.Fprintf(&text, "%d %d %x %x %x\n", b.NumSrc, b.NumDst, b.Indptr.Bytes(), b.Indices.Bytes(),
				b.EdgePos.Bytes())
		}
	}
	for i := range out.Arrays {
		fmt.Fprintf(&text, "%s %x\n", out.Arrays[i].Name, out.Arrays[i].Rows.Bytes())
	}
	return text.String()
}

// samplesIn makes two batches with scratch and samples in given memory, and closes all. Where a piece is refused, it
// samples the batch again. It returns the samples, and the first error.
func samplesIn(t *testing.T, g *graph.Graph, s Sampler, scratch, memory pinned.Provider) (made []string, first error) {
	t.Helper()
	var open []io.Closer
	defer func() {
		for i := len(open) - 1; i >= 0; i-- {
			expect.OK(t, open[i].Close())
		}
	}()
	env := Env{Graph: g, BatchSize: 40, EdgePos: true, Scratch: pinned.Options{From: scratch}}
	s, err := Prepare(t.Context(), s, env)
	if err != nil {
		return nil, err
	}
	if c, ok := s.(io.Closer); ok {
		open = append(open, c)
	}
	w, err := s.Open(env)
	if errors.Is(err, ErrOptions) { // its edges are not the graph's
		env.EdgePos = false
		w, err = s.Open(env)
	}
	if err != nil {
		return nil, err
	}
	open = append(open, w)
	out := &graph.Sample{}
	bound := boundOf(s, g.Schema(), env.BatchSize)
	bound.Init(out, g.Schema(), pinned.Options{From: memory})
	open = append(open, out)
	for batch, seeds := range []int{5, 40} {
		req, items := &Request{Seeds: [][]int64{make([]int64, seeds)}}, Items{}
		if d, _ := s.Describe(g.Schema(), 10); d.Items != nil {
			items = *d.Items
			req.Seeds[0], req.Items = nil, make([]int64, 1)
		} else if looksAtTimes(s) {
			req.Times = [][]int64{make([]int64, seeds)}
			for i := range seeds {
				req.Times[0][i] = 30
			}
		}
		steadyRequest(req, items, batch)
		for {
			err := w.Sample(context.Background(), req, out)
			if err == nil {
				break
			}
			if first != nil || !errors.Is(err, errScarce) {
				return nil, errors.Join(first, err)
			}
			first = err
		}
		made = append(made, wholly(out))
	}
	return made, first
}

// Whichever piece of memory is refused to whatever sampler, it says so, goes on as if nothing had been, and leaves
// nothing behind. Samples do not depend on what was in the memory before.
func TestEverySamplerStandsRefusedAndDirtyMemory(t *testing.T) {
	g := steadyGraph(t)
	for name, s := range allSamplers() {
		if name != "ppr" { // the coarse one takes the same memory, in a tenth of the time
			t.Run(name, func(t *testing.T) { standsScarceMemory(t, g, s) })
		}
	}
}

func standsScarceMemory(t *testing.T, g *graph.Graph, s Sampler) {
	t.Helper()
	want := expect.Must(samplesIn(t, g, s, nil, nil))(t)
	used := newGiver(0)
	used.used = true
	got, err := samplesIn(t, g, s, nil, used)
	if d := differsAt(want, got); err != nil || d >= 0 || len(used.given) > 0 {
		t.Fatalf("in used memory batch %d is another: %v; %d pieces are left", d, err, len(used.given))
	}
	for refuse, refused := 1, true; refused; refuse++ {
		p := newGiver(refuse)
		got, err := samplesIn(t, g, s, p, p)
		if refused = p.asked >= refuse; refused != errors.Is(err, errScarce) {
			t.Fatalf("piece %d of memory was refused: %v, and it says %v", refuse, refused, err)
		}
		d := differsAt(want, got)
		expect.Ensure(t, got == nil || d < 0, "batch %d is another one after piece %d of memory was refused", d, refuse)
		expect.Ensure(t, len(p.given) <= 0, "%d pieces of memory are left after piece %d was refused", len(p.given),
			refuse)
	}
}

func differsAt(want, got []string) int {
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			return i
		}
	}
	return -1
}

// steadyRequest makes req batch number n of a sampler: the same seeds or items each time it comes.
func steadyRequest(req *Request, items Items, n int) {
	req.Rand = NewRand(1, 0, 0, uint64(n))
	if items.Count > 0 {
		req.Items[0] = int64(n) % items.Count
		return
	}
	for i := range req.Seeds[0] {
		req.Seeds[0][i] = int64(n*7+i*11) % 300
	}
}

// looksAtTimes reports whether seeds of a sampler need times.
func looksAtTimes(s Sampler) bool {
	if k, ok := s.(Sequence); ok {
		s = k.Of
	}
	n, _ := s.(Neighbor)
	return n.Time.Edge != ""
}

func TestNoSamplerAllocatesOnceItsBatchesWereMade(t *testing.T) {
	g := steadyGraph(t)
	for name, s := range allSamplers() {
		t.Run(name, func(t *testing.T) {
			env := Env{Graph: g, BatchSize: 10, EdgePos: true}
			s := expect.Must(Prepare(t.Context(), s, env))(t)
			w, err := s.Open(env)
			if errors.Is(err, ErrOptions) { // its edges are not the graph's
				env.EdgePos = false
				w, err = s.Open(env)
			}
			expect.OK(t, err)
			out := sampleOf(g, s, 10)
			req, items, n := &Request{Seeds: [][]int64{make([]int64, 10)}}, Items{}, 0
			if d, _ := s.Describe(g.Schema(), 10); d.Items != nil {
				items = *d.Items
				req.Seeds[0], req.Items = nil, make([]int64, 1)
			} else if looksAtTimes(s) {
				req.Times = [][]int64{{30, 30, 30, 30, 30, 30, 30, 30, 30, 30}}
			}
			const batches = 12
			run := func() {
				steadyRequest(req, items, n%batches)
				n++
				expect.OK(t, w.Sample(context.Background(), req, out))
			}
			for range 2 * batches {
				run()
			}
			allocs := testing.AllocsPerRun(3*batches, run)
			expect.That(t, allocs == 0, "%v allocations a batch", allocs)
			closeAll(t, w, out, s)
		})
	}
}
