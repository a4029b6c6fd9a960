// Package paths says which path each stage of loading takes on a machine, and what would make it faster: what khop
// doctor prints.
package paths

import (
	"fmt"

	"github.com/khop-gnn/khop/internal/machine"
)

// Load says what a dataset needs of the machine. Zero sizes mean that there is no dataset.
type Load struct {
	TopologyBytes int64  // the graph's structure
	ColumnBytes   int64  // node and edge columns that go with the batches
	CopyKernel    string // how rows are copied, as package gather names it

	Device     string // the CUDA device that batches are made on, such as "cuda:0 (NVIDIA H200)"; empty is the CPU
	DeviceWhy  string // why it is that one, or why there is none
	DeviceNode int    // NUMA node that the device is attached to, -1 if unknown
	DeviceFree int64  // device memory that is free
	HostRungs  string // how the device addresses what stays in host memory, such as "registered in place"
	CopyBytes  int64  // what would be copied once at start, because it cannot be registered where it lies
}

// Choice is the path of a stage, and the reason.
type Choice struct {
	Stage string `json:"stage"`
	Path  string `json:"path"`
	Why   string `json:"why"`
}

// Plan says which path each stage of loading takes on this machine.
func Plan(m *machine.Machine, l Load) []Choice {
	if l.Device != "" {
		return devicePlan(l)
	}
	topology := Choice{"topology", "mapped file",
		"opening costs nothing; --resident copies it into memory once at start"}
	features := Choice{"features", "mapped file",
		"the page cache serves what fits in memory; --resident copies them once at start"}
	if l.TopologyBytes+l.ColumnBytes > 0 && !fits(m, l) {
		why := fmt.Sprintf("%s do not fit in the %s of memory that can be had",
			machine.Bytes(l.TopologyBytes+l.ColumnBytes), machine.Bytes(m.Room()))
		topology.Why, features.Why = why, why
	}
	batches := Choice{"batches", "4 KiB pages", "the system gives no huge pages"}
	if m.HugePages.OnRequest() {
		batches.Path = "huge pages from 2 MiB on"
		batches.Why = "transparent huge pages are on " + m.HugePages.Mode
	}
	return []Choice{{"device", "cpu", l.DeviceWhy}, topology, {"sampling", "stages over vectors of nodes, prefetched",
		fmt.Sprintf("%d threads, one batch each", m.Workers)},
		features, {"gather", l.CopyKernel, kernelWhy(l.CopyKernel)}, batches}
}

// devicePlan is Plan where batches are made on a device.
func devicePlan(l Load) []Choice {
	data := Choice{"", "device memory or host memory",
		"device memory while it lasts, then host memory that the device addresses; name a dataset to see how"}
	if l.HostRungs != "" {
		data.Path = "device memory, else " + l.HostRungs
		data.Why = fmt.Sprintf("device memory while it lasts (%s are free), then host memory over the bus",
			machine.Bytes(l.DeviceFree))
	}
	topology, features := data, data
	topology.Stage, features.Stage = "topology", "features"
	return []Choice{{"device", l.Device, l.DeviceWhy}, topology, {"sampling", "CUDA kernels",
		"the host waits once a batch, for its sizes"},
		features, {"gather", "CUDA kernels", "rows are read where they lie"},
		{"batches", "device memory", "where they are made"}}
}

func kernelWhy(kernel string) string {
	switch kernel {
	case "plain":
		return "neither assembly nor prefetching is built in for this processor"
	case "prefetched":
		return "Go's own copy, with rows prefetched ahead: no vector code is built in for this processor"
	default:
		return "the widest vectors that this processor has, with rows prefetched ahead"
	}
}

// fits reports whether the load can be copied into memory with a fifth of the room to spare; false where the room is
// unknown.
func fits(m *machine.Machine, l Load) bool {
	return l.TopologyBytes+l.ColumnBytes <= m.Room()/5*4
}

// fitsDevice reports whether a device holds the load with a tenth of what is free to spare.
func (l *Load) fitsDevice() bool {
	return l.Device != "" && l.TopologyBytes+l.ColumnBytes <= l.DeviceFree/10*9
}

// Advise says what would make loading faster here, the most useful first. It is empty where nothing would.
func Advise(m *machine.Machine, l Load) []string {
	advice := adviseData(m, l)
	add := func(format string, args ...any) { advice = append(advice, fmt.Sprintf(format, args...)) }
	if m.HugePages.Mode == "never" {
		add("turn huge pages on: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
	}
	if m.MemoryLimit != machine.Unlimited && m.MemoryTotal > 0 && m.MemoryLimit < m.MemoryTotal/2 {
		add("the control group may use %s of the machine's %s: cached file pages count against it too",
			machine.Bytes(m.MemoryLimit), machine.Bytes(m.MemoryTotal))
	}
	if l.CopyBytes > 0 && !l.fitsDevice() {
		add("%s are copied once at start for the device to address: on tmpfs or hugetlbfs they would be registered "+
			"where they lie", machine.Bytes(l.CopyBytes))
	}
	if m.NUMANodes > 1 && l.Device != "" && l.DeviceNode >= 0 {
		add("%d NUMA nodes: run beside the device (numactl --cpunodebind=%d --membind=%[2]d)", m.NUMANodes,
			l.DeviceNode)
	} else if m.NUMANodes > 1 {
		add("%d NUMA nodes: run one loader a node (numactl --cpunodebind=N --membind=N)", m.NUMANodes)
	}
	return advice
}

// adviseData says what suits the dataset, if one is at hand.
func adviseData(m *machine.Machine, l Load) []string {
	total := l.TopologyBytes + l.ColumnBytes
	switch {
	case total == 0:
	case l.fitsDevice():
		return []string{fmt.Sprintf("the dataset (%s) fits in the device's memory (%s are free)", machine.Bytes(total),
			machine.Bytes(l.DeviceFree))}
	case l.Device != "" && m.Room() > 0 && !fits(m, l):
		return []string{fmt.Sprintf("the dataset (%s) cannot be page-locked whole (%s can be had)",
			machine.Bytes(total), machine.Bytes(m.Room()))}
	case l.Device != "":
	case total <= m.CacheBytes:
		return []string{fmt.Sprintf("the dataset (%s) fits in the last-level cache: mapped files are as fast as "+
			"memory", machine.Bytes(total))}
	case fits(m, l) && m.HugePages.OnRequest():
		return []string{fmt.Sprintf("--resident: %s fit in memory and not in the last-level cache (%s); "+
			"copied onto huge pages, rows are found without a page walk each", machine.Bytes(total),
			machine.Bytes(m.CacheBytes))}
	case fits(m, l):
		return []string{"mapped files are as good as memory here: without huge pages --resident gains nothing once " +
			"the files are cached"}
	case m.Room() > 0:
		return []string{fmt.Sprintf("the dataset (%s) does not fit in memory (%s can be had): keep it on a fast local "+
			"disk", machine.Bytes(total), machine.Bytes(m.Room()))}
	}
	return nil
}
