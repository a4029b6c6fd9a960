package shm

import "github.com/khop-gnn/khop/unified"

// Version is the version of the protocol (docs/feed.md).
const Version = 1

// Array is one named array of a batch (docs/feed.md, "What is in a batch").
type Array struct {
	Name   string
	Tensor unified.Tensor
	Flags  uint16 // InTopology and InFull
}

// Flags of an array: the digests that cover it.
const (
	InTopology = 1 << 0
	InFull     = 1 << 1
)
