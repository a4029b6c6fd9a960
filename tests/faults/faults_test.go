//go:build !race

package faults

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// share says that one in share faults is tried, drawn by a seed of the time: KHOP_FAULTS=1 tries all. 0 tries few.
var share, _ = strconv.Atoi(os.Getenv("KHOP_FAULTS"))

// drawn reports whether a fault is tried: one in share is, or one in few.
func drawn(r *rand.Rand, few int) bool {
	if share > 0 {
		few = share
	}
	return r.IntN(few) == 0
}

// khop is the program; KHOP names one, else it is built.
var khop = os.Getenv("KHOP")

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if khop == "" {
		dir, err := os.MkdirTemp("", "khop-faults-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		khop = filepath.Join(dir, "khop")
		build := exec.Command("go", "build", "-o", khop, "../../cmd/khop")
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // no loader of libraries, whose calls would fail too
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// must ends the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		expect.OK(t, err)
	}
}

// scratch is a temporary directory in memory where there is one.
func scratch(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat(khop); err != nil { // so that go test knows a result of another program from this one's
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "khop-faults-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// program runs khop to its end.
func program(dir string, args ...string) (stdout string, err error) {
	cmd := exec.Command(khop, args...)
	cmd.Dir = dir
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	runtime.LockOSThread() // a tracer would take the end of any child of its thread for one of its own
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("khop %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// none is the id of a dataset that is not there.
const none = "none"

// whole returns the id of the dataset at path, which it reads whole, or none if there is none or an unfinished one.
func whole(path string) (string, error) {
	d, err := formats.Open(path)
	if errors.Is(err, formats.ErrIncomplete) || errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return "", err
	}
	id := d.ID()
	if err := d.Close(); err != nil {
		return "", err
	}
	report, err := formats.Check(context.Background(), path, formats.CheckOptions{Workers: 1})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(id[:]), errors.Join(report.Problems...)
}

// names lists what is in a directory.
func names(t testing.TB, dir string) string {
	t.Helper()
	var list []string
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

// edges is the text of an edge list of n nodes.
func edges(n int) string {
	var b strings.Builder
	for i := range 3 * n {
		fmt.Fprintf(&b, "%d %d\n", i%n, i*i%(n-1))
	}
	return b.String()
}
