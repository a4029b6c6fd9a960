package loader

import (
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/oncuda"
	"github.com/khop-gnn/khop/loader/internal/outlook"
	"github.com/khop-gnn/khop/loader/internal/plan"
)

// ReadWith lets loaders read columns on disk with other options until the test ends.
func ReadWith(t testing.TB, opt diskio.ReaderOptions) {
	had := disk.ReaderOptions
	disk.ReaderOptions = opt
	t.Cleanup(func() { disk.ReaderOptions = had })
}

// AvailableMemory makes loaders find this number of bytes of memory until the test ends.
func AvailableMemory(t testing.TB, bytes int64) {
	plan.ProbeMachine = func() *machine.Machine {
		return &machine.Machine{MemoryAvailable: bytes, MemoryLimit: machine.Unlimited}
	}
	t.Cleanup(func() { plan.ProbeMachine = machine.Probe })
}

// GroupRoom makes loaders find a control group that leaves them this number of bytes until the test ends.
func GroupRoom(t testing.TB, bytes int64) {
	own := max(machine.OwnLeast, min(machine.Own, bytes))
	plan.ProbeMachine = func() *machine.Machine {
		return &machine.Machine{MemoryLimit: 10<<20 + own + bytes, MemoryInGroup: 10 << 20}
	}
	t.Cleanup(func() { plan.ProbeMachine = machine.Probe })
}

// SimulateAbout lets outlooks simulate about this number of requests for rows until the test ends.
func SimulateAbout(t testing.TB, asks int64) {
	had := outlook.MostSimulated
	outlook.MostSimulated = asks
	t.Cleanup(func() { outlook.MostSimulated = had })
}

// ActivityIs lets loaders find another activity of the machine until the test ends.
func ActivityIs(t testing.TB, read func() machine.Activity) {
	had := readActivity
	readActivity = read
	t.Cleanup(func() { readActivity = had })
}

// TimePages lets placed sources try this number of bytes of a column until the test ends, and find these times in
// milliseconds, one after the other, after what is timed has run. before is called first; nil for nothing.
func TimePages(t testing.TB, sample int64, before func(), times ...float64) {
	hadSample, had := oncuda.PageSample, oncuda.TimePages
	oncuda.PageSample = sample
	oncuda.TimePages = func(d *device.Device, s *device.Stream, do func() error) (float64, error) {
		if before != nil {
			before()
		}
		if _, err := had(d, s, do); err != nil {
			return 0, err
		}
		took := times[0]
		times = append(times[1:], took)
		return took, nil
	}
	t.Cleanup(func() { oncuda.PageSample, oncuda.TimePages = hadSample, had })
}
