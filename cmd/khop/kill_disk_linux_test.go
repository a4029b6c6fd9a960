package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
)

// filesBelow are the names of all that is in some folders, but for what others make in shared ones meanwhile.
func filesBelow(t *testing.T, folders ...string) (list []string) {
	t.Helper()
	for _, folder := range folders {
		expect.OK(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			list = append(list, path)
			return err
		}))
	}
	return list
}

// A loader or server of columns on disk that is killed, at a moment of its own, leaves no file and no shared memory,
// whether it packs rows or not.
func TestKillingWhatReadsFromDiskLeavesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	data, scratch := small(t), t.TempDir()
	shared := sharedMemory(t)
	before := filesBelow(t, data, scratch)
	how := []string{"--batch-size", "50", "--shuffle", "--residence", "disk", "--cache-bytes", "5kB", "--lookahead",
		"20", "--pack", "1MB"}
	packs := 0
	for range 6 {
		packs += killSample(t, r.IntN(20), data, scratch, how)
	}
	s := startServer(t, append([]string{data}, how...)...)
	c := s.connect(t, consumer.Options{})
	left := 1 + r.IntN(20)
	for _, err := range c.Epoch(t.Context(), 0) {
		if left--; left == 0 {
			packs += hiddenFiles(s.Process.Pid, data)
			_ = s.Process.Kill()
		}
		if err != nil {
			break
		}
	}
	_ = s.Wait()
	after := filesBelow(t, data, scratch)
	expect.That(t, slices.Equal(before, after), "before %q, after %q", before, after)
	for _, name := range sharedMemory(t) {
		expect.That(t, slices.Contains(shared, name), "/dev/shm/%s is left", name)
	}
	if packs == 0 {
		t.Log("no temporary file was seen: the folder's disk allows none")
	}
}

// sharedMemory lists the names of shared memory of khop's. Folders there are those of other tests.
func sharedMemory(t *testing.T) (names []string) {
	t.Helper()
	list := expect.Must(os.ReadDir("/dev/shm"))(t)
	for _, e := range list {
		if !e.IsDir() && strings.Contains(e.Name(), "khop") {
			names = append(names, e.Name())
		}
	}
	return names
}

// killSample kills a "khop sample" that has made this number of batches, and returns how many files without a name it
// had.
func killSample(t *testing.T, batches int, data, scratch string, how []string) (hidden int) {
	t.Helper()
	cmd := process(t, program(t), append([]string{"sample", data, "--digest", "--epoch", "0"}, how...)...)
	cmd.Env = append(cmd.Env, "TMPDIR="+scratch)
	out := expect.Must(cmd.StdoutPipe())(t)
	expect.OK(t, cmd.Start())
	for lines := bufio.NewScanner(out); batches > 0 && lines.Scan(); {
		batches--
	}
	hidden = hiddenFiles(cmd.Process.Pid, data)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return hidden
}

// hiddenFiles counts the files without a name that a process has open in a folder.
func hiddenFiles(pid int, folder string) (n int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, folder) &&
			strings.HasSuffix(to, "(deleted)") {
			n++
		}
	}
	return n
}
