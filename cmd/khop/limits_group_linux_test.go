//go:build !race

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// group is a memory control group for one command.
type group struct {
	dir, events string
	limit       int64
	fullest     groupUse
	unwritten   int64 // the most bytes of files that the disk did not have at a time
}

// groupUse is what counts in a group.
type groupUse struct{ anonymous, files, dirty, writeback int64 }

// memoryGroup makes a group.
func memoryGroup(t *testing.T, limit int64) *group {
	t.Helper()
	base, maxFile, events := "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		base, maxFile, events = "/sys/fs/cgroup", "memory.max", "memory.events"
	}
	g := &group{dir: filepath.Join(base, fmt.Sprintf("khop-test-%d-%d", os.Getpid(), limit)), limit: limit}
	g.events = filepath.Join(g.dir, events)
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Skipf("no memory control group can be made: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(g.dir) })
	if err := os.WriteFile(filepath.Join(g.dir, maxFile), []byte(fmt.Sprint(limit)), 0o600); err != nil {
		t.Skipf("the memory of a control group cannot be limited: %v", err)
	}
	return g
}

// run runs a command in the group, and watches what it has.
func (g *group) run(t *testing.T, w *workshop, args ...string) outcome {
	t.Helper()
	end := make(chan struct{})
	var watched sync.WaitGroup
	watched.Go(func() {
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-end:
				tick.Stop()
				return
			case <-tick.C:
				g.look()
			}
		}
	})
	enter := fmt.Sprintf("echo $$ > %s/cgroup.procs && exec \"$0\" \"$@\"", g.dir)
	o := w.run(t, []string{"/bin/sh", "-c", enter, w.program}, args...)
	close(end)
	watched.Wait()
	o.group = fmt.Sprintf("killed %q, in its group %+v, unwritten %d", g.kills(), g.fullest, g.unwritten)
	return o
}

// look notes what the group has.
func (g *group) look() {
	b, _ := os.ReadFile(filepath.Join(g.dir, "memory.stat"))
	var u groupUse
	for line := range strings.Lines(string(b)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseInt(text, 10, 64)
		switch name {
		case "rss", "anon":
			u.anonymous = n
		case "cache", "file":
			u.files = n
		case "dirty", "file_dirty":
			u.dirty = n
		case "writeback", "file_writeback":
			u.writeback = n
		}
	}
	if u.anonymous+u.files > g.fullest.anonymous+g.fullest.files {
		g.fullest = u
	}
	g.unwritten = max(g.unwritten, u.dirty+u.writeback)
}

// kills returns how many processes of the group the system has killed; empty for none.
func (g *group) kills() string {
	b, _ := os.ReadFile(g.events)
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok && n != "0" {
			return n
		}
	}
	return ""
}

// judge says what is wrong with an outcome in the group; empty for nothing.
func (g *group) judge(o outcome) string {
	switch {
	case g.kills() != "":
		return "was killed"
	case g.unwritten > g.limit/8+4<<20:
		return "left much for the disk to write, which the system cannot give back"
	}
	return o.judge(g.limit)
}
