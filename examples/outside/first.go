// Package outside extends khop from another module, with what khop exports and nothing else: First is a sampler and
// Store keeps rows, each on the CPU and on a CUDA device. A device gives the same bytes as the CPU.
package outside

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// First takes the first K in-edges of each seed. It samples graphs of one node type and one edge type with ids of 32
// bits.
type First struct{ K int }

// Describe implements sampling.Sampler.
func (s First) Describe(schema *graph.Schema, batchSize int) (d sampling.Description, err error) {
	if s.K < 1 || len(schema.Nodes) != 1 || len(schema.Edges) != 1 || schema.IDType() != unified.Int32 ||
		schema.PosType() != unified.Int32 {
		return d, fmt.Errorf("%w: the first %d edges: K must be 1 or more, and the graph of one node type and one "+
			"edge type with ids of 32 bits", sampling.ErrOptions, s.K)
	}
	d.Bound = sampling.BoundFanout(schema, batchSize, s.K, 1)
	return d, nil
}

// Fingerprint implements sampling.Sampler.
func (s First) Fingerprint() string { return fmt.Sprintf("first k=%d", s.K) }

// Open implements sampling.Sampler.
func (s First) Open(env sampling.Env) (sampling.Worker, error) {
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
		for p := d.First; p < min(d.Last, d.First+w.k); p++ {
			picks = append(picks, p)
		}
		return picks
	})
}
