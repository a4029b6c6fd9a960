package machine

import (
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/khop-gnn/khop/internal/expect"
)

func tree(files map[string]string) fstest.MapFS {
	t := fstest.MapFS{}
	for name, text := range files {
		t[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return t
}

func TestProbeReadsWhatLinuxTells(t *testing.T) {
	root := tree(map[string]string{
		"proc/sys/kernel/osrelease": "6.1.0-13-amd64\n",
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n\n" +
			"processor\t: 1\nmodel name\t: Other\n",
		"proc/meminfo": "MemTotal:       24560000 kB\nMemFree:  1 kB\n" +
			"MemAvailable:   20000000 kB\nHugePages_Total:   0\n",
		"sys/devices/system/cpu/cpu0/cache/index0/level":    "1\n",
		"sys/devices/system/cpu/cpu0/cache/index0/type":     "Data\n",
		"sys/devices/system/cpu/cpu0/cache/index0/size":     "48K\n",
		"sys/devices/system/cpu/cpu0/cache/index3/level":    "3\n",
		"sys/devices/system/cpu/cpu0/cache/index3/type":     "Unified\n",
		"sys/devices/system/cpu/cpu0/cache/index3/size":     "36M\n",
		"sys/devices/system/node/node0/cpulist":             "0-1\n",
		"sys/devices/system/node/node1/cpulist":             "2-3\n",
		"sys/kernel/mm/transparent_hugepage/enabled":        "always [madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/defrag":         "always defer defer+madvise [madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "2097152\n",
		"proc/self/cgroup":                                    "0::/a/b\n",
		"sys/fs/cgroup/a/memory.max":                          "1000000000\n",
		"sys/fs/cgroup/a/memory.current":                      "400000000\n",
		"sys/fs/cgroup/a/b/memory.max":                        "max\n",
		"sys/devices/system/cpu/cpu0/cache/index1/level":      "1\n",
		"sys/devices/system/cpu/cpu0/cache/index1/type":       "Instruction\n",
		"sys/devices/system/cpu/cpu0/cache/index1/size":       "32K\n",
		"sys/devices/system/node/possible":                    "0-1\n",
		"sys/devices/system/cpu/cpu0/cache/index3/shared_cpu": "0-7\n",
	})
	m := refresh(root, hardware(root))
	got := Machine{
		Kernel: m.Kernel, Processor: m.Processor, NUMANodes: m.NUMANodes, CacheBytes: m.CacheBytes,
		CacheAssumed: m.CacheAssumed,
		MemoryTotal:  m.MemoryTotal, MemoryAvailable: m.MemoryAvailable, MemoryLimit: m.MemoryLimit,
		MemoryInGroup: m.MemoryInGroup,
		HugePages:     m.HugePages, HugePageBytes: m.HugePageBytes,
	}
	want := Machine{
		Kernel: "6.1.0-13-amd64", Processor: "Some CPU @ 2.0GHz", NUMANodes: 2, CacheBytes: 36 << 20,
		MemoryTotal: 24560000 << 10, MemoryAvailable: 20000000 << 10, MemoryLimit: 1e9, MemoryInGroup: 4e8,
		HugePages: HugePages{"madvise", "madvise"}, HugePageBytes: 2 << 20,
	}
	expect.Same(t, got, want)
	room := m.Room()
	expect.That(t, room == 6e8, "room %d, want what the control group leaves", room)
	expect.That(t, m.Cores >= 1 && m.PageSize >= 4096 && m.OS == runtime.GOOS, "cores %d, page %d, os %s", m.Cores,
		m.PageSize, m.OS)
}

func TestProbeOfASystemThatTellsNothingLeavesUnknowns(t *testing.T) {
	root := tree(nil)
	m := refresh(root, hardware(root))
	expect.That(t,
		m.CacheBytes == DefaultCache && m.CacheAssumed && m.MemoryLimit == Unlimited && m.Room() == 0 &&
			!m.HugePages.OnRequest(), "%+v", m)
}

func TestMemoryLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files       map[string]string
		limit, used int64
	}{
		"none": {nil, Unlimited, 0},
		"version 2 in a namespace": {map[string]string{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "5000\n", "sys/fs/cgroup/memory.current": "100"}, 5000, 100},
		"version 2 outside the root": {map[string]string{"proc/self/cgroup": "0::/../x\n",
			"sys/fs/cgroup/x/memory.max": "7\n"}, 7, 0},
		"cached files do not count": {map[string]string{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "5000\n", "sys/fs/cgroup/memory.current": "1000",
			"sys/fs/cgroup/memory.stat": "anon 5\nfile 900\ninactive_file 700\nactive_file 200\n"}, 5000, 100},
		"cached files of children do not count in version 1": {map[string]string{"proc/self/cgroup": "4:memory:/d\n",
			"sys/fs/cgroup/memory/d/memory.limit_in_bytes": "5000",
			"sys/fs/cgroup/memory/d/memory.usage_in_bytes": "1000",
			"sys/fs/cgroup/memory/d/memory.stat": "cache 9\ninactive_file 1\nactive_file 2\nshmem 3\n" +
				"total_inactive_file 400\ntotal_active_file 300\n"}, 5000, 300},
		"version 1": {map[string]string{"proc/self/cgroup": "5:cpu,cpuacct:/c\n4:memory:/d\n",
			"sys/fs/cgroup/memory/d/memory.limit_in_bytes": "6000",
			"sys/fs/cgroup/memory/d/memory.usage_in_bytes": "1"}, 6000, 1},
		"version 1 without a limit": {map[string]string{"proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, Unlimited, 0},
		"a parent is tighter": {map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "10", "sys/fs/cgroup/a/b/memory.max": "20"}, 10, 0},
		"not a number": {map[string]string{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "-5"}, Unlimited, 0},
		"other controllers are others": {map[string]string{"proc/self/cgroup": "4:memory2:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "5"}, Unlimited, 0},
	} {
		if limit, used := memoryLimit(tree(c.files)); limit != c.limit || used != c.used {
			t.Errorf("%s: limit %d, used %d; want %d, %d", name, limit, used, c.limit, c.used)
		}
	}
}

func TestCPUQuota(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"none": {nil, 0},
		"version 2": {map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/cpu.max": "150000 100000\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 1.5},
		"version 2, a parent is tighter": {map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/cpu.max": "50000 100000", "sys/fs/cgroup/a/b/cpu.max": "400000 100000"}, .5},
		"version 1": {map[string]string{"proc/self/cgroup": "5:cpu,cpuacct:/c\n4:memory:/d\n",
			"sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "200000", "sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "100000"}, 2},
		"version 1 without one": {map[string]string{"proc/self/cgroup": "1:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 0},
	} {
		got := cpuQuota(tree(c.files))
		expect.That(t, got == c.want, "%s: %g, want %g", name, got, c.want)
	}
}

func TestGroupRoomLeavesWhatTheProgramTakes(t *testing.T) {
	for _, c := range []struct{ used, left, room int64 }{{8, 92, 60}, {50, 50, 25}, {80, 20, 8}, {90, 10, -2}} {
		m := Machine{MemoryLimit: 100 << 20, MemoryInGroup: c.used << 20}
		left, room, ok := m.GroupRoom()
		expect.That(t, ok && left == c.left<<20 && room == c.room<<20, "%d used: %d, %d, %t", c.used, left, room, ok)
	}
	_, room, ok := (&Machine{MemoryLimit: Unlimited}).GroupRoom()
	expect.That(t, !ok, "without a limit: %d", room)
}

func TestWorkersFollowTheQuota(t *testing.T) {
	for _, c := range []struct {
		threads int
		quota   float64
		want    int
	}{{8, 0, 8}, {8, 2, 2}, {8, 2.5, 3}, {2, 1, 1}, {2, .3, 1}, {4, 100, 4}} {
		got := workers(c.threads, c.quota)
		expect.That(t, got == c.want, "%d threads, a quota of %g: %d workers, want %d", c.threads, c.quota, got, c.want)
	}
}
