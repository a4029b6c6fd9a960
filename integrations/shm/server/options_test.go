//go:build linux

package server

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

func TestSmallBatchesMayBeHeldInGreaterNumber(t *testing.T) {
	const n = 500
	for width, want := range map[int64]int{1: 12, 4_000: 7, 10_000: 4} { // batches of 2 KB, 8 and 20 MB, and some room
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			columns := map[string]unified.Tensor{"feature": graphs.Matrix(t, make([]float32, n*width), width)}
			g := expect.Must(graph.New(graph.Data{
				Nodes: []graph.NodeData{{Count: n, Columns: columns}},
				Edges: []graph.EdgeData{{Src: []int64{1}, Dst: []int64{0}}},
			}))(t)
			opt := usual()
			opt.BatchSize, opt.Workers, opt.Tuning.Prefetch = n, 1, 1
			s := serve(t, g, Options{Loader: opt})
			if c := connect(t, s, consumer.Options{}); s.Options().Hold != want || c.Info().Hold != want {
				t.Errorf("%d batches, the consumer is told %d, want %d", s.Options().Hold, c.Info().Hold, want)
			}
		})
	}
}

// given returns how much of an arena is given out.
func (a *arena) given() int64 {
	n := a.size(nil)
	for _, list := range a.free {
		for _, x := range list {
			n -= x.end - x.begin
		}
	}
	return n
}

func TestMaxMemoryHoldsForAllRanksTheirRingsAndCopiesOfIDs(t *testing.T) {
	const limit = 3 << 20
	g := plainGraph(t, 500)
	opt := usual()
	opt.MaxMemory, opt.Residence = limit, loader.Resident
	s := serve(t, g, Options{Loader: opt, WorldSize: 2, Hold: 100})
	total := s.placed[0].Ledger().Used(pinned.Topology) + s.placed[0].Ledger().Used(pinned.Columns)
	expect.That(t, total != 0, "no copy of the graph is counted")
	for rank := range 2 {
		c := connect(t, s, consumer.Options{Rank: consumer.RankOf(rank), IndexDType: unified.Int64})
		opt := usual()
		opt.Rank, opt.WorldSize = rank, 2
		got, want := lines(t, c.Epoch(t.Context(), 0)), want(t, g, opt, 0)
		expect.That(t, slices.Equal(got, want), "rank %d: got %q, want %q", rank, got, want)
		hold := c.Info().Hold
		expect.That(t, hold >= 1 && hold < 100, "%d batches may be held", hold)
		total += s.ranks[rank].arena.given()
	}
	if peak := s.placed[0].Ledger().Peak(); total > limit || peak > limit || peak < total {
		t.Errorf("%d bytes are taken, %d at most, where %d are allowed", total, peak, limit)
	}
	opt.MaxMemory = limit / 30
	_, err := New(t.Context(), g, Options{Path: socketPath(t), Loader: opt, WorldSize: 2})
	expect.Is(t, err, loader.ErrMemory, "within %d bytes", opt.MaxMemory)
}

func TestAServerOfOneOfSeveralMachinesHasItsRanksOnly(t *testing.T) {
	g, file := plainGraph(t, 500), filepath.Join(t.TempDir(), "state.json")
	for range 2 { // the second server goes on from the first one's file
		s := serve(t, g, Options{WorldSize: 4, Ranks: []int{1, 3}, StateFile: file})
		for _, rank := range []int{3, 1} {
			c := connect(t, s, consumer.Options{Rank: consumer.RankOf(rank)})
			opt := usual()
			opt.Rank, opt.WorldSize = rank, 4
			expect.Same(t, lines(t, c.Epoch(t.Context(), 0)), want(t, g, opt, 0), "rank %d", rank)
			c.Close()
		}
		_, err := consumer.Dial(t.Context(), s.opt.Path, consumer.Options{Rank: consumer.RankOf(0)})
		expect.That(t, err != nil && strings.Contains(err.Error(), "the server has [1 3] of 4"), "rank 0: %v", err)
		expect.That(t, len(s.Stats()) == 2, "%d rings", len(s.Stats()))
		r := s.told(loader.Report{Option: "workers", Value: "3"})
		expect.Same(t, r.Value, "6", "what two ranks of 3 workers need")
		s.Close()
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for name, opt := range map[string]Options{
		"no path":                  {},
		"negative hold":            {Path: "x", Hold: -1},
		"ranks and broadcast":      {Path: "x", WorldSize: 2, Readers: 2},
		"too many readers":         {Path: "x", Readers: 65},
		"ids that are none":        {Path: "x", IndexDType: unified.Float32},
		"a rank that is not there": {Path: "x", WorldSize: 2, Ranks: []int{0, 2}},
		"a rank below 0":           {Path: "x", WorldSize: 2, Ranks: []int{-1}},
		"a rank twice":             {Path: "x", WorldSize: 2, Ranks: []int{1, 1}},
		"more devices than own":    {Path: "x", WorldSize: 2, Ranks: []int{1}, Loader: usualOn("cuda:0,cuda:1")},
		"more devices than ranks":  {Path: "x", Loader: usualOn("cuda:0,cuda:1")},
	} {
		if opt.Loader.Sampler == nil {
			opt.Loader = usual()
		}
		expect.Is(t, expect.Err(New(t.Context(), plainGraph(t, 50), opt)), shm.ErrOptions, name)
	}
}
