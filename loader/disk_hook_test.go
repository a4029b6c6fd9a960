package loader

import (
	"testing"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader/internal/disk"
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
