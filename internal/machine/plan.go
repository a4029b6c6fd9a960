package machine

import "fmt"

// Load is what a dataset would ask of the machine. Zero sizes mean that no dataset is at hand.
type Load struct {
	TopologyBytes int64  // the graph's structure
	ColumnBytes   int64  // node and edge columns that go with the batches
	CopyKernel    string // how rows are copied, as package gather names it

	Device     string // the CUDA device that batches are made on, such as "cuda:0 (NVIDIA H200)"; empty is the CPU
	DeviceWhy  string // why it is that one, or why there is none
	DeviceNode int    // NUMA node that the device is attached to, -1 if unknown
	CopyBytes  int64  // what would be copied once at start, because it cannot be registered where it lies
}

// Choice is the path that a stage takes, and why.
type Choice struct {
	Stage string `json:"stage"`
	Path  string `json:"path"`
	Why   string `json:"why"`
}

// Plan says which path each stage of loading takes on this machine.
func (m *Machine) Plan(l Load) []Choice {
	device := Choice{"device", "cpu", l.DeviceWhy}
	if l.Device != "" {
		device.Path = l.Device
	}
	topology := Choice{"topology", "mapped file", "opening costs nothing; --resident copies it into memory once at start"}
	features := Choice{"features", "mapped file", "the page cache serves what fits in memory; --resident copies them once at start"}
	if l.TopologyBytes+l.ColumnBytes > 0 && !m.fits(l) {
		why := fmt.Sprintf("%s do not fit in the %s of memory that can be had", gb(l.TopologyBytes+l.ColumnBytes), gb(m.Room()))
		topology.Why, features.Why = why, why
	}
	batches := Choice{"batches", "4 KiB pages", "the system gives no huge pages"}
	if m.HugePages.OnRequest() {
		batches.Path = "huge pages from 2 MiB on"
		batches.Why = "transparent huge pages are on " + m.HugePages.Mode
	}
	return []Choice{device, topology, {"sampling", "stages over vectors of nodes, prefetched", fmt.Sprintf("%d threads, one batch each", m.Threads)},
		features, {"gather", l.CopyKernel, kernelWhy(l.CopyKernel)}, batches}
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

// fits reports whether the load can be copied into memory with a fifth of the room to spare; false where the room is unknown.
func (m *Machine) fits(l Load) bool {
	return l.TopologyBytes+l.ColumnBytes <= m.Room()/5*4
}

// Advise says what would make loading faster here, most useful first. It is empty where nothing is left to do.
func (m *Machine) Advise(l Load) []string {
	var advice []string
	total := l.TopologyBytes + l.ColumnBytes
	switch {
	case total == 0:
	case total <= m.CacheBytes:
		advice = append(advice, fmt.Sprintf("the dataset (%s) fits in the last-level cache: mapped files are as fast as memory", gb(total)))
	case m.fits(l) && m.HugePages.OnRequest():
		advice = append(advice, fmt.Sprintf("--resident: %s fit in memory and are far larger than the last-level cache (%s); "+
			"copied onto huge pages, rows are found without a page walk each", gb(total), gb(m.CacheBytes)))
	case m.fits(l):
		advice = append(advice, "mapped files are as good as memory here: without huge pages --resident gains nothing once the files are cached")
	case m.Room() > 0:
		advice = append(advice, fmt.Sprintf("the dataset (%s) does not fit in memory (%s can be had): keep it on a fast local disk", gb(total), gb(m.Room())))
	}
	if m.HugePages.Mode == "never" {
		advice = append(advice, "turn huge pages on: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
	}
	if m.MemoryLimit != Unlimited && m.MemoryTotal > 0 && m.MemoryLimit < m.MemoryTotal/2 {
		advice = append(advice, fmt.Sprintf("the control group may use %s of the machine's %s: cached file pages count against it too", gb(m.MemoryLimit), gb(m.MemoryTotal)))
	}
	if l.CopyBytes > 0 {
		advice = append(advice, fmt.Sprintf("%s are copied once at start for the device to address: on tmpfs or hugetlbfs they would be registered where they lie", gb(l.CopyBytes)))
	}
	if m.NUMANodes > 1 && l.Device != "" && l.DeviceNode >= 0 {
		advice = append(advice, fmt.Sprintf("%d NUMA nodes: run beside the device (numactl --cpunodebind=%d --membind=%d)", m.NUMANodes, l.DeviceNode, l.DeviceNode))
	} else if m.NUMANodes > 1 {
		advice = append(advice, fmt.Sprintf("%d NUMA nodes: run one loader a node (numactl --cpunodebind=N --membind=N)", m.NUMANodes))
	}
	return advice
}

func gb(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.1f GB (%.1f GiB)", float64(n)/1e9, float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MB (%.1f MiB)", float64(n)/1e6, float64(n)/(1<<20))
}
