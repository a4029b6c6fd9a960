package loader

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader/internal/oncpu"
	"github.com/khop-gnn/khop/loader/internal/oncuda"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/sampling"
)

// choice is where batches are made, by how many workers, and in how much memory.
type choice struct {
	on         plan.Processor
	workers    int
	anyWorkers bool  // the number is the default
	maxMemory  int64 // 0 for no limit
	room       int64 // what the control group leaves; 0 where none limits memory
	free       int64 // what the machine has room for
}

// choose settles on where batches are made, by Options.Device.Name. The caller closes the processor.
func choose(a *asked) (c choice, err error) {
	log := a.Hooks.log()
	c = choice{workers: a.Workers, anyWorkers: a.anyWorkers}
	m := plan.ProbeMachine()
	c.free = m.Room()
	if c.maxMemory, c.room, err = groupRoom(m, a.MaxMemory, log); err != nil {
		return c, err
	}
	if c.on, err = openProcessor(a, log); err == nil && c.anyWorkers {
		c.workers = c.on.DefaultWorkers()
	}
	return c, err
}

// groupRoom returns the most memory for loaders, which is not above what the control group leaves, and how much that
// is; 0 where none limits memory.
func groupRoom(m *machine.Machine, most int64, log *slog.Logger) (int64, int64, error) {
	_, room, ok := m.GroupRoom()
	switch {
	case !ok:
		return most, 0, nil
	case room <= 0:
		return most, 0, m.GroupIsFull(ErrMemory)
	case most > room:
		log.Warn("MaxMemory is lowered to what the control group leaves", "max_memory", most, "room", room)
		most = room
	}
	return most, room, nil
}

// ChooseDevice returns where a loader with these options makes batches, as a name for Options.Device.Name, and why.
// "auto" becomes the first device that can make them, else the CPU; any other name stays as it is, even if there is no
// such device.
func ChooseDevice(opt Options) (name, why string) {
	if name = opt.EnsureDefaults().Device.Name; name != "auto" {
		return name, "it was asked for"
	}
	on, why := autoProcessor(&asked{Options: opt})
	name = on.String()
	if err := on.Close(); err != nil {
		return "cpu", fmt.Sprintf("%s cannot be used: %v", name, err)
	}
	return name, why
}

// openProcessor opens what makes the batches.
func openProcessor(a *asked, log *slog.Logger) (plan.Processor, error) {
	name := a.Device.Name
	if name == "auto" {
		on, why := autoProcessor(a)
		log.Info("device chosen", "device", on.String(), "why", why)
		return on, nil
	}
	ordinal, err := ParseDevice(name)
	switch {
	case err != nil:
		return nil, err
	case ordinal < 0:
		return onTheCPU(a.Residence), nil
	}
	if err := refusedByDevice(a.Sampler, a.Columns.Prepare); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; take \"cpu\"", ErrDevice, name, err)
	}
	if ordinal >= device.Count() {
		return nil, noDevice(name)
	}
	d, err := device.Open(ordinal)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDevice, name, err)
	}
	return onADevice(d, a), nil
}

// autoProcessor returns the first device that can make the batches, else the CPU, and says why.
func autoProcessor(a *asked) (on plan.Processor, why string) {
	if err := refusedByDevice(a.Sampler, a.Columns.Prepare); err != nil {
		return onTheCPU(a.Residence), strings.TrimPrefix(err.Error(), sampling.ErrOptions.Error()+": ")
	}
	if device.Count() == 0 {
		return onTheCPU(a.Residence), "no CUDA device: " + device.Reason()
	}
	d, err := device.Open(0)
	if err != nil {
		return onTheCPU(a.Residence), fmt.Sprintf("cuda:0 cannot be used: %v", err)
	}
	return onADevice(d, a), "the first CUDA device"
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
	return -1, refuse("Device.Name", " %q: must be auto, cpu, cuda or cuda:N", name)
}

func noDevice(name string) error {
	if n := device.Count(); n > 0 {
		return fmt.Errorf("%w: %s: found %d CUDA device(s), cuda:0 the first", ErrDevice, name, n)
	}
	return fmt.Errorf("%w: %s: no CUDA device: %s; take \"cpu\" or \"auto\"", ErrDevice, name, device.Reason())
}

// refusedByDevice says what devices cannot do; nil for nothing.
func refusedByDevice(sampler sampling.Sampler, what Preparation) error {
	if what != 0 {
		return errors.New("a device prepares no blocks (Prepare)")
	}
	return oncuda.Refuses(sampler)
}

// hostWork says what the host does of batches that a device makes; nothing on the CPU.
func (l *Loader) hostWork() (work []string) {
	placed, p := l.placed.asked, l.plan
	hot, carry := placed.Device.HotRows, placed.Tuning.Carry
	if p.On.String() == "cpu" {
		return nil
	}
	add := func(does bool, what string) {
		if does {
			work = append(work, what)
		}
	}
	add(p.Paged != nil, "samples, since the topology stays on disk")
	add(p.Seeds.ByEdge != nil, "looks up seeds that are edges")
	add(hot == RankPresample || hot == RankUses, "samples batches to rank rows for the device")
	add(p.Set.Disk != nil && !p.Set.IsRemote(), "reads rows from disk")
	add(p.Set.IsRemote(), "reads rows from elsewhere")
	add(carry != CarryKernels, "brings rows: carry "+carry.String())
	return work
}

// onADevice returns a CUDA device with these options.
func onADevice(d *device.Device, a *asked) plan.Processor {
	opt := oncuda.Options{Memory: a.Device.Memory, Cache: a.Device.Cache, Resident: a.Residence == Resident,
		Ranking: a.Device.HotRows.scores(), MeasurePages: a.Tuning.HostPages == PagesMeasured,
		CarryCopies: a.Tuning.Carry == CarryCopies, CarryMeasured: a.Tuning.Carry == CarryMeasured,
		MaxBlocks: a.Tuning.DeviceBlocks}
	switch a.Tuning.HotShare {
	case ShareNone:
		opt.Share = oncuda.ShareNone
	case ShareAll:
		opt.Share = oncuda.ShareAll
	}
	return oncuda.New(d, opt)
}

// scores is how rows are ranked that a device keeps; nil for none.
func (r Ranking) scores() *oncuda.Ranking {
	of := &oncuda.Ranking{Name: r.String(), Scores: oncuda.ByInDegree}
	switch r {
	case RankNone:
		return nil
	case RankPageRank:
		of.Scores = oncuda.ByPageRank
	case RankPresample, RankUses:
		of.Scores, of.Again = oncuda.ByPresampling, r == RankUses
	}
	return of
}

// onTheCPU returns the CPU.
func onTheCPU(r Residence) plan.Processor { return &oncpu.Processor{Resident: r == Resident} }
