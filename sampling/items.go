package sampling

import "github.com/khop-gnn/khop/graph"

// ItemSampler is a Sampler whose batches have no seeds. They are made of items of its own, numbered from 0: parts of a
// partition, ranges of nodes, or mere steps. Request.Items has those of a batch. A loader goes over them as it goes
// over seeds.
type ItemSampler interface {
	Sampler
	// Items says what an epoch goes over.
	Items(*graph.Schema) Items
}

// Items are what batches of an ItemSampler are made of.
type Items struct {
	Count    int64 // items of an epoch
	PerBatch int   // items of a batch, which stands in for the loader's BatchSize
	InOrder  bool  // they have an order: shuffling them is an error
}

// emptyRequest is a request without seeds, with the draws of another.
func emptyRequest(s *graph.Schema, of *Request) *Request {
	return &Request{Seeds: make([][]int64, len(s.Nodes)), Rand: of.Rand}
}
