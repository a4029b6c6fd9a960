package loader

import (
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// deviceWorkers is the default of Workers on a device: while one waits for sizes, the other keeps the device busy.
const deviceWorkers = 2

func (*onCUDA) workers() int { return deviceWorkers }

// cudaMaker makes batches on a device: it samples on one stream and gathers on another, so that the rows of one batch
// are on their way while the next is sampled. The host waits once a batch, for the sizes of what was sampled.
type cudaMaker struct {
	readers
	on             *onCUDA
	stats          *counters
	sampler        sampling.DeviceWorker
	drawer         *sampling.DeviceDrawer // of negatives; nil without
	picks, columns *device.Stream
	sampled        *device.Event
}

func (d *onCUDA) openMaker(r *recipe, columns []*tiers.Column, ledger *pinned.Ledger, stats *counters) (_ maker,
	err error) {
	m := &cudaMaker{on: d, stats: stats}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if m.picks, err = d.NewStream(device.PriorityLow); err != nil {
		return nil, err
	}
	if m.columns, err = d.NewStream(device.PriorityLow); err != nil {
		return nil, err
	}
	if m.sampled, err = d.NewEvent(device.Untimed); err != nil {
		return nil, err
	}
	if m.readers, err = openReaders(columns, tier.Worker{Loader: r, Ledger: ledger, Stream: m.columns,
		Goroutines: carryGoroutines(r.opt.Workers)}); err != nil {
		return nil, err
	}
	env := r.env(ledger)
	env.Scratch.Device = d.Device
	defer recovered(&err)
	sampler, err := deviceSampler(&r.opt)
	if err != nil {
		return nil, err
	}
	at := sampling.DeviceEnv{Env: env, Device: d.Device, Stream: m.picks, Topology: d.topology,
		MaxBlocks: r.opt.Tuning.DeviceBlocks}
	if m.sampler, err = sampler.OpenDevice(at); err != nil {
		return nil, err
	}
	if r.drawer != nil {
		if m.drawer, err = r.drawer.OpenDevice(context.Background(), at); err != nil {
			return nil, fmt.Errorf("tables of negatives: %w", err)
		}
	}
	return m, nil
}

func (m *cudaMaker) negatives(r sampling.Rand, links []sampling.LinkSeeds) error {
	if m.drawer == nil {
		return nil
	}
	return m.drawer.Draw(r, links)
}

// drain waits for all that is on the streams.
func (m *cudaMaker) drain() error {
	var errs []error
	for _, s := range []*device.Stream{m.picks, m.columns} {
		if s != nil {
			errs = append(errs, s.Synchronize())
		}
	}
	return errors.Join(errs...)
}

// close waits for what is under way and frees the maker.
func (m *cudaMaker) close() (err error) {
	defer recovered(&err)
	errs := []error{m.drain(), m.readers.close()}
	if m.sampler != nil {
		errs = append(errs, m.sampler.Close())
	}
	if m.drawer != nil {
		errs = append(errs, m.drawer.Close())
	}
	return errors.Join(append(errs, m.sampled.Close(), m.picks.Close(), m.columns.Close())...)
}

// sample samples the slot's request and waits for the sizes. A buffer that was too small has grown then, and the batch
// is sampled again: the draws are the same.
func (m *cudaMaker) sample(ctx context.Context, s *slot) error {
	if err := m.expect(ctx, s); err != nil {
		return err
	}
	for _, c := range m.on.columns {
		if c.device == nil {
			continue
		}
		if err := c.device.Err(); err != nil { // of an earlier batch: only a sampler of yours can cause it
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	f := s.fence
	f.countGather()
	if err := f.makeFree(m.picks); err != nil {
		return err
	}
	for {
		if err := m.sampler.Enqueue(ctx, &s.request, &s.sample); err != nil {
			return err
		}
		if err := m.picks.Record(m.sampled); err != nil {
			return err
		}
		if err := m.sampled.Synchronize(); err != nil {
			return err
		}
		replay, err := m.sampler.Finish(&s.sample)
		if err != nil || !replay {
			return err
		}
		m.stats.replays.Add(1)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// fetch starts to bring the columns' rows.
func (m *cudaMaker) fetch(ctx context.Context, s *slot) error {
	f := s.fence
	if err := f.awaitReaders(m.columns); err != nil {
		return err
	}
	f.carried.of = 0
	if err := m.columns.Record(f.gathering); err != nil {
		return err
	}
	if err := m.begin(ctx, s); err != nil {
		return errors.Join(err, m.columns.Synchronize()) // nobody could wait for what was enqueued
	}
	return nil
}

// finish lets the slot's fence say when the rows are there.
func (m *cudaMaker) finish(ctx context.Context, s *slot) error {
	if _, err := m.readers.finish(ctx, s, m.stats); err != nil {
		return errors.Join(err, m.drain()) // nobody could wait for rows of other columns
	}
	f := s.fence
	if err := m.columns.Record(f.ready); err != nil {
		return err
	}
	f.filled, f.counted, f.wasRead = true, false, false
	return nil
}

// fence says when the memory of a slot on a device may be read, and when it may be written again. A nil one is that of
// a slot in host memory, whose batch is complete when it is delivered.
type fence struct {
	*device.Device
	stats            *counters
	provided         bool          // memory is of Options.Hooks.RowMemory, which may give it out again at once
	gathering, ready *device.Event // around the last gather
	filled, counted  bool          // they were recorded; the time between them was counted
	read             *device.Event // what the last consumer's stream had to do by then
	wasRead          bool

	carried carried // of columns whose rows copies bring

	down    *device.Stream // brings tensors to the host, from the first on
	staging pinned.Buffer
}

func (d *onCUDA) slotMemory(r *recipe, ledger *pinned.Ledger, stats *counters) (*fence, pinned.Options, pinned.Options,
	error) {
	own, err := device.Open(d.Ordinal()) // a kept batch outlives the loader
	if err != nil {
		return nil, pinned.Options{}, pinned.Options{}, err
	}
	memory := pinned.Options{Ledger: ledger, Purpose: pinned.Batches, Device: own, From: r.opt.Hooks.RowMemory}
	f := &fence{Device: own, stats: stats, provided: r.opt.Hooks.RowMemory != nil}
	f.staging.Options = pinned.Options{Ledger: ledger, Purpose: pinned.Batches, Device: own, Place: pinned.Pinned}
	for i := range r.arrays {
		f.carried.add(d.carried(&r.arrays[i]), f.staging.Options)
	}
	if f.gathering, err = own.NewEvent(device.Timed); err == nil {
		f.ready, err = own.NewEvent(device.Timed)
	}
	if err == nil {
		f.read, err = own.NewEvent(device.Untimed)
	}
	if err != nil {
		err = errors.Join(err, f.close())
	}
	return f, memory, memory, err
}

// awaitReaders lets what follows on the stream wait until nobody uses the slot's memory: neither who filled it before,
// nor the consumer whose stream Batch.RecordStream named.
func (f *fence) awaitReaders(stream *device.Stream) error {
	if f.filled {
		if err := stream.Wait(f.ready); err != nil {
			return err
		}
	}
	if f.wasRead {
		return stream.Wait(f.read)
	}
	return nil
}

// makeFree lets what follows on the stream have the slot's memory, part of which it may give back.
func (f *fence) makeFree(stream *device.Stream) error {
	if f.provided {
		return f.free()
	}
	return f.awaitReaders(stream)
}

// free is awaitReaders for the host, before memory of a Provider is given back, which may give it out again at once;
// the driver waits by itself.
func (f *fence) free() error {
	if f == nil || !f.provided {
		return nil
	}
	if f.filled {
		if err := f.ready.Synchronize(); err != nil {
			return err
		}
	}
	if f.wasRead {
		return f.read.Synchronize()
	}
	return nil
}

// countGather adds the time that the slot's last gather took, if it is done by now, once.
func (f *fence) countGather() {
	if !f.filled || f.counted {
		return
	}
	f.counted = true
	if done, err := f.ready.Done(); err != nil || !done {
		return
	}
	if d, err := f.ready.Elapsed(f.gathering); err == nil {
		f.stats.gather.add(d)
	}
}

// wait lets a CUDA stream wait until the batch is complete.
func (f *fence) wait(stream uintptr) error {
	if f == nil || !f.filled {
		return nil
	}
	return f.BorrowStream(stream).Wait(f.ready)
}

// record keeps the batch until the stream has done what is on it by now.
func (f *fence) record(stream uintptr) error {
	if f == nil || !f.filled {
		return nil
	}
	f.wasRead = true
	return f.BorrowStream(stream).Record(f.read)
}

// reserve takes what an array of the slot needs besides its own memory, of so many bytes.
func (f *fence) reserve(array int, n int64) error {
	if f == nil {
		return nil
	}
	return f.carried.reserve(array, n)
}

// sync waits on the host until the batch is complete.
func (f *fence) sync() error {
	if f == nil || !f.filled {
		return nil
	}
	return f.ready.Synchronize()
}

// host returns the elements of a tensor of the batch in host memory, valid until the next call.
func (f *fence) host(t unified.Tensor) (host unified.Tensor, err error) {
	if t.Placement() != unified.Device || len(t.Bytes()) == 0 {
		return t, nil
	}
	if f.down == nil {
		if f.down, err = f.NewStream(device.PriorityLow); err != nil {
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
	return unified.NewPlaced(unified.Pinned, t.DType(), mem, t.Shape()...)
}

// close frees the fence, after the slot's memory.
func (f *fence) close() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.down.Close(), f.staging.Close(), f.carried.close(), f.gathering.Close(), f.ready.Close(),
		f.read.Close(), f.Device.Close())
}
