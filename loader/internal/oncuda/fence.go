package oncuda

import (
	"errors"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// cudaFence is the fence of a slot on a device.
type cudaFence struct {
	*device.Device
	stats            *makers.Counters
	provided         bool          // memory is of Options.Hooks.RowMemory, which may give it out again at once
	gathering, ready *device.Event // around the last gather
	filled, counted  bool          // they were recorded; the time between them was counted
	read             *device.Event // what the last consumer's stream had to do by then
	wasRead          bool
	traced           traced

	carried carried // of columns whose rows copies bring

	down    *device.Stream // brings tensors to the host, from the first on
	staging pinned.Buffer
}

func (d *Processor) SlotMemory(p *plan.Plan, ledger *pinned.Ledger, stats *makers.Counters) (slots.Memory, error) {
	own, err := device.Open(d.Ordinal()) // a kept batch outlives the loader
	if err != nil {
		return slots.Memory{}, err
	}
	memory := pinned.Options{Ledger: ledger, Purpose: pinned.Batches, Device: own, From: p.RowMemory}
	f := &cudaFence{Device: own, stats: stats, provided: p.RowMemory != nil}
	f.staging.Options = pinned.Options{Ledger: ledger, Purpose: pinned.Batches, Device: own, Place: pinned.Pinned}
	for i := range p.Arrays {
		f.carried.add(d.carried(&p.Arrays[i]), f.staging.Options)
	}
	if f.gathering, err = own.NewTimer(); err == nil {
		f.ready, err = own.NewTimer()
	}
	if err == nil {
		f.read, err = own.NewEvent()
	}
	if err != nil {
		err = errors.Join(err, f.Close())
	}
	return slots.Memory{Fence: f, IDs: memory, Rows: memory}, err
}

// Room is page-locked memory for rows of an array that copies bring.
func (f *cudaFence) Room(array int) *unified.Buffer { return &f.carried.rows[array] }

// awaitReaders waits, on a stream or on the host, until nobody uses the slot's memory: neither who filled it before,
// nor the consumer whose stream Batch.RecordStream named.
func (f *cudaFence) awaitReaders(wait func(*device.Event) error) error {
	if f.filled {
		if err := wait(f.ready); err != nil {
			return err
		}
	}
	if f.wasRead {
		return wait(f.read)
	}
	return nil
}

// makeFree lets what follows on the stream have the slot's memory, part of which it may give back.
func (f *cudaFence) makeFree(stream *device.Stream) error {
	if f.provided {
		return f.Free()
	}
	return f.awaitReaders(stream.Wait)
}

// Free is awaitReaders for the host, before memory of a Provider is given back, which may give it out again at once;
// the driver waits by itself.
func (f *cudaFence) Free() error {
	if !f.provided {
		return nil
	}
	return f.awaitReaders((*device.Event).Synchronize)
}

// countGather adds the time that the slot's last gather took, if it is done by now, once.
func (f *cudaFence) countGather() {
	if !f.filled || f.counted {
		return
	}
	f.counted = true
	if done, err := f.ready.Done(); err != nil || !done {
		return
	}
	if d, err := f.ready.Elapsed(f.gathering); err == nil {
		f.stats.Gather.Add(d)
		f.traced.gathered(f, d)
	}
}

// Wait lets a CUDA stream wait until the batch is complete.
func (f *cudaFence) Wait(stream uintptr) error {
	if !f.filled {
		return nil
	}
	return f.BorrowStream(stream).Wait(f.ready)
}

// Record keeps the batch until the stream has done what is on it by now.
func (f *cudaFence) Record(stream uintptr) error {
	if !f.filled {
		return nil
	}
	f.wasRead = true
	return f.BorrowStream(stream).Record(f.read)
}

// Reserve takes what an array of the slot, of n bytes, needs besides its own memory.
func (f *cudaFence) Reserve(array int, n int64) error {
	return f.carried.Reserve(array, n)
}

// Sync waits on the host until the batch is complete.
func (f *cudaFence) Sync() error {
	if !f.filled {
		return nil
	}
	return f.ready.Synchronize()
}

// Host returns the elements of a tensor of the batch in host memory, valid until the next call.
func (f *cudaFence) Host(t unified.Tensor) (host unified.Tensor, err error) {
	if t.Placement() != pinned.Device || len(t.Bytes()) == 0 {
		return t, nil
	}
	if f.down == nil {
		if f.down, err = f.NewStream(); err != nil {
			return host, err
		}
	}
	n := int64(len(t.Bytes()))
	if err := f.staging.Grow(n, 0); err != nil {
		return host, err
	}
	mem := f.staging.Bytes()[:n]
	if err := f.down.CopyToHost(mem, t.Address()); err != nil {
		return host, err
	}
	if err := f.down.Synchronize(); err != nil {
		return host, err
	}
	return unified.NewPlaced(pinned.Pinned, t.DType(), mem, t.Shape()...)
}

// Close frees the fence, after the slot's memory.
func (f *cudaFence) Close() error {
	if f.traced.lane != nil {
		f.countGather()
	}
	return errors.Join(f.down.Close(), f.staging.Close(), f.carried.Close(), f.gathering.Close(), f.ready.Close(),
		f.read.Close(), f.traced.anchor.Close(), f.Device.Close())
}
