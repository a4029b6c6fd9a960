package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

func init() { smallDisk = mountSmall }

// mountSmall mounts a file system of some megabytes, where that is allowed, which has little room for a task now and
// then.
func mountSmall(t *testing.T) (dir string) {
	dir = t.TempDir()
	if err := unix.Mount("khop", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Logf("no disk is full: no file system can be mounted: %v", err)
		return dir
	}
	t.Cleanup(func() { expect.OK(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	faults["full"] = func(d *drawnTasks, task string) {
		ballast := filepath.Join(dir, "ballast")
		var st unix.Statfs_t
		expect.OK(t, unix.Statfs(dir, &st))
		room := int64(d.r.IntN(1 << uint(d.r.IntN(9)))) // of pages: often few
		f := expect.Must(os.Create(ballast))(t)
		size := max(int64(st.Bfree)-room, 0) * st.Bsize
		expect.OK(t, unix.Fallocate(int(f.Fd()), 0, 0, max(size, 1)), f.Close())
		_, err := RunTask(context.Background(), task, Options{})
		expect.That(t, err == nil || errors.Is(err, formats.ErrSpace) || errors.Is(err, syscall.ENOSPC),
			"%s on a disk with room for %d pages: %v", task, room, err)
		if err != nil {
			d.full++
		}
		expect.OK(t, os.Remove(ballast))
		d.must(task)
	}
	t.Cleanup(func() { delete(faults, "full") })
	return dir
}
