// Command customsampler loads batches with a sampler of its own: it picks k consecutive in-edges from a random place,
// which touches one or two cache lines a node, where uniform picks touch k.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// Window is the sampler: K consecutive in-edges a node, for Hops hops.
type Window struct{ K, Hops int }

func (s Window) Describe(schema *graph.Schema, batchSize int) (d sampling.Description, err error) {
	if s.K < 1 || s.Hops < 1 {
		return d, fmt.Errorf("%w: window of %d edges, %d hops", sampling.ErrOptions, s.K, s.Hops)
	}
	d.Bound = sampling.BoundFanout(schema, batchSize, s.K, s.Hops)
	return d, nil
}

func (s Window) Fingerprint() string { return fmt.Sprintf("window k=%d hops=%d", s.K, s.Hops) }

func (s Window) Open(env sampling.Env) (sampling.Worker, error) {
	d, err := s.Describe(env.Graph.Schema(), env.BatchSize)
	if err != nil {
		return nil, err
	}
	a, err := sampling.NewAssembler(env, sampling.AllNodes, d.Bound)
	return worker{a, int64(s.K)}, err
}

type worker struct {
	*sampling.Assembler
	k int64
}

func (w worker) Sample(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	return w.Assembler.Sample(ctx, req, out, func(d *sampling.Destination, picks []int64) []int64 {
		first, n := d.First, d.Last-d.First
		if n > w.k {
			first, n = first+int64(d.Draws.IntN(0, uint64(n-w.k+1))), w.k
		}
		for i := range n {
			picks = append(picks, first+i)
		}
		return picks
	})
}

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(path string) error {
	ds, err := formats.Open(path)
	if err != nil {
		return err
	}
	defer ds.Close()
	ld, err := loader.New(ds, loader.Options{Sampler: Window{K: 10, Hops: 2}, BatchSize: 256, Shuffle: true})
	if err != nil {
		return err
	}
	defer ld.Close()
	for batch, err := range ld.Epoch(context.Background(), 0) {
		if err != nil {
			return err
		}
		fmt.Println(batch.Number, batch.Sample.NumNodes[2][0], batch.Sample.NumEdges())
	}
	return nil
}
