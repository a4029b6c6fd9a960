package loader

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Batch is one mini-batch: a sample, and the columns that were gathered for it.
//
// The batch, and everything that its methods return, is valid until the loop body that received it ends, or after Keep
// until Release. It is read-only; any number of goroutines may read it. Node ids count the nodes of a type.
type Batch struct {
	// Epoch and Number name the batch: Number counts the epoch's batches over all ranks, from 0.
	Epoch, Number uint64
	// Padded says that this rank repeats a batch of another, so that all ranks have the same number (see Pad).
	Padded bool
	// Sample is the sampler's result: nodes by type, blocks by layer and edge type.
	Sample *graph.Sample

	loader *Loader
	next   uint64     // of the state
	slot   *ownedSlot // nil once released; from Keep on guarded by Loader.mu, as are the following
	kept   bool
	shared bool // Keep was called: somebody may hold the pointer for ever
}

func newBatch(l *Loader, s *ownedSlot) *Batch { return &Batch{loader: l, slot: s, Sample: &s.Sample} }

// Node returns a column of the nodes of type t: a row for each of Sample.Nodes[t]. It returns the zero Tensor if the
// type does not have the column, or the options do not name it: Loader.Find reports that beforehand.
func (b *Batch) Node(t int, column string) unified.Tensor {
	return b.column(layout.NodeColumn, 0, t, column)
}

// Seed is Node for the distinct seeds of type t, which are the first Sample.NumNodes[0][t] nodes.
func (b *Batch) Seed(t int, column string) unified.Tensor {
	return b.column(layout.SeedColumn, 0, t, column)
}

// Edge is Node for the edges of Sample.Blocks[layer][edgeType].
func (b *Batch) Edge(layer, edgeType int, column string) unified.Tensor {
	return b.column(layout.EdgeColumn, layer, edgeType, column)
}

func (b *Batch) column(kind layout.Kind, layer, t int, column string) unified.Tensor {
	if b.slot == nil {
		return unified.Tensor{}
	}
	if i := b.loader.plan.Find(kind, layer, t, column); i >= 0 {
		return b.slot.Tensor(i)
	}
	return unified.Tensor{}
}

// X returns the features of the batch of a graph with one node type: Node(0, "feature").
func (b *Batch) X() unified.Tensor { return b.Node(0, defaultNodeColumn) }

// Y returns the seeds' labels of the batch of a graph with one node type: Seed(0, "label"). A seed that was requested
// twice has one row; Sample.SeedLocal says which.
func (b *Batch) Y() unified.Tensor { return b.Seed(0, defaultSeedColumn) }

// Seeds returns the requested seeds of type t: their ids, and their numbers in the list of seeds, which counts over all
// types. Sample.SeedLocal says where in the node list they are.
func (b *Batch) Seeds(t int) (ids, items []int64) {
	if b.slot == nil || t < 0 || t >= len(b.slot.Items) {
		return nil, nil
	}
	return b.slot.Request.Seeds[t], b.slot.Items[t]
}

// Links returns the seeds of an edge type, which are edges, and their negatives; nil where seeds are nodes. The local
// ids of their ends are Sample.SeedEdges[edgeType].
func (b *Batch) Links(edgeType int) *sampling.LinkSeeds {
	if b.slot == nil || edgeType < 0 || edgeType >= len(b.slot.Links) {
		return nil
	}
	return &b.slot.Links[edgeType]
}

// Slot returns the number of the slot that the batch is in, below Stats().Slots: no two batches have the same at a
// time. -1 once the batch is released.
func (b *Batch) Slot() int {
	if b.slot == nil {
		return -1
	}
	return b.slot.Index
}

// State returns the place after this batch: Resume continues with the next one.
func (b *Batch) State() State {
	if b.slot == nil {
		return State{}
	}
	s := b.loader.state
	s.Epoch, s.Next = b.Epoch, b.next
	return s
}

// Keep holds the batch beyond the loop body, until Release, and returns it. Call it in the body. A kept batch occupies
// one of the loader's slots: keep fewer than Prefetch, or the loader slows down, and when all are kept it ends with
// ErrSlotsHeld. A kept batch outlives its epoch, and also Close, until it is released.
func (b *Batch) Keep() *Batch {
	b.loader.mu.Lock()
	defer b.loader.mu.Unlock()
	if b.slot != nil && !b.kept {
		b.keep()
	}
	return b
}

// keep makes the caller the batch's owner. Loader.mu is held.
func (b *Batch) keep() {
	b.kept, b.shared = true, true
	b.loader.held++
	b.loader.trace.keeps(b.slot)
}

// Release ends Keep. After the loop body has ended, the batch's contents are then invalid. It does nothing to a batch
// that is not kept. Any goroutine may call it, any number of times.
func (b *Batch) Release() {
	b.loader.mu.Lock()
	defer b.loader.mu.Unlock()
	if b.slot == nil || !b.kept {
		return
	}
	b.kept = false
	b.loader.held--
	b.loader.trace.released(b.slot)
	if !b.slot.inBody {
		b.loader.recycle(b.slot)
	}
}

// Device returns where the batch's tensors are: "cpu", or "cuda:0" and so on.
func (b *Batch) Device() string { return b.loader.plan.On.String() }

// Wait makes later work on a CUDA stream wait for the batch; the host does not wait. stream is a CUstream
// (cudaStream_t) of the batch's device; 0 is the default stream. It does nothing for a batch in host memory.
func (b *Batch) Wait(stream uintptr) error {
	if b.slot == nil {
		return nil
	}
	return b.slot.Wait(stream)
}

// RecordStream keeps the batch's memory unchanged until all work that is on a CUDA stream now is done, also after
// Release or the end of the loop body. Call it once, after the last use; a later call replaces an earlier one. It does
// nothing for a batch in host memory.
func (b *Batch) RecordStream(stream uintptr) error {
	if b.slot == nil {
		return nil
	}
	return b.slot.Record(stream)
}

// Sync waits on the host until the batch is complete, and returns the error if it failed. A batch in host memory is
// always complete. Digest and other methods that read on the host call it themselves.
func (b *Batch) Sync() error {
	if b.slot == nil {
		return nil
	}
	return b.slot.Sync()
}

// CopyTo copies a tensor of the batch, in host or device memory, to host memory, and waits for the copy. One goroutine
// at a time may call it, or Digest.
func (b *Batch) CopyTo(to []byte, t unified.Tensor) error {
	if len(to) != len(t.Bytes()) {
		return fmt.Errorf("%w: %v into %d bytes", unified.ErrShape, t, len(to))
	}
	if t.Placement() != pinned.Device || len(to) == 0 {
		copy(to, t.Bytes())
		return nil
	}
	if b.slot == nil {
		return fmt.Errorf("%w: the batch was released", ErrClosed)
	}
	if err := b.Sync(); err != nil {
		return err
	}
	host, err := b.slot.Host(t)
	if err == nil {
		copy(to, host.Bytes())
	}
	return err
}
