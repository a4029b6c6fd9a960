package machine

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"
)

// DefaultCache is the size that Probe assumes for the last-level cache where the system does not say: 32 MiB.
const DefaultCache = 32 << 20

// Unlimited stands for the absence of a limit.
const Unlimited = int64(1<<63 - 1)

// Line is the bytes of a line of the caches.
const Line = 64

// Machine is what Probe found. Zero and empty mean unknown.
type Machine struct {
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Kernel    string   `json:"kernel"`    // release of the operating system's kernel
	Processor string   `json:"processor"` // model name
	Features  []string `json:"features"`  // instruction sets that khop has code for, or that matter for speed
	Cores     int      `json:"cores"`     // logical processors that the process may run on
	CPUQuota  float64  `json:"cpu_quota"` // processors whose time its control groups give it, 0 if there is no quota
	Threads   int      `json:"threads"`   // threads that Go runs at a time: GOMAXPROCS, which follows the quota
	Workers   int      `json:"workers"`   // default number of goroutines that compute
	NUMANodes int      `json:"numa_nodes"`
	PageSize  int64    `json:"page_bytes"`

	CacheBytes   int64 `json:"cache_bytes"`   // last-level cache of processor 0, DefaultCache where unknown
	CacheAssumed bool  `json:"cache_assumed"` // CacheBytes is DefaultCache because the system does not tell

	MemoryTotal     int64 `json:"memory_bytes"`
	MemoryAvailable int64 `json:"memory_available_bytes"` // what the kernel says can be had without swapping
	// the tightest control-group limit, Unlimited if there is none
	MemoryLimit   int64 `json:"memory_limit_bytes"`
	MemoryInGroup int64 `json:"memory_in_group_bytes"` // what the group with that limit uses now
	LockLimit     int64 `json:"lock_limit_bytes"`      // RLIMIT_MEMLOCK, Unlimited if there is none

	HugePages     HugePages `json:"huge_pages"`
	HugePageBytes int64     `json:"huge_page_bytes"` // size of a transparent huge page
}

// HugePages says when the kernel gives transparent huge pages to anonymous memory.
type HugePages struct {
	Mode string `json:"mode"` // "always", "madvise" or "never"; empty where the system has none
	// how hard the kernel tries at once: "always", "defer", "defer+madvise", "madvise" or "never"
	Defrag string `json:"defrag"`
}

// OnRequest reports whether memory that asks for huge pages can get them.
func (h HugePages) OnRequest() bool { return h.Mode == "always" || h.Mode == "madvise" }

// Room returns the bytes that the process can still take: the available memory, or what its control group leaves if
// that is less. 0 means unknown.
func (m *Machine) Room() int64 {
	room := m.MemoryAvailable
	if m.MemoryLimit != Unlimited && m.MemoryLimit > 0 {
		room = min(room, max(m.MemoryLimit-m.MemoryInGroup, 0))
	}
	return room
}

// Own is what the program takes beside the memory that ledgers count: its data, Go's heap and stacks, buffers that do
// not grow with what is read, and 4 MiB for requests to addresses, with TLS (package ranges). Limits of the whole
// process leave room for it. OwnLeast is what it does with where garbage is collected more often.
const (
	Own      = 32 << 20
	OwnLeast = 12 << 20
)

// GroupRoom returns the bytes that the control group leaves, and those of it to be counted by ledgers, beside half of
// them for the program itself, but OwnLeast to Own; negative where not even OwnLeast is left. ok is false where no
// group limits memory.
func (m *Machine) GroupRoom() (left, room int64, ok bool) {
	if m.MemoryLimit == Unlimited || m.MemoryLimit <= 0 {
		return 0, 0, false
	}
	left = m.MemoryLimit - m.MemoryInGroup
	return left, left - min(Own, max(OwnLeast, left/2)), true
}

// GroupIsFull returns the error of a program for which GroupRoom leaves nothing; it wraps the sentinel.
func (m *Machine) GroupIsFull(sentinel error) error {
	return fmt.Errorf("%w: the control group allows %s, of which %s are in use, and the program takes %s before it "+
		"loads anything; allow more, or end others in the group", sentinel, Bytes(m.MemoryLimit),
		Bytes(m.MemoryInGroup), Bytes(OwnLeast))
}

// Workers returns the default number of goroutines that compute: as many as Go runs threads, but no more than a quota
// of processor time keeps busy. Go itself never has fewer than two.
func Workers() int { return workers(threads(), thisHardware().CPUQuota) }

func workers(threads int, quota float64) int {
	if quota > 0 {
		threads = min(threads, int(math.Ceil(quota)))
	}
	return threads
}

// Probe finds out about this machine. It does not fail.
func Probe() *Machine { return refresh(os.DirFS("/"), thisHardware()) }

var thisHardware = sync.OnceValue(func() Machine { return hardware(os.DirFS("/")) })

// hardware finds out what hardly changes while the process runs.
func hardware(root fs.FS) Machine {
	m := Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), PageSize: int64(os.Getpagesize()),
		Features: features(),
	}
	m.Kernel = text(root, "proc/sys/kernel/osrelease")
	m.Processor = processor(root)
	m.NUMANodes = numaNodes(root)
	if m.CacheBytes = lastLevelCache(root); m.CacheBytes == 0 {
		m.CacheBytes, m.CacheAssumed = DefaultCache, true
	}
	m.CPUQuota = cpuQuota(root)
	const thp = "sys/kernel/mm/transparent_hugepage/"
	m.HugePages = HugePages{chosen(text(root, thp+"enabled")), chosen(text(root, thp+"defrag"))}
	m.HugePageBytes = number(text(root, thp+"hpage_pmd_size"))
	return m
}

// refresh adds what may be another at any time.
func refresh(root fs.FS, of Machine) *Machine {
	m := &of
	m.Threads, m.LockLimit = threads(), lockLimit()
	info := Keyed(root, "proc/meminfo")
	m.MemoryTotal, m.MemoryAvailable = info["MemTotal"], info["MemAvailable"]
	m.MemoryLimit, m.MemoryInGroup = memoryLimit(root)
	m.Workers = workers(m.Threads, m.CPUQuota)
	return m
}

// text returns a small file's contents without the white space around it, or nothing.
func text(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Keyed reads lines of a file such as "MemTotal: 123 kB" as bytes; none of a file that cannot be read.
func Keyed(root fs.FS, name string) map[string]int64 {
	m := make(map[string]int64)
	for line := range strings.Lines(text(root, name)) {
		key, value, _ := strings.Cut(line, ":")
		if n, ok := strings.CutSuffix(strings.TrimSpace(value), " kB"); ok {
			m[key] = number(strings.TrimSpace(n)) << 10
		}
	}
	return m
}

// chosen returns the word in brackets of "always [madvise] never".
func chosen(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, _ = strings.Cut(s, "]")
	return s
}

func processor(root fs.FS) string {
	for line := range strings.Lines(text(root, "proc/cpuinfo")) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func numaNodes(root fs.FS) int {
	dirs, _ := fs.Glob(root, "sys/devices/system/node/node[0-9]*")
	return len(dirs)
}

// lastLevelCache returns the size of the largest cache level of processor 0 that holds data.
func lastLevelCache(root fs.FS) int64 {
	dirs, _ := fs.Glob(root, "sys/devices/system/cpu/cpu0/cache/index[0-9]*")
	level, size := int64(0), int64(0)
	for _, dir := range dirs {
		if text(root, path.Join(dir, "type")) == "Instruction" {
			continue
		}
		if l := number(text(root, path.Join(dir, "level"))); l >= level {
			level, size = l, suffixed(text(root, path.Join(dir, "size")))
		}
	}
	return size
}

// suffixed reads "32768K" or "32M" as bytes.
func suffixed(s string) int64 {
	for i, unit := range []string{"K", "M", "G"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			return number(n) << (10 * (i + 1))
		}
	}
	return number(s)
}

func features() []string {
	var f []string
	for _, x := range []struct {
		name string
		has  bool
	}{
		{"sse4.2", cpu.X86.HasSSE42}, {"avx", cpu.X86.HasAVX}, {"avx2", cpu.X86.HasAVX2}, {"bmi2", cpu.X86.HasBMI2},
		{"fma", cpu.X86.HasFMA}, {"avx512f", cpu.X86.HasAVX512F}, {"avx512bw", cpu.X86.HasAVX512BW},
		{"avx512vl", cpu.X86.HasAVX512VL},
		{"asimd", cpu.ARM64.HasASIMD}, {"sve", cpu.ARM64.HasSVE}, {"atomics", cpu.ARM64.HasATOMICS},
	} {
		if x.has {
			f = append(f, x.name)
		}
	}
	return f
}

// PCI is what the system tells about a device on the bus. Empty means unknown.
type PCI struct {
	Address  string `json:"address"`   // domain:bus:device.function
	NUMANode int    `json:"numa_node"` // of the device, -1 where the system names none
	// current speed and width, such as "32.0 GT/s PCIe x16"; a device at rest may show less
	Link string `json:"link"`
	// "off", "identity" (passed through) or how addresses are translated: "DMA", "DMA-FQ"
	IOMMU string `json:"iommu"`
}

// FindPCI returns what the system tells about the first function of a device.
func FindPCI(domain, bus, device int) PCI { return findPCI(os.DirFS("/"), domain, bus, device) }

func findPCI(root fs.FS, domain, bus, device int) PCI {
	p := PCI{Address: fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, device), NUMANode: -1}
	dir := path.Join("sys/bus/pci/devices", p.Address)
	if n, err := strconv.Atoi(text(root, path.Join(dir, "numa_node"))); err == nil && n >= 0 {
		p.NUMANode = n
	}
	speed, width := text(root, path.Join(dir, "current_link_speed")), text(root, path.Join(dir, "current_link_width"))
	if speed != "" && width != "" {
		p.Link = speed + " x" + width
	}
	p.IOMMU = text(root, path.Join(dir, "iommu_group/type"))
	if _, err := fs.Stat(root, dir); err == nil && p.IOMMU == "" {
		p.IOMMU = "off"
	}
	return p
}
