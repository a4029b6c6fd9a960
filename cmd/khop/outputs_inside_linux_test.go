//go:build !race

package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestNothingIsWrittenIntoADataset by commands that read it, nor by those that make another one.
func TestNothingIsWrittenIntoADataset(t *testing.T) {
	data, dir := small(t), t.TempDir()
	edges := filepath.Join(dir, "edges.txt")
	expect.OK(t, os.WriteFile(edges, []byte("0 1\n1 2\n"), 0o600))
	lines := []string{"train D --epochs 1 --fanouts 2,2 --trace", "bench D --batches 1 --trace", "generate sbm",
		"convert " + edges, "export D --to parquet"}
	for _, w := range writing {
		lines = append(lines, w.args)
	}
	before := slices.Sorted(maps.Keys(expect.Files(t, data)))
	for _, line := range lines {
		args := strings.Fields(line)
		for i, a := range args {
			names := map[string]string{"D": data, "S": filepath.Join(dir, "feed", "s"), "T": filepath.Join(dir, "t")}
			if name, ok := names[a]; ok {
				args[i] = name
			}
		}
		_, says, code := khop(t, append(args, filepath.Join(data, "graph", "new"))...)
		expect.That(t, code == exitFailed && strings.Contains(says, "lies in"), "khop %s: %d: %s", line, code, says)
	}
	_, says, code := khop(t, "train", data, "--epochs", "1", "--trace", filepath.Join(dir, "trace.json"))
	expect.That(t, code == exitFailed && strings.Contains(says, "--trace is of batches: there are some with --fanouts"),
		"a trace of no batches: %d: %s", code, says)
	after := slices.Sorted(maps.Keys(expect.Files(t, data)))
	expect.That(t, slices.Equal(before, after), "%q are there, of %q", after, before)
}

// TestRowsThatAFullDiskHasNoRoomForAreRefused by the name of the file, whichever kind it is.
func TestRowsThatAFullDiskHasNoRoomForAreRefused(t *testing.T) {
	data, dir := small(t), t.TempDir()
	model, full := filepath.Join(dir, "model"), filepath.Join(dir, "full")
	must(t, "train", data, "--epochs", "1", "--checkpoint", model)
	expect.OK(t, os.Mkdir(full, 0o700))
	for _, size := range []string{"size=4k", "size=8k"} {
		if err := unix.Mount("khop", full, "tmpfs", 0, size); err != nil {
			t.Skipf("no file system can be mounted: %v", err)
		}
		expect.OK(t, os.WriteFile(filepath.Join(full, "fills"), make([]byte, 4096), 0o600))
		for _, name := range []string{"x.parquet", "x.npy"} {
			_, says, code := khop(t, "embed", data, "--checkpoint", model, "--out", filepath.Join(full, name))
			expect.That(t, code == exitFailed && strings.Contains(says, filepath.Join(full, name)+": no space left") &&
				strings.Contains(says, "make room there"), "%s of %s: %d: %s", name, size, code, says)
		}
		expect.OK(t, unix.Unmount(full, 0))
	}
}
