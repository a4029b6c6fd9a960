package sampling

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/pinned"
)

// Cluster makes each batch from some parts of a partition, with all edges between their nodes, also those between two
// parts: Cluster-GCN. Batches have no seeds. An epoch goes over all parts, in a new order each time if the loader
// shuffles. Blocks are those of Induced; all nodes are destinations, and seed columns are delivered for all of them.
//
// The node lists have the parts of the batch one after another, each by ascending id. Cost: that of Induced over these
// nodes. Source: Chiang et al., "Cluster-GCN: an efficient algorithm for training deep and large
// graph convolutional networks", KDD 2019.
type Cluster struct {
	// Partition is of the graph's nodes; nil makes one before the first batch: see graph.StreamPartition.
	Partition *graph.Partition `id:"partition" kind:"partition" empty:"default" value:"FILE" help:"..."`
	// PerBatch is the parts of a batch.
	PerBatch int `name:"clusters" id:"per-batch" default:"1" range:"0," help:"Parts per batch."`
}

// partNodes is the most nodes that a part has on average, if Cluster makes the partition.
const partNodes = 1024

// parts returns how many parts there are.
func (k Cluster) parts(s *graph.Schema) int {
	if k.Partition == nil {
		return max(1, int((s.NumNodes()+partNodes-1)/partNodes))
	}
	return k.Partition.Parts()
}

// Prepare implements PreparedSampler: it makes a partition unless there is one.
func (k Cluster) Prepare(ctx context.Context, env Env) (Sampler, error) {
	own, err := k.prepare(ctx, env)
	if err != nil {
		return nil, err
	}
	return own, nil
}

// preparedCluster is a Cluster with a partition that Prepare may have made.
type preparedCluster struct {
	Cluster
	ledger *pinned.Ledger // counts the partition
	bytes  int64          // 0 where it is the caller's
}

// Prepare implements PreparedSampler: there is nothing left to do.
func (k *preparedCluster) Prepare(context.Context, Env) (Sampler, error) { return k, nil }

// Close gives back what the partition took.
func (k *preparedCluster) Close() error {
	k.ledger.Give(pinned.Scratch, k.bytes)
	k.bytes = 0
	return nil
}

func (k Cluster) prepare(ctx context.Context, env Env) (*preparedCluster, error) {
	s, own := env.Graph.Schema(), &preparedCluster{Cluster: k, ledger: env.Scratch.Ledger}
	if err := k.validate(s); err != nil || k.Partition != nil {
		return own, err
	}
	kept, while := partitionBytes(s.NumNodes(), k.parts(s))
	if err := own.ledger.Take(pinned.Scratch, kept+while); err != nil {
		return nil, err
	}
	defer own.ledger.Give(pinned.Scratch, while)
	own.bytes = kept
	var err error
	own.Partition, _, err = graph.StreamPartition(ctx, env.Graph,
		graph.PartitionOptions{Parts: k.parts(s), Progress: env.Progress})
	if errors.Is(err, graph.ErrEdge) {
		err = fmt.Errorf("%w: %w", ErrGraph, err)
	}
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return own, nil
}

// partitionBytes returns the memory of a partition, and what graph.StreamPartition takes besides.
func partitionBytes(nodes int64, parts int) (kept, while int64) {
	return sat.Mul(8, nodes) + 16*int64(parts), sat.Mul(2*4, nodes) + 28*int64(parts)
}

func (k Cluster) validate(s *graph.Schema) error {
	n := s.NumNodes()
	if k.Partition != nil {
		n = k.Partition.Nodes()
	}
	if n != s.NumNodes() || k.PerBatch < 0 {
		return fmt.Errorf("%w: cluster: a partition of %d nodes, the graph has %d; %d parts a batch", ErrOptions, n,
			s.NumNodes(), k.PerBatch)
	}
	return nil
}

func (k Cluster) Fingerprint() string {
	return option.Fingerprint("cluster", option.Filled(k))
}

// Describe implements Sampler: an item is a part.
func (k Cluster) Describe(s *graph.Schema, batchSize int) (Description, error) {
	d, err := describe(checked(k), s, batchSize)
	d.Items = &Items{Count: int64(k.parts(s)), PerBatch: max(k.PerBatch, 1)}
	return d, err
}

func (k Cluster) bound(s *graph.Schema, _ int) Bound {
	n, shared := int64(0), int64(0)
	if k.Partition == nil {
		n = sat.Mul(int64(max(k.PerBatch, 1)), graph.PartitionOptions{Parts: k.parts(s)}.Most(s.NumNodes()))
		kept, while := partitionBytes(s.NumNodes(), k.parts(s))
		n, shared = min(n, s.NumNodes()), sat.Add(kept, while)
	} else {
		n = largestParts(k.Partition, max(k.PerBatch, 1))
	}
	b := boundNodes(s, n)
	inducedBound(s, &b, 1)
	b.Scratch, b.Shared = sat.Add(b.Scratch, sat.Mul(12, n)), shared
	return b
}

// largestParts returns how many nodes the n largest parts have together.
func largestParts(p *graph.Partition, n int) (nodes int64) {
	sizes := make([]int, p.Parts())
	for i := range sizes {
		sizes[i] = len(p.Part(i))
	}
	slices.Sort(sizes)
	for _, size := range sizes[max(len(sizes)-n, 0):] {
		nodes += int64(size)
	}
	return nodes
}

func (k Cluster) Open(env Env) (Worker, error) {
	if k.Partition == nil {
		return openPrepared(k, env)
	}
	return open(checked(k), env, openCluster, openCluster)
}

type clusterWorker[V nodeID] struct {
	*inducer[V]
	of    Cluster
	ids   []V
	local []int32
}

func openCluster[V nodeID](k Cluster, env Env, a *assembly[V]) (Worker, error) {
	return &clusterWorker[V]{inducer: newInducer(a, env), of: k}, nil
}

func (w *clusterWorker[V]) Sample(ctx context.Context, req *Request, out *graph.Sample) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	empty := emptyRequest(w.schema, req)
	if err := w.beginLists(empty, out); err != nil {
		return err
	}
	w.ids = w.ids[:0]
	if err := w.of.each(req, func(v int64) { w.ids = append(w.ids, V(v)) }); err != nil {
		return err
	}
	w.local = slices.Grow(w.local[:0], len(w.ids))[:len(w.ids)]
	clear(w.local)
	return w.induce(w.ids, w.local, empty, out)
}

// each calls f for the nodes of the parts of a request, by fused id, in order.
func (k Cluster) each(req *Request, f func(v int64)) error {
	for _, part := range req.Items {
		if n := k.Partition.Parts(); part < 0 || part >= int64(n) {
			return fmt.Errorf("%w: part %d is not in 0 .. %d", ErrOptions, part, n-1)
		}
		for _, v := range k.Partition.Part(int(part)) {
			f(int64(v))
		}
	}
	return nil
}
