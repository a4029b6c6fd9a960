package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// writers are commands that write, and what they begin with.
type writers struct {
	source, whole, column string
}

func newWriters(t *testing.T, r *rand.Rand) *writers {
	var text strings.Builder
	for range 20_000 {
		fmt.Fprintf(&text, "%d %d %d\n", r.IntN(3000), r.IntN(3000), r.IntN(100))
	}
	w := &writers{source: textFile(t, "edges.txt", text.String()), whole: filepath.Join(t.TempDir(), "whole.khop")}
	must(t, "convert", w.source, w.whole, "--columns", "src,dst,time")
	w.column = textFile(t, "x.npy", string(expect.NPY(make([]float32, 60_000), 3000, 20)))
	return w
}

// numWriters is how many commands there are.
const numWriters = 5

// command returns a command that writes to a target. All but "add" make it.
func (w *writers) command(i int, target string) []string {
	return [numWriters][]string{
		{"convert", w.source, target, "--columns", "src,dst,time", "--max-memory", "33MiB"},
		{"convert", w.source, target, "--symmetrise"},
		{"export", w.whole, target, "--to", "numpy"},
		{"convert", w.source, target, "--columns", "src,dst,time", "--tasks", "3"},
		{"add", target, "--column", "x=" + w.column},
	}[i]
}

// run runs a command in a folder that its files fill, and reports whether it failed. There must be nothing in the
// folder then, or after add what was there, and all of it else.
func (w *writers) run(t *testing.T, what, dir string, args []string, shell string) (failed bool) {
	t.Helper()
	target := filepath.Join(dir, "target")
	cmd := process(t, "bash", append([]string{"-c", shell + "exec \"$0\" \"$@\"", program(t)}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	_ = cmd.Run()
	left, _ := os.ReadDir(dir)
	code, added := cmd.ProcessState.ExitCode(), args[0] == "add"
	switch {
	case code == exitDone && len(left) == 1:
	case code == exitFailed && strings.Contains(stderr.String(), dir) && (len(left) == 0 || added && len(left) == 1):
		failed = true
	default:
		t.Errorf("%q %s: status %d, %s; left: %v", args, what, code, stderr.String(), left)
	}
	if args[0] == "export" || failed && !added {
		return failed
	}
	must(t, "check", target)
	if added {
		before, after := object(t, "info", w.whole, "--json"), object(t, "info", target, "--json")
		files, _ := filepath.Glob(filepath.Join(target, "nodes", "*", "*"))
		if (after["generation"] == before["generation"]) != failed || len(files) != map[bool]int{false: 1}[failed] {
			t.Errorf("%q %s: status %d, generation %v, files %v", args, what, code, after["generation"], files)
		}
	}
	return failed
}

// fullRounds returns how many rounds there are: KHOP_KILLS, with a seed of its own then.
func fullRounds(t *testing.T, rounds int) (int, *rand.Rand) {
	seed := uint64(11)
	if n, err := strconv.Atoi(os.Getenv("KHOP_KILLS")); err == nil {
		rounds, seed = n, uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rounds, rand.New(rand.NewPCG(seed, 0))
}

// TestFilesThatMayNotGrowAnyFurtherLeaveNoHalf runs commands while files are bounded to random sizes (RLIMIT_FSIZE),
// as a full disk bounds them.
func TestFilesThatMayNotGrowAnyFurtherLeaveNoHalf(t *testing.T) {
	rounds, r := fullRounds(t, 4)
	w, failed := newWriters(t, r), 0
	for round := range rounds {
		dir, limit := t.TempDir(), 0 // at first nothing can be written
		if round > 0 {
			limit = r.IntN(200)
		}
		what := fmt.Sprintf("within %d KiB a file", limit)
		if w.run(t, what, dir, w.command(round%(numWriters-1), filepath.Join(dir, "target")),
			fmt.Sprintf("ulimit -f %d && ", limit)) {
			failed++
		}
	}
	expect.That(t, failed != 0, "no command has failed")
}

// TestAFullFileSystemLeavesNoHalf runs commands on a file system (tmpfs) that has room for a random part of what they
// write. What add adds to is there before.
func TestAFullFileSystemLeavesNoHalf(t *testing.T) {
	rounds, r := fullRounds(t, numWriters)
	dir := t.TempDir()
	if err := unix.Mount("khop", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	defer func() {
		expect.OK(t, unix.Unmount(dir, unix.MNT_DETACH))
	}()
	w, failed := newWriters(t, r), 0
	ballast := filepath.Join(dir, "ballast")
	for round := range rounds {
		work := filepath.Join(dir, strconv.Itoa(round))
		target := filepath.Join(work, "target")
		args := w.command(round%numWriters, target)
		expect.OK(t, os.Mkdir(work, 0o700))
		if args[0] == "add" {
			expect.OK(t, os.CopyFS(target, os.DirFS(w.whole)))
		}
		var st unix.Statfs_t
		expect.OK(t, unix.Statfs(dir, &st))
		room := int64(r.IntN(500)) << 10
		expect.OK(t, os.WriteFile(ballast, make([]byte, int64(st.Bavail)*st.Bsize-room), 0o600))
		if w.run(t, fmt.Sprintf("with %d bytes of room", room), work, args, "") {
			failed++
		}
		expect.OK(t, errors.Join(os.Remove(ballast), os.RemoveAll(work)))
	}
	expect.That(t, failed != 0, "no command has failed")
}
