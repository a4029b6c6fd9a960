package loader

import (
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// deviceWorkers is the default of Workers on a device: while one waits for sizes, the other keeps the device busy.
const deviceWorkers = 2

// deviceSource is what a loader has on a CUDA device. Batches then are made and lie there: their kernels read topology
// and columns where placed put them, in device memory or, over the bus, in host memory.
type deviceSource struct {
	*device.Device
	loader   *Loader
	sampler  sampling.DeviceSampler
	topology sampling.Topology
	owned    []interface{ Close() error } // device copies, attachments and caches, to close in reverse order
	placed   []Placed
	columns  []*deviceColumn
	users    int // the loader, and each slot that has memory; guarded by Loader.mu
}

// ParseDevice reads Options.Device: the number of the CUDA device that it names, or -1 for "cpu" and "auto"; ErrOptions
// for a name of another form.
func ParseDevice(name string) (ordinal int, err error) {
	if name == "auto" {
		return -1, nil
	}
	if ordinal, err = unified.ParseDevice(name); err != nil {
		return -1, fmt.Errorf("%w: Device %q: must be auto, cpu, cuda or cuda:<number>", ErrOptions, name)
	}
	return ordinal, nil
}

// openDevice settles on where batches are made and opens the device, if it is one.
func (l *Loader) openDevice() error {
	ordinal, err := ParseDevice(l.opt.Device)
	if err != nil {
		return err
	}
	name := l.opt.Device
	sampler, runs := l.opt.Sampler.(sampling.DeviceSampler)
	if name == "auto" && runs && device.Count() > 0 {
		ordinal = 0
	}
	if ordinal < 0 {
		l.opt.Device = "cpu"
		return nil
	}
	if !runs {
		return fmt.Errorf("%w: %s: samplers of %T do not run on a device; take \"cpu\"", ErrDevice, name, l.opt.Sampler)
	}
	if ordinal >= device.Count() {
		return noDevice(name)
	}
	d, err := device.Open(ordinal)
	if err != nil {
		if name != "auto" {
			return fmt.Errorf("%w: %s: %w", ErrDevice, name, err)
		}
		l.opt.log().Warn("the device cannot be used: batches are made on the CPU", "error", err)
		l.opt.Device = "cpu"
		return nil
	}
	l.opt.Device = fmt.Sprintf("cuda:%d", ordinal)
	l.device = &deviceSource{Device: d, loader: l, sampler: sampler, users: 1}
	return nil
}

func noDevice(name string) error {
	if n := device.Count(); n > 0 {
		return fmt.Errorf("%w: %s: found %d CUDA device(s), cuda:0 the first", ErrDevice, name, n)
	}
	return fmt.Errorf("%w: %s: no CUDA device: %s; take \"cpu\" or \"auto\"", ErrDevice, name, device.Reason())
}

// leaveDevice makes a loader that holds nothing yet one of the CPU.
func (l *Loader) leaveDevice() error {
	d := l.device
	l.device = nil
	return d.release()
}

// release gives back one use of the device: the last one closes it. Loader.mu is held, or nobody else is left.
func (d *deviceSource) release() error {
	if d == nil {
		return nil
	}
	d.users--
	if d.users > 0 {
		return nil
	}
	return d.Close()
}

// settle waits for all that is under way, and counts it. Nothing may be enqueued meanwhile.
func (d *deviceSource) settle() error {
	if d == nil {
		return nil
	}
	var errs []error
	for _, w := range d.loader.workers {
		if w.device != nil {
			errs = append(errs, w.device.picks.Synchronize(), w.device.columns.Synchronize())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var sum gather.Traffic
	for _, c := range d.columns {
		t, err := c.store.Traffic()
		if err != nil {
			return err
		}
		sum.Rows, sum.Hits, sum.Bytes, sum.Saved = sum.Rows+t.Rows, sum.Hits+t.Hits, sum.Bytes+t.Bytes,
			sum.Saved+t.Saved
	}
	d.loader.stats.onDevice.Store(&sum)
	return nil
}

// closeSource frees what the source's arrays took. No kernel that reads them may be under way.
func (d *deviceSource) closeSource() error {
	if d == nil {
		return nil
	}
	var errs []error
	for i := len(d.owned) - 1; i >= 0; i-- {
		errs = append(errs, d.owned[i].Close())
	}
	d.owned = nil
	return errors.Join(errs...)
}

// deviceWorker makes batches on a device: it samples on one stream and gathers on another, so that the rows of one
// batch are on their way while the next is sampled. The host waits once a batch, for the sizes of what was sampled.
type deviceWorker struct {
	loader         *Loader
	sampler        sampling.DeviceWorker
	picks, columns *device.Stream
	sampled        *device.Event
}

func (d *deviceSource) openWorker(env sampling.Env) (w *deviceWorker, err error) {
	w = &deviceWorker{loader: d.loader}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
			w = nil
		}
	}()
	if w.picks, err = d.NewStream(device.PriorityLow); err != nil {
		return w, err
	}
	if w.columns, err = d.NewStream(device.PriorityLow); err != nil {
		return w, err
	}
	if w.sampled, err = d.NewEvent(device.Untimed); err != nil {
		return w, err
	}
	env.Scratch.Device = d.Device
	w.sampler, err = d.sampler.OpenDevice(sampling.DeviceEnv{Env: env, Device: d.Device, Stream: w.picks,
		Topology: d.topology, MaxBlocks: d.loader.opt.DeviceBlocks})
	return w, err
}

// close waits for what is under way and frees the worker.
func (w *deviceWorker) close() error {
	var errs []error
	for _, s := range []*device.Stream{w.picks, w.columns} {
		if s != nil {
			errs = append(errs, s.Synchronize())
		}
	}
	if w.sampler != nil {
		errs = append(errs, w.sampler.Close())
	}
	if w.sampled != nil {
		errs = append(errs, w.sampled.Close())
	}
	for _, s := range []*device.Stream{w.picks, w.columns} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// sample samples the slot's request and waits for the sizes. A buffer that was too small has grown then, and the batch
// is sampled again: the draws are the same.
func (w *deviceWorker) sample(ctx context.Context, s *slot) error {
	for _, c := range w.loader.device.columns {
		if err := c.store.Err(); err != nil { // of an earlier batch: only a sampler of yours can cause it
			return fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	s.countGather()
	if err := s.makeFree(w.picks); err != nil {
		return err
	}
	for {
		if err := w.sampler.Enqueue(ctx, &s.request, &s.sample); err != nil {
			return err
		}
		if err := w.picks.Record(w.sampled); err != nil {
			return err
		}
		if err := w.sampled.Synchronize(); err != nil {
			return err
		}
		replay, err := w.sampler.Finish(&s.sample)
		if err != nil || !replay {
			return err
		}
		w.loader.stats.replays.Add(1)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// gather starts to copy the columns' rows. The slot is ready when its event says so.
func (w *deviceWorker) gather(s *slot) error {
	if err := s.awaitReaders(w.columns); err != nil {
		return err
	}
	if err := w.columns.Record(s.gathering); err != nil {
		return err
	}
	if err := s.gather(w.columns); err != nil {
		return errors.Join(err, w.columns.Synchronize()) // nobody could wait for what was enqueued
	}
	if err := w.columns.Record(s.ready); err != nil {
		return err
	}
	s.filled, s.counted, s.wasRead = true, false, false
	return nil
}

// onDevice is the part of a slot that only a device needs.
type onDevice struct {
	joined           bool
	gathering, ready *device.Event // around the last gather
	filled, counted  bool          // they were recorded; the time between them was counted
	read             *device.Event // what the last consumer's stream had to do by then
	wasRead          bool
}

// join makes the slot one of a device: close then lets go of it.
func (s *slot) join(d *deviceSource) error {
	if d == nil {
		return nil
	}
	d.users++
	s.joined = true
	return s.openEvents(d.Device)
}

func (o *onDevice) openEvents(d *device.Device) (err error) {
	if o.gathering, err = d.NewEvent(device.Timed); err != nil {
		return err
	}
	if o.ready, err = d.NewEvent(device.Timed); err != nil {
		return err
	}
	o.read, err = d.NewEvent(device.Untimed)
	return err
}

// awaitReaders lets what follows on the stream wait until nobody uses the slot's memory: neither who filled it before,
// nor the consumer whose stream Batch.RecordStream named.
func (s *slot) awaitReaders(stream *device.Stream) error {
	if s.filled {
		if err := stream.Wait(s.ready); err != nil {
			return err
		}
	}
	if s.wasRead {
		return stream.Wait(s.read)
	}
	return nil
}

// makeFree lets what follows on the stream have the slot's memory, part of which it may give back.
func (s *slot) makeFree(stream *device.Stream) error {
	if s.loader.opt.RowMemory != nil {
		return s.outwaitReaders()
	}
	return s.awaitReaders(stream)
}

// outwaitReaders is awaitReaders for the host. It must come before memory of a Provider is given back, which may give
// it out again at once; the driver waits by itself.
func (s *slot) outwaitReaders() error {
	if s.filled {
		if err := s.ready.Synchronize(); err != nil {
			return err
		}
	}
	if s.wasRead {
		return s.read.Synchronize()
	}
	return nil
}

// countGather adds the time that the slot's last gather took, if it is done by now, once.
func (s *slot) countGather() {
	if !s.filled || s.counted {
		return
	}
	s.counted = true
	if done, err := s.ready.Done(); err != nil || !done {
		return
	}
	if d, err := s.ready.Elapsed(s.gathering); err == nil {
		s.loader.stats.gather.add(d)
	}
}

func (o *onDevice) closeEvents() error {
	var errs []error
	for _, e := range []*device.Event{o.gathering, o.ready, o.read} {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	*o = onDevice{}
	return errors.Join(errs...)
}

// Device returns where the batch's tensors lie: "cpu", or "cuda:0" and so on.
func (b *Batch) Device() string { return b.loader.opt.Device }

// Wait lets what is enqueued on a CUDA stream from now on wait for the batch, and the host for nothing: stream is a
// CUstream (cudaStream_t) of the batch's device, 0 the default stream. It does nothing for a batch in host memory.
func (b *Batch) Wait(stream uintptr) error {
	if b.slot == nil || !b.slot.filled {
		return nil
	}
	return b.loader.device.BorrowStream(stream).Wait(b.slot.ready)
}

// RecordStream keeps the batch's memory as it is until all that is on a CUDA stream by now is done, also after Release
// or the end of the loop body. Call it after the last use, once; a later call takes the place of the one before. It
// does nothing for a batch in host memory.
func (b *Batch) RecordStream(stream uintptr) error {
	if b.slot == nil || !b.slot.filled {
		return nil
	}
	b.slot.wasRead = true
	return b.loader.device.BorrowStream(stream).Record(b.slot.read)
}

// Sync waits on the host until the batch is complete. It does nothing for a batch in host memory, which always is.
//
// Digest and other readers on the host call it themselves; call it to learn what went wrong.
func (b *Batch) Sync() error {
	if b.slot == nil || !b.slot.filled {
		return nil
	}
	return b.slot.ready.Synchronize()
}
