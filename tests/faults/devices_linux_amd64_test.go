//go:build !race

package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// volume is an ext4 file system on a loop device, whose backing file lies in memory.
type volume struct {
	backing *os.File
	device  string
	dir     string // where it is mounted
}

func newVolume(t *testing.T, size int64) *volume {
	t.Helper()
	fd, err := unix.MemfdCreate("khop-faults", unix.MFD_ALLOW_SEALING)
	must(t, err)
	v := &volume{backing: os.NewFile(uintptr(fd), "disk"), dir: t.TempDir()}
	t.Cleanup(func() { v.backing.Close() })
	must(t, v.backing.Truncate(size))
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	sys(t, "mkfs.ext4", "-q", "-E", "lazy_itable_init=1", "-O", "^has_journal", path)
	v.device = strings.TrimSpace(sys(t, "losetup", "--find", "--show", path))
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", v.device).Run() })
	v.mount(t)
	t.Cleanup(func() { _ = unix.Unmount(v.dir, unix.MNT_DETACH) })
	return v
}

func (v *volume) mount(t *testing.T) {
	t.Helper()
	if err := unix.Mount(v.device, v.dir, "ext4", 0, "errors=continue"); err != nil {
		t.Skip("cannot mount a loop device here: ", err)
	}
}

// again mounts the volume anew: nothing of it is in memory then.
func (v *volume) again(t *testing.T) {
	t.Helper()
	must(t, unix.Unmount(v.dir, 0))
	v.mount(t)
}

// sys runs a program of the system; the test skips where there is none.
func sys(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Skipf("%s: %v: %s", name, err, out)
	}
	return string(out)
}

// A disk that is full, or gives EIO for what is written: the command says so and names the file, and the old dataset
// stays.
func TestADiskThatCannotBeWrittenKeepsTheOldDataset(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64 // of the volume
		fail bool
		says string
	}{
		{"full", 8 << 20, false, "not enough disk space"},
		{"failing", 128 << 20, true, "input/output error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVolume(t, c.size)
			data := filepath.Join(v.dir, "data")
			_, err := program(v.dir, "generate", "sbm", "data", "--nodes", "500")
			must(t, err)
			sys(t, "sync", "-f", v.dir)
			before, err := whole(data)
			must(t, err)
			if c.fail {
				_, err = unix.FcntlInt(v.backing.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
				must(t, err)
			}
			_, err = program(v.dir, "generate", "sbm", "data", "--nodes", "60000", "--force")
			expect.That(t, err != nil && strings.Contains(err.Error(), c.says) && strings.Contains(err.Error(), "data"),
				"got %v, want %q and the file's name", err, c.says)
			if id, err := whole(data); id != before || err != nil {
				t.Errorf("the dataset is %s, %v; it was %s", id, err, before)
			}
		})
	}
}

// A disk that gives EIO for what is read: every command that reads a dataset ends with an error that names the file.
func TestADiskThatCannotBeReadIsAnErrorThatNamesTheFile(t *testing.T) {
	v := newVolume(t, 64<<20)
	_, err := program(v.dir, "generate", "sbm", "data", "--nodes", "30000", "--features", "32")
	must(t, err)
	v.again(t)
	feature := filepath.Join(v.dir, "data/nodes/n0/feature.arrow")
	extents := sys(t, "filefrag", "-v", "-b4096", feature)
	first, blocks := int64(0), int64(0)
	for line := range strings.Lines(extents) { // "   0:        0..   767:       9216..      9983:    768:"
		var n int
		if k, _ := fmt.Sscanf(strings.NewReplacer(":", " ", "..", " ").Replace(line), "%d %d %d %d", &n, new(int64),
			&blocks, &first); k == 4 {
			break
		}
	}
	expect.Ensure(t, first != 0, "%v", extents)
	must(t, unix.Unmount(v.dir, 0))
	must(t, v.backing.Truncate((first+blocks/2)*4096)) // the column's second half is gone, and all behind it
	v.mount(t)
	for _, args := range [][]string{
		{"sample", "data", "--digest"},
		{"sample", "data", "--digest", "--residence", "disk", "--cache-bytes", "100000"},
		{"bench", "data"},
		{"check", "data"},
		{"serve", "data", "--socket", "s/s", "--epochs", "1"},
	} {
		end := func() string { return "" }
		r := trace(t, v.dir, hooks{}, func(pid int) {
			if args[0] == "serve" {
				end = consume(v.dir, pid)
			}
		}, append([]string{khop}, args...)...)
		end()
		named := strings.Contains(r.stdout+r.stderr, "data/nodes/n0/feature")
		if r.status != 1 && r.status != 130 || r.timedOut || !named {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// A disk that answers nothing for 10 s, in short runs for less: columns that are read from it are right afterwards.
func TestColumnsOnADiskThatStallsAreRight(t *testing.T) {
	stall := time.Second / 2
	if share > 0 {
		stall = 10 * time.Second
	}
	v := newVolume(t, 64<<20)
	_, err := program(v.dir, "generate", "sbm", "data", "--nodes", "30000", "--features", "32")
	must(t, err)
	want, err := program(v.dir, "sample", "data", "--digest")
	must(t, err)
	v.again(t)
	group := fmt.Sprintf("/sys/fs/cgroup/blkio/khop-faults-%d", os.Getpid())
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("no control groups of version 1 that slow a disk down: ", err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	var st unix.Stat_t
	must(t, unix.Stat(v.device, &st))
	limit := func(requests int) {
		text := fmt.Sprintf("%d:%d %d", unix.Major(st.Rdev), unix.Minor(st.Rdev), requests)
		must(t, os.WriteFile(group+"/blkio.throttle.read_iops_device", []byte(text), 0))
	}
	limit(1) // a second: the files have thousands
	c := exec.Command("sh", "-c", "echo $$ > "+group+`/tasks && exec "$0" "$@"`, khop, "sample", "data", "--digest",
		"--residence", "disk", "--cache-bytes", "100000")
	c.Dir = v.dir
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	must(t, c.Start())
	begin, ended := time.Now(), make(chan error)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("the disk did not stall: %v after %v: %s", err, time.Since(begin), errs.String())
	case <-time.After(stall):
	}
	limit(0)
	select {
	case err := <-ended:
		if err != nil || out.String() != want {
			t.Errorf("%v: %s\n%s, want %s", err, errs.String(), out.String(), want)
		}
	case <-time.After(time.Minute):
		_ = c.Process.Kill()
		t.Error("khop hangs after the disk went on")
	}
}
