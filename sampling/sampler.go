package sampling

import (
	"context"
	"errors"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
)

// ErrOptions is returned for sampler options that make no sense, or none for the graph at hand.
var ErrOptions = errors.New("invalid sampler options")

// ErrGraph is returned where the graph's own arrays contradict each other, such as a source that is no node.
var ErrGraph = errors.New("invalid graph")

// Sampler is a way to sample, as options: a plain value that can be compared, printed and used by many loaders. What it
// makes is a pure function of graph, options, seeds and Rand.
type Sampler interface {
	// Validate returns an error that wraps ErrOptions if the sampler cannot work on such a graph.
	Validate(*graph.Schema) error
	// Bound says what a sample of batchSize seeds can take at most.
	Bound(s *graph.Schema, batchSize int) Bound
	// Open makes a worker. The loader opens one for each of its goroutines and closes it.
	Open(Env) (Worker, error)
	// Fingerprint names the options in a stable text, for loader states: equal texts mean equal samples.
	Fingerprint() string
}

// Bound is what a sample can take at most.
type Bound struct {
	Layers int   // number of layers of Sample.Blocks, whatever the seeds
	Nodes  int64 // distinct nodes of all types
	Edges  int64 // edges of all blocks that take memory of their own
	// Blocks are the edges of each block that takes memory of its own, by layer and edge type. nil means that it is not
	// known how Edges divide.
	Blocks [][]int64
	// Scratch is the memory of a worker besides the sample, in bytes.
	Scratch int64
}

// BoundFanout is the Bound of a sampler that picks up to k in-edges of every type a node (All for every in-edge), for a
// number of hops, and expands all nodes reached.
func BoundFanout(s *graph.Schema, batchSize, k, hops int) Bound {
	return Neighbor{Fanouts: slices.Repeat([]int{k}, max(hops, 0))}.Bound(s, batchSize)
}

// Env is what a worker works with.
type Env struct {
	Graph     *graph.Graph
	BatchSize int            // the most seeds that a request will have
	EdgePos   bool           // whether Block.EdgePos is wanted
	Scratch   pinned.Options // how to take memory that is not the sample's
}

// Worker samples. One goroutine at a time may use it.
type Worker interface {
	// Sample fills out, which was shaped by Init for the graph's schema and Bound's layers. On an error out is
	// undefined. It runs under pinned.Guard: a fault in a mapped file is the loader's to report.
	Sample(ctx context.Context, req *Request, out *graph.Sample) error
	// Close frees the worker's memory.
	Close() error
}

// Request is one batch to sample.
type Request struct {
	// Seeds are own ids by node type, in order, repeats allowed. The worker must not keep or change them.
	Seeds [][]int64
	// Rand keys every draw of the batch.
	Rand Rand
}
