package shm

import "github.com/khop-gnn/khop/unified"

// Version is the version of the protocol (docs/feed.md).
const Version = 1

// Array is one named array of a batch (docs/feed.md, "What is in a batch").
type Array struct {
	Name   string
	Tensor unified.Tensor
	// The digests that cover it (docs/digest.md).
	InTopology, InFull bool
}
