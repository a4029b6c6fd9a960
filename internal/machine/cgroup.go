package machine

import (
	"io/fs"
	"path"
	"strings"
)

// memoryLimit returns the tightest memory limit among the control groups of the process and their parents, and what the
// group that has it uses, without cached files, which the kernel would give back first. Unlimited and 0 where there is
// none.
func memoryLimit(root fs.FS) (limit, used int64) {
	limit = Unlimited
	for line := range strings.Lines(text(root, "proc/self/cgroup")) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		base, maxFile, usedFile := "sys/fs/cgroup", "memory.max", "memory.current" // version 2
		if id != "0" || controllers != "" {
			if !hasWord(controllers, "memory") {
				continue
			}
			base, maxFile, usedFile = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
		}
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			here := path.Join(base, dir)
			// Version 1 writes "no limit" as the greatest multiple of a page.
			if n := number(text(root, path.Join(here, maxFile))); n > 0 && n < 1<<62 && n < limit {
				limit, used = n, number(text(root, path.Join(here, usedFile)))
				used = max(used-cachedFiles(root, here), 0)
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit, used
}

// cachedFiles returns the bytes of files in the page cache that count for a group and its children, which the kernel
// gives back before it kills. Files in memory (tmpfs) are not among them.
func cachedFiles(root fs.FS, group string) int64 {
	stat := map[string]int64{}
	for line := range strings.Lines(text(root, path.Join(group, "memory.stat"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		stat[key] = number(value)
	}
	prefix := "" // version 2 counts children everywhere, version 1 under names of their own
	if _, ok := stat["total_inactive_file"]; ok {
		prefix = "total_"
	}
	return stat[prefix+"inactive_file"] + stat[prefix+"active_file"]
}

// cpuQuota returns how many processors' time the control groups of the process give it; 0 where none limits it.
func cpuQuota(root fs.FS) float64 {
	least := 0.0
	for line := range strings.Lines(text(root, "proc/self/cgroup")) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		base, quota := "sys/fs/cgroup", func(dir string) (string, string) { // version 2
			max, period, _ := strings.Cut(text(root, path.Join(dir, "cpu.max")), " ")
			return max, period
		}
		if id != "0" || controllers != "" {
			if !hasWord(controllers, "cpu") {
				continue
			}
			base, quota = "sys/fs/cgroup/cpu", func(dir string) (string, string) {
				return text(root, path.Join(dir, "cpu.cfs_quota_us")), text(root, path.Join(dir, "cpu.cfs_period_us"))
			}
		}
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			q, p := quota(path.Join(base, dir))
			if n, period := number(q), number(p); n > 0 && period > 0 {
				if share := float64(n) / float64(period); least == 0 || share < least {
					least = share
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
