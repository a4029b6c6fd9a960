package loader

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader/internal/oncpu"
	"github.com/khop-gnn/khop/loader/internal/oncuda"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/sampling"
)

// ChooseDevice returns where a loader with these options makes batches, as a name for Options.Device.Name, and why.
// "auto" becomes the first device that can make them, else the CPU; any other name stays as it is, even if there is no
// such device.
func ChooseDevice(opt Options) (name, why string) {
	if name = opt.EnsureDefaults().Device.Name; name != "auto" {
		return name, "it was asked for"
	}
	on, why := autoProcessor(&opt)
	name = on.String()
	if err := on.Close(); err != nil {
		return "cpu", fmt.Sprintf("%s cannot be used: %v", name, err)
	}
	return name, why
}

// chooseProcessor settles on where batches are made, by Options.Device.Name.
func chooseProcessor(opt *Options) (plan.Processor, error) {
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
		return onTheCPU(opt), nil
	}
	if err := refusedByDevice(opt); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; take \"cpu\"", ErrDevice, name, err)
	}
	if ordinal >= device.Count() {
		return nil, noDevice(name)
	}
	d, err := device.Open(ordinal)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDevice, name, err)
	}
	return onADevice(d, opt), nil
}

// autoProcessor returns the first device that can make the batches, else the CPU, and says why.
func autoProcessor(opt *Options) (on plan.Processor, why string) {
	if err := refusedByDevice(opt); err != nil {
		return onTheCPU(opt), strings.TrimPrefix(err.Error(), sampling.ErrOptions.Error()+": ")
	}
	if device.Count() == 0 {
		return onTheCPU(opt), "no CUDA device: " + device.Reason()
	}
	d, err := device.Open(0)
	if err != nil {
		return onTheCPU(opt), fmt.Sprintf("cuda:0 cannot be used: %v", err)
	}
	return onADevice(d, opt), "the first CUDA device"
}

// ParseDevice returns the number of the CUDA device that an Options.Device.Name names, or -1 for "cpu" and "auto";
// ErrOptions for a name of another form.
func ParseDevice(name string) (ordinal int, err error) {
	rest, numbered := strings.CutPrefix(name, "cuda:")
	switch {
	case name == "auto", name == "cpu":
		return -1, nil
	case name == "cuda":
		return 0, nil
	case numbered:
		if n, err := strconv.ParseUint(rest, 10, 16); err == nil {
			return int(n), nil
		}
	}
	return -1, option.Errorf(ErrOptions, Options{}, "Device.Name", " %q: must be auto, cpu, cuda or cuda:N", name)
}

func noDevice(name string) error {
	if n := device.Count(); n > 0 {
		return fmt.Errorf("%w: %s: found %d CUDA device(s), cuda:0 the first", ErrDevice, name, n)
	}
	return fmt.Errorf("%w: %s: no CUDA device: %s; take \"cpu\" or \"auto\"", ErrDevice, name, device.Reason())
}

// refusedByDevice says what of the options devices cannot do; nil for nothing.
func refusedByDevice(opt *Options) error {
	_, ok := opt.Sampler.(sampling.DeviceSampler)
	if !ok && opt.Columns.Prepare != 0 {
		return errors.New("a device prepares no blocks (Prepare)")
	}
	return oncuda.Refuses(opt.Sampler)
}

// hostWork says what the host does of batches that a device makes; nothing on the CPU.
func (l *Loader) hostWork() (work []string) {
	o, p := &l.opt, l.plan
	ranks := o.Device.HotRows == RankPresample || o.Device.HotRows == RankUses
	if o.Device.Name == "cpu" {
		return nil
	}
	add := func(does bool, what string) {
		if does {
			work = append(work, what)
		}
	}
	add(p.Paged != nil, "samples, since the topology stays on disk")
	add(p.Seeds.ByEdge != nil, "looks up seeds that are edges")
	add(ranks, "samples batches to rank rows for the device")
	add(p.Set.Disk != nil && !p.Set.IsRemote(), "reads rows from disk")
	add(p.Set.IsRemote(), "reads rows from elsewhere")
	add(o.Tuning.Carry != CarryKernels, "brings rows: carry "+o.Tuning.Carry.String())
	return work
}

// onADevice returns the CUDA device of these options.
func onADevice(d *device.Device, o *Options) plan.Processor {
	opt := oncuda.Options{Memory: o.Device.Memory, Cache: o.Device.Cache, Resident: o.Residence == Resident,
		Ranking: o.ranking(), MeasurePages: o.Tuning.HostPages == PagesMeasured,
		CarryCopies: o.Tuning.Carry == CarryCopies, CarryMeasured: o.Tuning.Carry == CarryMeasured,
		MaxBlocks: o.Tuning.DeviceBlocks}
	switch o.Tuning.HotShare {
	case ShareNone:
		opt.Share = oncuda.ShareNone
	case ShareAll:
		opt.Share = oncuda.ShareAll
	}
	return oncuda.New(d, opt)
}

// ranking is how rows are ranked that a device keeps; nil for none.
func (o *Options) ranking() *oncuda.Ranking {
	r := &oncuda.Ranking{Name: o.Device.HotRows.String(), Scores: oncuda.ByInDegree}
	switch o.Device.HotRows {
	case RankNone:
		return nil
	case RankPageRank:
		r.Scores = oncuda.ByPageRank
	case RankPresample, RankUses:
		r.Scores, r.Again = oncuda.ByPresampling, o.Device.HotRows == RankUses
	}
	return r
}

// onTheCPU returns the CPU of these options.
func onTheCPU(opt *Options) plan.Processor {
	return &oncpu.Processor{Resident: opt.Residence == Resident}
}
