package sampling

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// ErrOptions is returned for sampler options that are invalid, or invalid for this graph.
var ErrOptions = errors.New("invalid sampler options")

// ErrGraph is returned if the graph's arrays contradict each other, such as a source that is not a node.
var ErrGraph = errors.New("invalid graph")

// Sampler is a sampling method with its options: a plain value that can be compared, printed and used by many loaders.
type Sampler interface {
	// Describe describes the sampler for graphs of a schema and requests of up to batchSize seeds. It returns an error
	// that wraps ErrOptions if the sampler does not work on such graphs.
	Describe(s *graph.Schema, batchSize int) (Description, error)
	// Open makes a worker. The loader opens one for each of its goroutines and closes it.
	Open(Env) (Worker, error)
	// Fingerprint names the options in a stable text, for loader states: equal texts mean equal samples.
	Fingerprint() string
}

var _ = []Sampler{Cluster{}, FastGCN{}, Full{}, HGT{}, Induced{}, Labor{}, Ladies{}, Neighbor{}, Node2Vec{}, PinSage{},
	PPR{}, Saint{}, Shadow{}, Walk{}}

// Description describes a sampler. The zero value is a sampler of seeds that reads only the topology.
type Description struct {
	// Bound is the most that a sample can take. The loader fails a batch that takes more.
	Bound Bound
	// EdgeColumns names columns of the edges that the sampler reads, such as weights or times. A loader keeps them with
	// the topology. On a device their addresses are in Topology.Columns, in the same order.
	EdgeColumns []string
	// NodeColumns names columns of the nodes that the sampler reads. Not every node type need have them.
	NodeColumns []string
	// Times says that the sampler looks at each item as of its time (Request.Times, SeedEdges.Times): nothing later is
	// in the batch. A loader refuses seeds with times for a sampler that does not.
	Times bool
	// From says that items may have first times as well (Request.From, SeedEdges.From).
	From bool
	// Excludes says that the sampler may leave edges out of a batch (Request.Exclude), wherever it runs.
	Excludes bool
	// Frontier says which nodes hops expand; nil if the layers do not follow from it. With NewNodes consumers treat the
	// layers as views of one CSC.
	Frontier *Frontier
	// Items are what batches are made of in place of seeds; nil if they are made of seeds.
	Items *Items
}

// Wrapper is a Sampler that adds something to another one. It passes on what Describe says of that, and what it opens.
type Wrapper interface {
	Sampler
	// Unwrap returns the other one.
	Unwrap() Sampler
}

// PreparedSampler is a Sampler that reads the whole graph once, before its first sample.
type PreparedSampler interface {
	Sampler
	// Prepare returns the sampler that opens workers for this graph. A loader calls it once. If the result is an
	// io.Closer, the loader closes it after all workers. env.Scratch says how to take memory.
	Prepare(ctx context.Context, env Env) (Sampler, error)
}

// Prepare returns the sampler that opens workers for a graph: for a PreparedSampler the result of its Prepare, for
// Neighbor with a Direction other than In a sampler with an index of the edges by source, and else s. If the result is
// an io.Closer, close it after all workers.
func Prepare(ctx context.Context, s Sampler, env Env) (Sampler, error) {
	switch s := s.(type) {
	case PreparedSampler:
		return s.Prepare(ctx, env)
	case Neighbor:
		if s.Direction != In {
			return s.reverse(ctx, env)
		}
	}
	return s, nil
}

// openPrepared opens a worker of what Prepare makes of a sampler, and closes that with it.
func openPrepared(s Sampler, env Env) (Worker, error) {
	p, err := Prepare(context.Background(), s, env)
	if err != nil {
		return nil, err
	}
	w, err := p.Open(env)
	if err != nil {
		return nil, errors.Join(err, p.(io.Closer).Close())
	}
	return &closing{w, p.(io.Closer)}, nil
}

// closing is a worker with a prepared sampler of its own.
type closing struct {
	Worker
	of io.Closer
}

func (c *closing) Close() error { return errors.Join(c.Worker.Close(), c.of.Close()) }

// EdgeColumns returns columns of a graph's edges, such as those that a sampler reads. ErrOptions, with all columns, for
// one that the graph does not have.
func EdgeColumns(g *graph.Graph, names []string) ([]unified.Tensor, error) {
	var columns []unified.Tensor
	for _, name := range names {
		c, ok := g.EdgeColumn(name)
		if !ok {
			have := []string{}
			for _, c := range g.Schema().EdgeColumns {
				have = append(have, c.Name)
			}
			return nil, fmt.Errorf("%w: the sampler reads column %q of the edges, which has columns %q", ErrOptions,
				name, have)
		}
		columns = append(columns, c)
	}
	return columns, nil
}

// Bound is the greatest size of a sample.
type Bound struct {
	Layers int   // number of layers of Sample.Blocks, whatever the seeds
	Nodes  int64 // nodes of all lists together
	// Lists are the nodes of each list, by node type. nil means that no node is in a list twice, so that a list has no
	// more nodes than its type.
	Lists []int64
	Edges int64 // edges of all blocks that have their own memory
	// Blocks are the edges of each block that has its own memory, by layer and edge type. nil means that only their
	// sum, Edges, is known.
	Blocks [][]int64
	// Arrays are the arrays that the sampler adds, in the order of Sample.Arrays.
	Arrays []ArrayBound
	// Scratch is the memory of a worker besides the sample, in bytes.
	Scratch int64
	// Shared is the memory that a PreparedSampler takes once for all workers, in bytes.
	Shared int64
}

// ArrayBound describes an array that a sampler adds (graph.Array), and the most rows that it can have in a sample.
type ArrayBound struct {
	graph.Column
	Rows int64
}

// Init shapes a sample for a schema and the sampler's workers. mem says how they take memory, as the sample grows.
func (b *Bound) Init(out *graph.Sample, s *graph.Schema, mem pinned.Options) {
	nt, et := len(s.Nodes), len(s.Edges)
	out.Nodes, out.SeedLocal = make([]unified.Tensor, nt), make([]unified.Tensor, nt)
	out.SeedEdges, out.Arrays = nil, nil
	to := &out.Buffers
	to.Nodes, to.Seeds, to.Arrays = newBuffers(nt, mem), newBuffers(nt, mem), newBuffers(len(b.Arrays), mem)
	for i := range b.Arrays {
		out.Arrays = append(out.Arrays, graph.Array{Column: b.Arrays[i].Column})
	}
	out.NumNodes = make([][]int64, b.Layers+1)
	for h := range out.NumNodes {
		out.NumNodes[h] = make([]int64, nt)
	}
	out.Blocks, out.ViewOf = make([][]graph.Block, b.Layers), make([]int, b.Layers)
	for _, of := range []*[][]unified.Buffer{&to.Indptr, &to.Indices, &to.EdgePos} {
		*of = make([][]unified.Buffer, b.Layers)
		for l := range *of {
			(*of)[l] = newBuffers(et, mem)
		}
	}
	for l := range b.Layers {
		out.Blocks[l], out.ViewOf[l] = make([]graph.Block, et), l
	}
}

func newBuffers(n int, mem pinned.Options) []unified.Buffer {
	b := make([]unified.Buffer, n)
	for i := range b {
		b[i].Options = mem
	}
	return b
}

// BoundFanout is the Bound of a sampler that picks, for each node, up to k different in-edges of every type (All for
// every in-edge), over a number of hops, and expands all nodes reached.
func BoundFanout(s *graph.Schema, batchSize, k, hops int) Bound {
	n, err := Neighbor{Fanouts: slices.Repeat([]int{k}, max(hops, 0)), Frontier: AllNodes}.check(s)
	if err != nil {
		return Bound{}
	}
	return n.bound(s, batchSize)
}

// Env has what a worker needs.
type Env struct {
	Graph     *graph.Graph
	BatchSize int            // the most seeds that a request will have; each end of an edge counts
	EdgePos   bool           // whether samples have Block.EdgePos
	Scratch   pinned.Options // how to take memory other than the sample's
	// Pages brings the graph's arrays from disk for one worker; nil if they are in memory. A worker need not use it.
	Pages Pages
	// Progress receives how far Prepare is, in units of its own; nil for none. One goroutine calls it.
	Progress func(done, total int64)
}

// report calls progress, unless it is nil.
func report(progress func(done, total int64), done, total int64) {
	if progress != nil {
		progress(done, total)
	}
}

// Worker samples. One goroutine at a time may use it.
type Worker interface {
	// Sample fills out, which was shaped by Bound.Init for the graph's schema. On an error out is undefined. It runs
	// under pinned.Guard: a fault in a mapped file is the loader's to report.
	Sample(ctx context.Context, req *Request, out *graph.Sample) error
	// Close frees the worker's memory.
	Close() error
}

// grow makes room for n elements in a list's memory, and keeps the first of them.
func grow[T unified.Element](list *[]T, mem *unified.Buffer, n, keep int64) (err error) {
	*list, err = unified.Grow[T](mem, n, keep)
	return err
}

// need is grow where a list has fewer than n elements.
func need[T unified.Element](list *[]T, mem *unified.Buffer, n, keep int) error {
	if n <= len(*list) {
		return nil
	}
	return grow(list, mem, int64(n), int64(keep))
}

// exactly returns n elements of a buffer that holds none yet and takes memory for no more.
func exactly[T unified.Element](b *unified.Buffer, n int64) ([]T, error) {
	if err := b.Claim(unified.Of[T]().Size() * max(n, 1)); err != nil {
		return nil, err
	}
	some, err := unified.Grow[T](b, n, 0)
	if err != nil {
		return nil, err
	}
	return some[:n], nil
}

// openByWidth opens what k describes, most often a worker, for the width of the graph's ids. Both functions are one
// generic function, for either width.
func openByWidth[K, W any](k K, env Env, narrow func(K, Env, []int32) (W, error),
	wide func(K, Env, []int64) (W, error)) (W, error) {
	if ids, err := unified.View[int32](env.Graph.Indices()); err == nil {
		return narrow(k, env, ids)
	}
	ids, err := unified.View[int64](env.Graph.Indices())
	if err != nil {
		var none W
		return none, err
	}
	return wide(k, env, ids)
}

// sized is the form of a sampler's options that was checked against a schema.
type sized interface {
	bound(s *graph.Schema, batchSize int) Bound
}

// checked returns the function that checks options whose form is their own.
func checked[K interface {
	sized
	validate(*graph.Schema) error
}](k K) func(*graph.Schema) (K, error) {
	return func(s *graph.Schema) (K, error) { return k, k.validate(s) }
}

// describe describes a sampler that reads the topology alone, by a function that checks the options.
func describe[K sized](check func(*graph.Schema) (K, error), s *graph.Schema, batchSize int) (d Description,
	err error) {
	k, err := check(s)
	if err == nil {
		d.Bound = k.bound(s, batchSize)
	}
	return d, err
}

// open opens a worker by functions that check the options, and make the worker over an assembly of either width.
func open[K sized](check func(*graph.Schema) (K, error), env Env, narrow func(K, Env, *assembly[int32]) (Worker, error),
	wide func(K, Env, *assembly[int64]) (Worker, error)) (Worker, error) {
	k, err := check(env.Graph.Schema())
	if err != nil {
		return nil, err
	}
	return openByWidth(k, env,
		func(k K, env Env, ids []int32) (Worker, error) { return openOver(k, env, ids, narrow) },
		func(k K, env Env, ids []int64) (Worker, error) { return openOver(k, env, ids, wide) })
}

// openOver is open for ids of a width.
func openOver[K sized, V nodeID](k K, env Env, ids []V, of func(K, Env, *assembly[V]) (Worker, error)) (Worker,
	error) {
	a, err := newAssembly(env, ids, AllNodes, k.bound(env.Graph.Schema(), env.BatchSize))
	if err != nil {
		return nil, err
	}
	w, err := of(k, env, a)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return w, nil
}

// Items are what batches are made of in place of seeds, numbered from 0: parts of a partition, ranges of nodes, or only
// steps. Request.Items has those of a batch. A loader goes over them as over seeds.
type Items struct {
	Count    int64 // items of an epoch
	PerBatch int   // items of a batch, in place of the loader's BatchSize
	InOrder  bool  // they have an order: shuffling them is an error
}

// emptyRequest is a request without seeds, with the draws of another.
func emptyRequest(s *graph.Schema, of *Request) *Request {
	return &Request{Seeds: make([][]int64, len(s.Nodes)), Rand: of.Rand}
}

// scratch is memory besides samples, of a worker or a prepared sampler: buffers that are freed together.
type scratch struct {
	options pinned.Options
	buffers []*unified.Buffer
}

// own makes buffers, which hold nothing yet, part of the scratch.
func (s *scratch) own(buffers ...*unified.Buffer) {
	for _, b := range buffers {
		b.Options = s.options
	}
	s.buffers = append(s.buffers, buffers...)
}

// Close frees the buffers. Nothing may use them any more.
func (s *scratch) Close() error {
	var errs []error
	for _, b := range s.buffers {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
