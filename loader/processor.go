package loader

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// processor is where batches are made. There is one for a placed source, and its loaders share it: the CPU (onCPU) or a
// CUDA device (onCUDA). All that differs between them is behind this interface, sampler and maker.
type processor interface {
	// String returns the name, as Options.Device.Name has it.
	String() string
	// workers returns the default of Options.Workers.
	workers() int
	// chooseTiers finds a tier for each column of p.
	chooseTiers(p *Placed)
	// fit settles on numbers of workers and slots, for a recipe of p's loaders, which share limits, and estimates.
	fit(p *Placed, r *recipe) (Estimate, error)
	// expect adds to an estimate of fit what is held once New has returned: bytes of all slots, and of one worker's
	// scratch on the CPU.
	expect(e *Estimate, batches, scratch int64)
	// place brings p's arrays to where the processor reads them.
	place(ctx context.Context, p *Placed) error
	// openMaker makes a maker of a recipe's batches, which have rows of columns: by array.
	openMaker(r *recipe, columns []*tiers.Column, ledger *pinned.Ledger, stats *counters) (maker, error)
	// slotMemory says how a slot's ids and rows take memory, and makes its fence, which is nil on the CPU.
	slotMemory(r *recipe, ledger *pinned.Ledger, stats *counters) (f *fence, ids, rows pinned.Options, err error)
	// bounded reports whether each slot is given the memory of the largest batch in advance.
	bounded(o *Options) bool
	// explain adds to an error what can be done about it.
	explain(err error, o *Options) error
	// close frees what place took. Nobody may read it any more.
	close() error
}

// sampler samples batches on one processor, for one goroutine at a time.
type sampler interface {
	// negatives appends to the edges of each type, which were asked for, those that are not true.
	negatives(r sampling.Rand, links []sampling.LinkSeeds) error
	// sample fills the slot's sample with what its request asks for. The host then knows all shapes.
	sample(ctx context.Context, s *slot) error
	// close frees the sampler's memory.
	close() error
}

// maker makes batches: sample, fetch and finish, in this order. What fetch begins may go on until finish, and after it
// as far as the slot's fence says so.
type maker interface {
	sampler
	// fetch begins to bring the rows of the columns.
	fetch(ctx context.Context, s *slot) error
	// finish completes what fetch began, or leaves it to the fence.
	finish(ctx context.Context, s *slot) error
	// cancel gives up a batch that failed.
	cancel()
}

// drain waits until nothing that a maker began writes to any slot, on a device.
func drain(m maker) error {
	if d, ok := m.(interface{ drain() error }); ok {
		return d.drain()
	}
	return nil
}

// ChooseDevice returns where a loader with these options makes batches, as Options.Device.Name has it, and why. "auto"
// is the first device that can make them, else the CPU; a name stays as it is, whether there is such a device or not.
func ChooseDevice(opt Options) (name, why string) {
	if name = opt.EnsureDefaults().Device.Name; name != "auto" {
		return name, "it was asked for"
	}
	on, why := autoProcessor(&opt)
	name = on.String()
	if err := on.close(); err != nil {
		return "cpu", fmt.Sprintf("%s cannot be used: %v", name, err)
	}
	return name, why
}

// chooseProcessor settles on where batches are made, by Options.Device.Name.
func chooseProcessor(opt *Options) (processor, error) {
	name := opt.Device.Name
	if name == "auto" {
		on, why := autoProcessor(opt)
		opt.log().Info("device chosen", "device", on.String(), "why", why)
		return on, nil
	}
	ordinal, err := ParseDevice(name)
	switch {
	case err != nil:
		return nil, err
	case ordinal < 0:
		return &onCPU{}, nil
	}
	if _, err := deviceSampler(opt); err != nil {
		return nil, err
	}
	if ordinal >= device.Count() {
		return nil, noDevice(name)
	}
	d, err := device.Open(ordinal)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDevice, name, err)
	}
	return &onCUDA{Device: d}, nil
}

// autoProcessor returns the first device that can make the batches, else the CPU, and says why.
func autoProcessor(opt *Options) (on processor, why string) {
	if err := refusedByDevice(opt); err != nil {
		return &onCPU{}, strings.TrimPrefix(err.Error(), sampling.ErrOptions.Error()+": ")
	}
	if device.Count() == 0 {
		return &onCPU{}, "no CUDA device: " + device.Reason()
	}
	d, err := device.Open(0)
	if err != nil {
		return &onCPU{}, fmt.Sprintf("cuda:0 cannot be used: %v", err)
	}
	return &onCUDA{Device: d}, "the first CUDA device"
}

// deviceSampler returns the sampler as one that runs on a device; ErrDevice for options that devices cannot do.
func deviceSampler(opt *Options) (sampling.DeviceSampler, error) {
	if err := refusedByDevice(opt); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; take \"cpu\"", ErrDevice, opt.Device.Name, err)
	}
	return opt.Sampler.(sampling.DeviceSampler), nil
}

// refusedByDevice says what of the options devices cannot do; nil for nothing.
func refusedByDevice(opt *Options) error {
	if opt.Columns.Widen {
		return errors.New("a device widens no rows (Widen)")
	}
	s, ok := opt.Sampler.(sampling.DeviceSampler)
	if !ok && opt.Columns.Prepare != 0 {
		return errors.New("a device prepares no blocks (Prepare)")
	}
	if !ok {
		return fmt.Errorf("the sampler %T runs on the CPU alone", opt.Sampler)
	}
	if partly, ok := s.(sampling.PartlyOnDevice); ok {
		return partly.OnDevice()
	}
	return nil
}

// ParseDevice reads Options.Device.Name: the number of the CUDA device that it names, or -1 for "cpu" and "auto";
// ErrOptions for a name of another form.
func ParseDevice(name string) (ordinal int, err error) {
	if name == "auto" {
		return -1, nil
	}
	if ordinal, err = unified.ParseDevice(name); err != nil {
		return -1, option.Errorf(ErrOptions, Options{}, "Device.Name",
			" %q: must be auto, cpu, cuda or cuda:<number>", name)
	}
	return ordinal, nil
}

func noDevice(name string) error {
	if n := device.Count(); n > 0 {
		return fmt.Errorf("%w: %s: found %d CUDA device(s), cuda:0 the first", ErrDevice, name, n)
	}
	return fmt.Errorf("%w: %s: no CUDA device: %s; take \"cpu\" or \"auto\"", ErrDevice, name, device.Reason())
}

func (*onCPU) explain(err error, o *Options) error {
	if errors.Is(err, pinned.ErrLimit) {
		return fmt.Errorf("%w: %w; %s", ErrMemory, err, remedyMemory)
	}
	return err
}

func (*onCUDA) explain(err error, o *Options) error {
	limits := fmt.Sprintf("DeviceMemory is %d", o.Device.Memory)
	if o.MaxMemory > 0 {
		limits = fmt.Sprintf("MaxMemory is %d, DeviceMemory %d", o.MaxMemory, o.Device.Memory)
	}
	switch {
	case errors.Is(err, pinned.ErrLimit):
		return fmt.Errorf("%w: %s: %w", ErrMemory, limits, err)
	case errors.Is(err, device.ErrOutOfMemory):
		return fmt.Errorf("%w: %s: %w; take smaller batches or fan-outs, a lower Prefetch, or \"cpu\"", ErrMemory,
			limits, err)
	case errors.Is(err, device.ErrDeviceLost):
		return fmt.Errorf("%s: %w; start the process again, or take \"cpu\"", o.Device.Name, err)
	}
	return err
}
