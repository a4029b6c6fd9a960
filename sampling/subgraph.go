package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// Induced takes the subgraph that the seeds induce: all edges between them. The node lists are the distinct seeds. The
// one layer has all nodes as sources and as destinations; each takes its in-edges in the order of the CSC.
//
// Cost: the in-edges of the seeds; for a hub a search for each node, if that is less; on a device all in-edges of hubs,
// too.
type Induced struct{}

// Shadow gives each seed a subgraph of its own: the nodes that neighbour sampling reaches from it, and all edges
// between them. A model of any depth then works on that subgraph. Nodes are sampled by Neighbor with these fan-outs,
// new nodes only, trees apart; blocks are those of Induced within each tree. SeedLocal has the root of each seed, and
// the arrays "tree/T" say which tree each node is in.
//
// Cost: that of Neighbor, then that of Induced. Source: Zeng et al., "Decoupling the depth and scope
// of graph neural networks", NeurIPS 2021. docs/sampling.md states the result in full.
type Shadow struct {
	Fanouts []int            `same:"fanouts" id:"fanouts"` // picks of each hop, as in Neighbor
	PerType map[string][]int // as in Neighbor
	Replace bool             `same:"replace" id:"replace"` // as in Neighbor
}

func (Induced) Fingerprint() string { return "induced" }

func (Induced) validate(*graph.Schema) error { return nil }

func (k Induced) Describe(s *graph.Schema, batchSize int) (Description, error) {
	return describe(checked(k), s, batchSize)
}

func (Induced) bound(s *graph.Schema, batchSize int) Bound {
	b := boundNodes(s, int64(batchSize))
	inducedBound(s, &b, 1)
	return b
}

func (k Induced) Open(env Env) (Worker, error) {
	return open(checked(k), env, openInduced, openInduced)
}

// subgraphWorker takes the subgraph that the seeds induce.
type subgraphWorker[V nodeID] struct{ *inducer[V] }

func openInduced[V nodeID](_ Induced, env Env, a *assembly[V]) (Worker, error) {
	return &subgraphWorker[V]{newInducer(a, env)}, nil
}

func (w *subgraphWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := w.beginLists(req, out); err != nil {
		return err
	}
	if err := w.blocks(out); err != nil {
		return err
	}
	return w.finish(req, out)
}

// neighbor is the sampler of the nodes.
func (k Shadow) neighbor() Neighbor {
	return Neighbor{Fanouts: k.Fanouts, PerType: k.PerType, Replace: k.Replace, Frontier: NewNodes, Disjoint: true,
		Induced: true}
}

func (k Shadow) Fingerprint() string {
	return option.Fingerprint("shadow", k)
}

func (k Shadow) Describe(s *graph.Schema, batchSize int) (Description, error) {
	return describe(k.neighbor().check, s, batchSize)
}

func (k Shadow) Open(env Env) (Worker, error) { return k.neighbor().Open(env) }

// checkInduced refuses what does not say which edges there are between the nodes.
func (n Neighbor) checkInduced() error {
	if n.Induced && (n.Time.on() || n.Direction != In) {
		return fmt.Errorf("%w: all edges between the nodes, with times or in direction %v: leave one out", ErrOptions,
			n.Direction)
	}
	return nil
}

// nodes returns what samples the nodes of an induced subgraph.
func (n neighborRules) nodes() neighborRules {
	n.Induced = false
	return n
}

func (n Neighbor) checkNodes(s *graph.Schema) (neighborRules, error) {
	r, err := n.check(s)
	return r.nodes(), err
}

// boundInduced is Bound with Induced.
func (n neighborRules) boundInduced(s *graph.Schema, batchSize int) Bound {
	b, trees := n.nodes().bound(s, batchSize), int64(1)
	if n.Disjoint {
		trees = int64(max(batchSize, 0))
	}
	b.Scratch = sat.Add(b.Scratch, sat.Add(sat.Mul(8, b.Edges), sat.Mul(16, b.Nodes))) // the sample of the nodes
	b.Layers, b.Edges = 1, 0
	inducedBound(s, &b, trees)
	return b
}

// shadowWorker samples nodes into a sample of its own, and induces the subgraphs in the one that it is given.
type shadowWorker[V nodeID] struct {
	*inducer[V]
	nodes *worker[V]
	reach graph.Sample
}

func openInducing[V nodeID](k neighborRules, env Env, a *assembly[V]) (Worker, error) {
	n, err := openNeighbor(k, env, a)
	w := &shadowWorker[V]{nodes: n.(*worker[V]), inducer: newInducer(a, env)}
	b := k.bound(env.Graph.Schema(), env.BatchSize)
	b.Init(&w.reach, env.Graph.Schema(), env.Scratch)
	return w, err
}

func (w *shadowWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if err := cmp.Or(req.check(w.schema, 1, out), w.checkArrays(out)); err != nil {
		return err
	}
	if err := w.leaveOut(req, nil); err != nil {
		return err
	}
	edgePos := w.edgePos
	w.edgePos = false
	err := w.nodes.Sample(ctx, req, &w.reach)
	if w.edgePos = edgePos; err != nil {
		return err
	}
	if err := w.copyNodes(out); err != nil {
		return err
	}
	if err := w.blocks(out); err != nil {
		return err
	}
	return w.finish(req, out)
}

// copyNodes takes over the lists, trees and seeds, and makes them those of out.
func (w *shadowWorker[V]) copyNodes(out *graph.Sample) error {
	for t := range w.lists {
		l := &w.lists[t]
		ids, err := unified.Grow[V](&out.Buffers.Nodes[t], int64(l.n), 0)
		if err != nil {
			return err
		}
		copy(ids, l.ids[:l.n])
		l.ids = ids
		if w.forest != nil {
			trees, err := unified.Grow[int32](&out.Buffers.Arrays[t], int64(l.n), 0)
			if err != nil {
				return err
			}
			copy(trees, l.trees[:l.n])
			l.trees = trees
		}
		seeds, err := unified.View[int32](w.reach.SeedLocal[t])
		if err != nil {
			return err
		}
		local, err := unified.Grow[int32](&out.Buffers.Seeds[t], int64(len(seeds)), 0)
		if err != nil {
			return err
		}
		copy(local, seeds)
		if out.SeedLocal[t], err = out.Buffers.Seeds[t].Tensor(unified.Int32, int64(len(seeds))); err != nil {
			return err
		}
		out.NumNodes[0][t] = w.reach.NumNodes[0][t]
	}
	return nil
}

func (w *shadowWorker[V]) Close() error {
	return errors.Join(w.inducer.Close(), w.reach.Close())
}
