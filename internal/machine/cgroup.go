package machine

import (
	"io/fs"
	"iter"
	"path"
	"strings"
)

// groups yields the folders of the control groups of the process that have a controller, each followed by its parents,
// and whether they are of version 2.
func groups(root fs.FS, controller string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for line := range strings.Lines(text(root, "proc/self/cgroup")) {
			id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
			controllers, group, _ := strings.Cut(rest, ":")
			base, second := "sys/fs/cgroup", id == "0" && controllers == ""
			if !second {
				if !hasWord(controllers, controller) {
					continue
				}
				base = path.Join(base, controller)
			}
			for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
				if !yield(path.Join(base, dir), second) {
					return
				}
				if dir == "/" {
					break
				}
			}
		}
	}
}

// memoryLimit returns the tightest memory limit among the control groups of the process and their parents, and what the
// group that has it uses, without cached files, which the kernel would give back first. Unlimited and 0 where there is
// none.
func memoryLimit(root fs.FS) (limit, used int64) {
	limit = Unlimited
	for dir, second := range groups(root, "memory") {
		maxFile, usedFile := "memory.limit_in_bytes", "memory.usage_in_bytes"
		if second {
			maxFile, usedFile = "memory.max", "memory.current"
		}
		// Version 1 writes "no limit" as the greatest multiple of a page.
		if n := number(text(root, path.Join(dir, maxFile))); n > 0 && n < 1<<62 && n < limit {
			limit, used = n, number(text(root, path.Join(dir, usedFile)))
			used = max(used-cachedFiles(root, dir), 0)
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
	for dir, second := range groups(root, "cpu") {
		quota, period := text(root, path.Join(dir, "cpu.cfs_quota_us")), text(root, path.Join(dir, "cpu.cfs_period_us"))
		if second {
			quota, period, _ = strings.Cut(text(root, path.Join(dir, "cpu.max")), " ")
		}
		if n, p := number(quota), number(period); n > 0 && p > 0 {
			if share := float64(n) / float64(p); least == 0 || share < least {
				least = share
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
