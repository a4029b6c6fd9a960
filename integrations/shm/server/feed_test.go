//go:build linux

package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func TestConsumersGetTheBatchesThatTheLoaderMakes(t *testing.T) {
	plain, typed := plainGraph(t, 500), typedGraph(t)
	views, bare := layerViews(), positionsOnly()
	apart := usual()
	apart.Sampler = sampling.Neighbor{Fanouts: []int{4, 3}, Disjoint: true}
	resident := usual()
	resident.Residence = loader.Resident
	for at, c := range []struct {
		name  string
		src   loader.Source
		opt   loader.Options
		world int
	}{
		{"plain", plain, usual(), 1},
		{"typed", typed, usual(), 1},
		{"layers that are views, and edge columns", plain, views, 1},
		{"no columns, edge positions", typed, bare, 1},
		{"arrays of the sampler's own", plain, apart, 1},
		{"three ranks", plain, usual(), 3},
		{"two ranks, resident", plain, resident, 2},
		{"hundreds of edge types", knowledge(t), usual(), 1},
	} {
		for i, index := range []unified.DType{unified.Invalid, unified.Int32, unified.Int64} {
			if invariants.Enabled && i != at%3 {
				continue // with -race: one width each
			}
			t.Run(c.name+" "+index.String(), func(t *testing.T) {
				s := serve(t, c.src, Options{Loader: c.opt, WorldSize: c.world})
				seen := map[uint64]bool{}
				for rank := range c.world {
					con := connect(t, s, consumer.Options{IndexDType: index})
					if i := con.Info(); i.Rank != rank || i.WorldSize != c.world ||
						i.IndexDType != max(index, unified.Int32) {
						t.Errorf("connected to %+v", i)
					}
					opt := c.opt
					opt.Rank, opt.WorldSize = rank, c.world
					for epoch := range uint64(2) {
						if got, want := lines(t, con.Epoch(t.Context(), epoch)),
							want(t, c.src, opt, epoch); !slices.Equal(got, want) {
							t.Errorf("rank %d, epoch %d: got\n%q\nwant\n%q", rank, epoch, got, want)
						}
					}
					for b, err := range con.Epoch(t.Context(), 0) {
						expect.OK(t, err)
						if seen[b.Number] && !b.Padded {
							t.Errorf("batch %d came to two ranks", b.Number)
						}
						seen[b.Number] = true
					}
				}
			})
		}
	}
}

func TestABatchTellsItsSeeds(t *testing.T) {
	g := plainGraph(t, 100)
	opt := usual()
	ids := []int64{5, 7, 5, 99, 0, 7}
	opt.Seeds, opt.BatchSize, opt.Shuffle = loader.NodeIDs(ids), 4, false
	s := serve(t, g, Options{Loader: opt})
	c := connect(t, s, consumer.Options{IndexDType: unified.Int64})
	var gotIDs, gotItems []int64
	for b, err := range c.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		in, items := view(t, b.Array("input/node")), view(t, b.Array("item/node"))
		nodes, places := view(t, b.Array("nodes/node")), view(t, b.Array("seeds/node"))
		for i := range in {
			if nodes[places[i]] != in[i] {
				t.Errorf("seed %d is node %d, its place in the node list has %d", i, in[i], nodes[places[i]])
			}
		}
		gotIDs, gotItems = append(gotIDs, in...), append(gotItems, items...)
	}
	expect.That(t, slices.Equal(gotIDs, ids) && slices.Equal(gotItems, []int64{0, 1, 2, 3, 4, 5}), "seeds %v, items %v",
		gotIDs, gotItems)
}

func view(t testing.TB, x unified.Tensor) []int64 {
	t.Helper()
	return expect.Must(unified.View[int64](x))(t)
}

// knowledge is a graph of 300 relations.
func knowledge(t testing.TB) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(4, 4))
	d := graph.Data{Nodes: []graph.NodeData{{Name: "entity", Count: 200}}}
	for i := range 300 {
		e := graph.EdgeData{Source: "entity", Relation: fmt.Sprintf("relation_number_%d", i), Target: "entity"}
		for range 20 {
			e.Src, e.Dst = append(e.Src, r.Int64N(200)), append(e.Dst, r.Int64N(200))
		}
		d.Edges = append(d.Edges, e)
	}
	return expect.Must(graph.New(d))(t)
}

func TestReleasingFromAnotherGoroutineLetsTheRunGoOn(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{Hold: 1})
	c := connect(t, s, consumer.Options{})
	n := 0
	for b, err := range c.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		n++
		b.Keep()
		time.AfterFunc(time.Millisecond, b.Release) // likely while the loop waits for the next
	}
	expect.That(t, n == 16, "%d batches", n)
}

func TestABatchMayBeReleasedWhileItsRunIsLeft(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{})
	c := connect(t, s, consumer.Options{})
	for range 100 {
		released := make(chan struct{})
		var kept *consumer.Batch
		for b, err := range c.Epoch(t.Context(), 0) {
			expect.OK(t, err)
			if kept != nil {
				go func() { kept.Release(); close(released) }()
				break
			}
			kept = b.Keep()
		}
		<-released
	}
	n := len(lines(t, c.Epoch(t.Context(), 1)))
	expect.That(t, n == 16, "%d batches afterwards", n)
}

// The server uses the slots of a consumer that has gone for the next one.
func TestBatchesOfAClosedConsumerStayAsTheyWere(t *testing.T) {
	for _, readers := range []int{0, 1} {
		s := serve(t, plainGraph(t, 500), Options{Readers: readers})
		c := connect(t, s, consumer.Options{})
		var kept []*consumer.Batch
		var were []string
		for b, err := range c.Epoch(t.Context(), 0) {
			expect.OK(t, err)
			if kept = append(kept, b.Keep()); len(kept) == 2 {
				break
			}
		}
		for _, b := range kept {
			were = append(were, lineOf(b))
		}
		expect.OK(t, c.Close())
		next := connect(t, s, consumer.Options{})
		for epoch := range uint64(3) {
			lines(t, next.Epoch(t.Context(), epoch))
		}
		for i, b := range kept {
			if got := lineOf(b); got != were[i] {
				t.Errorf("readers %d: batch %d was %q, and is %q", readers, i, were[i], got)
			}
			b.Release()
		}
	}
}
