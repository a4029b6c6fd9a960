package paths

import (
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
)

func TestAdvice(t *testing.T) {
	roomy := machine.Machine{CacheBytes: 32 << 20, MemoryTotal: 64e9, MemoryAvailable: 60e9,
		MemoryLimit: machine.Unlimited,
		HugePages:   machine.HugePages{Mode: "madvise"}}
	large := Load{TopologyBytes: 1e9, ColumnBytes: 9e9}
	for name, c := range map[string]struct {
		change func(*machine.Machine)
		load   Load
		want   []string // one a line of advice, a part of it
	}{
		"large dataset, much memory, huge pages": {func(*machine.Machine) {}, large, []string{"--resident: 10.0 GB"}},
		"dataset within the cache": {func(*machine.Machine) {}, Load{ColumnBytes: 1e6},
			[]string{"fits in the last-level cache"}},
		"no dataset": {func(*machine.Machine) {}, Load{}, nil},
		"too little memory": {func(m *machine.Machine) { m.MemoryAvailable = 12e9 }, large,
			[]string{"does not fit in memory (12.0 GB"}},
		"memory unknown": {func(m *machine.Machine) { m.MemoryAvailable = 0 }, large, nil},
		"huge pages off": {func(m *machine.Machine) { m.HugePages.Mode = "never" }, large,
			[]string{"gains nothing", "echo madvise"}},
		"tight control group": {func(m *machine.Machine) { m.MemoryLimit = 20e9 }, large,
			[]string{"--resident", "control group may use 20.0 GB"}},
		"several NUMA nodes": {func(m *machine.Machine) { m.NUMANodes = 2 }, Load{},
			[]string{"2 NUMA nodes: run one loader a node"}},
		"several NUMA nodes and a device": {func(m *machine.Machine) { m.NUMANodes = 2 },
			Load{Device: "cuda:0", DeviceNode: 1}, []string{"--cpunodebind=1"}},
		"a device somewhere": {func(m *machine.Machine) { m.NUMANodes = 2 },
			Load{Device: "cuda:0", DeviceNode: -1}, []string{"run one loader a node"}},
		"a device that holds the dataset": {func(*machine.Machine) {}, Load{Device: "cuda:0", DeviceFree: 80e9,
			ColumnBytes: 9e9}, []string{"fits in the device's memory (80.0 GB"}},
		"a device that does not": {func(*machine.Machine) {}, Load{Device: "cuda:0", DeviceFree: 8e9, ColumnBytes: 9e9},
			nil},
		"a device, and too little host memory": {func(m *machine.Machine) { m.MemoryAvailable = 8e9 },
			Load{Device: "cuda:0", DeviceFree: 8e9, ColumnBytes: 9e9},
			[]string{"cannot be page-locked whole (8.00 GB"}},
		"files that have to be copied": {func(*machine.Machine) {}, Load{CopyBytes: 5e9},
			[]string{"5.00 GB (4.66 GiB) are copied once"}},
	} {
		m := roomy
		c.change(&m)
		got := Advise(&m, c.load)
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.Contains(got[i], c.want[i])
		}
		expect.That(t, ok, "%s: %q, want lines with %q", name, got, c.want)
	}
}

func TestPlanNamesEveryStageOnce(t *testing.T) {
	m := machine.Probe()
	seen := map[string]bool{}
	for _, c := range Plan(m, Load{CopyKernel: "avx2", DeviceWhy: "no device"}) {
		expect.That(t, c.Path != "" && c.Why != "" && !seen[c.Stage], "%+v", c)
		seen[c.Stage] = true
	}
	for _, stage := range []string{"device", "topology", "sampling", "features", "gather", "batches"} {
		expect.That(t, seen[stage], "no path for %s", stage)
	}
}

func TestPlanOnADeviceNamesEveryStageOnce(t *testing.T) {
	plan := Plan(&machine.Machine{}, Load{Device: "cuda:0 (some GPU)", DeviceWhy: "it is the first",
		HostRungs: "registered in place", DeviceFree: 8e9})
	want := (Choice{"device", "cuda:0 (some GPU)", "it is the first"})
	expect.That(t, plan[0] == want, "%+v, want %+v", plan[0], want)
	for i, stage := range []string{"device", "topology", "sampling", "features", "gather", "batches"} {
		c := plan[i]
		expect.That(t, c.Stage == stage && c.Path != "" && c.Why != "", "stage %d: %+v, want %s", i, c, stage)
	}
	c := plan[1]
	expect.That(t, strings.Contains(c.Path, "registered in place") && strings.Contains(c.Why, "8.00 GB"), "%+v", c)
}

func TestPlanSaysWhyALargeDatasetStaysMapped(t *testing.T) {
	m := machine.Machine{MemoryAvailable: 1e9, MemoryLimit: machine.Unlimited}
	for _, c := range Plan(&m, Load{ColumnBytes: 5e9}) {
		expect.That(t, c.Stage != "features" || strings.Contains(c.Why, "5.00 GB (4.66 GiB) do not fit in the 1.00 GB"),
			"%+v", c)
	}
}
