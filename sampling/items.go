package sampling

import "github.com/khop-gnn/khop/graph"

// Items are what batches are made of in place of seeds, numbered from 0: parts of a partition, ranges of nodes, or mere
// steps. Request.Items has those of a batch. A loader goes over them as it goes over seeds.
type Items struct {
	Count    int64 // items of an epoch
	PerBatch int   // items of a batch, which stands in for the loader's BatchSize
	InOrder  bool  // they have an order: shuffling them is an error
}

// emptyRequest is a request without seeds, with the draws of another.
func emptyRequest(s *graph.Schema, of *Request) *Request {
	return &Request{Seeds: make([][]int64, len(s.Nodes)), Rand: of.Rand}
}
