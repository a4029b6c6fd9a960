package consumer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/unified"
)

// Batch is one mini-batch at a consumer: named arrays in the server's memory.
//
// The batch and its arrays are valid until the loop body that received it ends, or if the body called Keep, until
// Release. They may be written, unless the ring is a broadcast: then writing faults. If batches are on a device
// (Info.OnDevice), all arrays but num_nodes, input and item are tensors of placement Device: streams must be done with
// them before the batch is returned.
type Batch struct {
	// Epoch and Number name the batch: Number counts the epoch's batches over all ranks, from 0.
	Epoch, Number uint64
	// Padded says that this rank repeats a batch of another, so that all ranks have the same number.
	Padded bool

	consumer *Consumer
	slot     uint32
	next     uint64
	arrays   []shm.Array

	// Guarded by Consumer.mu.
	inBody, kept bool
}

// open makes a batch of an announcement.
func (c *Consumer) open(m wire.Batch) (*Batch, error) {
	memory := c.memory(m.Segment)
	if memory == nil || memory.Device != nil || m.Offset > uint64(len(memory.Data)) ||
		uint64(m.Size) > uint64(len(memory.Data))-m.Offset {
		return nil, fmt.Errorf("%w: BATCH with its descriptor at %d of segment %d, where it cannot be", wire.ErrMessage,
			m.Offset, m.Segment)
	}
	if m.Sequence != c.done || m.Epoch != c.epoch {
		return nil, fmt.Errorf("%w: BATCH %d of epoch %d, where %d of %d is due", wire.ErrMessage, m.Sequence, m.Epoch,
			c.done, c.epoch)
	}
	d := append(c.descriptor[:0], memory.Data[m.Offset:m.Offset+uint64(m.Size)]...) // the server cannot change the copy
	c.descriptor = d
	if epoch, number, next := wire.PlaceOf(d); epoch != m.Epoch || number != m.Number || next != m.Next {
		return nil, fmt.Errorf("%w: BATCH %d of epoch %d, its descriptor is of %d of %d", wire.ErrMessage, m.Number,
			m.Epoch, number, epoch)
	}
	layout, names := wire.Layout(d), c.names
	if layout != c.layout {
		names = nil
	}
	arrays, err := wire.ParseDescriptor(d, c.memory, names)
	if err != nil {
		return nil, err
	}
	if names == nil {
		c.layout, c.names = layout, make([]string, len(arrays))
		for i := range arrays {
			c.names[i] = arrays[i].Name
		}
	}
	b := &Batch{
		Epoch: m.Epoch, Number: m.Number, Padded: m.Flags&wire.Padded != 0,
		consumer: c, slot: m.Slot, next: m.Next, arrays: arrays, inBody: true,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[m.Slot] != nil || m.Slot >= uint32(c.info.Slots) {
		return nil, errSlot(m)
	}
	c.held[m.Slot] = b
	return b, nil
}

func errSlot(m wire.Batch) error {
	return fmt.Errorf("%w: BATCH in slot %d, which is held or not there", wire.ErrMessage, m.Slot)
}

// Arrays returns all arrays, in the order in which the server lists them.
func (b *Batch) Arrays() []shm.Array { return b.arrays }

// Array returns the array with a name (docs/feed.md, "What is in a batch"); the zero Tensor if there is no such array.
func (b *Batch) Array(name string) unified.Tensor {
	for i := range b.arrays {
		if b.arrays[i].Name == name {
			return b.arrays[i].Tensor
		}
	}
	return unified.Tensor{}
}

// State returns the place after this batch: Consumer.Resume, or loader.Loader.Resume, continues with the next one.
func (b *Batch) State() loader.State {
	s := b.consumer.info.State
	s.Epoch, s.Next = b.Epoch, b.next
	return s
}

// Keep holds the batch beyond the loop body, until Release, and returns it. Call it in the body. A kept batch takes one
// of the slots that the consumer may hold.
func (b *Batch) Keep() *Batch {
	b.consumer.mu.Lock()
	defer b.consumer.mu.Unlock()
	b.kept = true
	return b
}

// Release returns a kept batch; its arrays are then invalid. It does nothing to a batch that is not kept.
// Any goroutine may call it, any number of times.
func (b *Batch) Release() {
	c := b.consumer
	c.mu.Lock()
	defer c.mu.Unlock()
	if !b.kept {
		return
	}
	b.kept = false
	if b.inBody {
		return
	}
	c.giveBack(b)
	if !c.closed {
		_ = c.flushSlots() // somebody may wait for it; where it fails the next message will say so
	}
	c.unmapIfDone()
}

// giveBack notes that a batch's slot can go back. mu is held.
func (c *Consumer) giveBack(b *Batch) {
	b.arrays = nil
	delete(c.held, b.slot)
	c.back = append(c.back, b.slot)
}

// flushSlots returns slots without acknowledging anything. mu is held.
func (c *Consumer) flushSlots() error {
	if len(c.back) > 0 && c.isFork() {
		return errFork
	}
	for len(c.back) > 0 {
		if err := c.sendNext(0, 0); err != nil {
			return err
		}
	}
	return nil
}

// Digest returns the batch's digests (docs/digest.md): topology covers the sample, full also the columns. It copies
// arrays on a device to the host; both are 0 if that fails.
func (b *Batch) Digest() (topology, full uint64) {
	list := make([]layout.Array, len(b.arrays))
	for i, a := range b.arrays {
		list[i] = layout.Array{Name: a.Name, Kind: kindOf(a), DType: a.Tensor.DType()}
	}
	var failed error
	release := func() error { return nil }
	topology, full = loader.Digests(list, func(i int) unified.Tensor {
		failed = errors.Join(failed, release()) // the array before is hashed
		host, free, err := b.arrays[i].Tensor.OnHost()
		if release = free; err != nil {
			failed, release = errors.Join(failed, err), func() error { return nil }
		}
		return host
	})
	if errors.Join(failed, release()) != nil {
		return 0, 0
	}
	return topology, full
}

// kindOf returns a kind that digests treat as they do the array's.
func kindOf(a shm.Array) layout.Kind {
	switch {
	case !a.InFull:
		return layout.Inputs
	case !a.InTopology:
		return layout.NodeColumn
	case strings.HasPrefix(a.Name, "sample/"):
		return layout.Own
	}
	return layout.Nodes
}
