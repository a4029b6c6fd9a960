package machine

import (
	"io/fs"
	"path"
	"strings"
)

// memoryLimit returns the tightest memory limit among the control groups of the process and their parents, and what the
// group that has it uses, without file pages that the kernel would give back first. Unlimited and 0 where there is
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
				used = max(used-inactiveFile(root, here), 0)
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit, used
}

// inactiveFile returns the bytes of cached files that a group has not used lately.
func inactiveFile(root fs.FS, group string) int64 {
	for line := range strings.Lines(text(root, path.Join(group, "memory.stat"))) {
		if n, ok := strings.CutPrefix(line, "inactive_file "); ok {
			return number(strings.TrimSpace(n))
		}
	}
	return 0
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
