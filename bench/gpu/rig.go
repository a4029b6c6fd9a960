package gpu

import (
	"context"
	"errors"
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// simulatorName is what the simulated device calls itself.
const simulatorName = "khop CUDA simulator"

// rig is the device under measurement, with a stream and what times it.
type rig struct {
	ctx      context.Context
	reps     int
	dev      *device.Device
	stream   *device.Stream
	begin    *device.Event
	end      *device.Event
	probe    *probeKernels
	elements *elementsKernels
	sink     *pinned.Region // on the device: a word that no kernel writes in practice
}

// machineResult is what every result begins with.
type machineResult struct {
	Device    string `json:"device"`
	Simulated bool   `json:"simulated"` // figures mean nothing
}

func (r *rig) machine() machineResult {
	return machineResult{Device: r.dev.Name(), Simulated: r.dev.Name() == simulatorName}
}

func (r *rig) open() (err error) {
	if r.dev, err = device.Open(0); err != nil {
		return err
	}
	if r.stream, err = r.dev.NewStream(); err == nil {
		r.begin, err = r.dev.NewTimer()
	}
	if err == nil {
		r.end, err = r.dev.NewTimer()
	}
	if err == nil {
		r.probe, err = loadProbeKernels(r.dev)
	}
	if err == nil {
		r.elements, err = loadElementsKernels(r.dev)
	}
	if err == nil {
		r.sink, err = pinned.Allocate(8, pinned.Options{Device: r.dev})
	}
	if err != nil {
		return errors.Join(err, r.close())
	}
	return nil
}

func (r *rig) close() error {
	errs := []error{r.sink.Close(), r.begin.Close(), r.end.Close(), r.stream.Close()}
	if r.probe != nil {
		errs = append(errs, r.probe.Close())
	}
	if r.elements != nil {
		errs = append(errs, r.elements.Close())
	}
	return errors.Join(append(errs, r.dev.Close())...)
}

// undo is what has to be taken back, the last first.
type undo []func() error

// run takes everything back, and joins what goes wrong to err.
func (u undo) run(err error) error {
	errs := []error{err}
	for _, f := range slices.Backward(u) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// place returns a tensor on the device to be written, until u is run.
func (r *rig) place(u *undo, dtype unified.DType, shape ...int64) (unified.Tensor, error) {
	n := dtype.Size()
	for _, s := range shape {
		n *= s
	}
	room, err := pinned.Allocate(n, pinned.Options{Device: r.dev})
	if err != nil {
		return unified.Tensor{}, err
	}
	*u = append(*u, room.Close)
	return unified.NewPlaced(pinned.Device, dtype, room.Bytes(), shape...)
}

// put copies a tensor to the device, where it is until u is run.
func (r *rig) put(u *undo, t unified.Tensor) (unified.Tensor, error) {
	to, err := r.place(u, t.DType(), t.Shape()...)
	if err != nil {
		return to, err
	}
	return to, errors.Join(r.stream.CopyToDevice(to.Address(), t.Bytes()), r.stream.Synchronize())
}

// address returns where the device is on the bus.
func (r *rig) address() string { return machine.FindPCI(r.dev.PCI()).Address }

// time returns the median time on the device of what work puts on the stream, after once that does not count.
func (r *rig) time(work func() error) (seconds float64, err error) {
	times, err := r.times(work)
	if err != nil {
		return 0, err
	}
	return times[len(times)/2], nil
}

// quartiles returns those of the times on the device, as time takes them.
func (r *rig) quartiles(work func() error) (q [3]float64, err error) {
	times, err := r.times(work)
	if err != nil {
		return q, err
	}
	for i := range q {
		q[i] = times[(i+1)*(len(times)-1)/4]
	}
	return q, nil
}

// times returns the seconds of r.reps runs on the device, ascending.
func (r *rig) times(work func() error) ([]float64, error) {
	times := make([]float64, 0, r.reps)
	for i := range r.reps + 1 {
		if r.ctx.Err() != nil {
			return nil, context.Cause(r.ctx)
		}
		if err := r.stream.Record(r.begin); err != nil {
			return nil, err
		}
		if err := work(); err != nil {
			return nil, err
		}
		if err := r.stream.Record(r.end); err != nil {
			return nil, err
		}
		if err := r.end.Synchronize(); err != nil {
			return nil, err
		}
		took, err := r.end.Elapsed(r.begin)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			times = append(times, max(took.Seconds(), 1e-9))
		}
	}
	slices.Sort(times)
	return times, nil
}
