//go:build linux || darwin

package staged

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/underway"
)

// lock waits for a file's lock, shared or not, which ends with what it returns or with the process. The file is made if
// it is not there.
func lock(ctx context.Context, name string, shared bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = flock(f, shared, unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return closedOn(f, err)
	}
	defer underway.Waits("the process that has the lock " + paths.Text(name))()
	got := make(chan error, 1)
	go func() { got <- flock(f, shared, 0) }()
	select {
	case err = <-got:
		return closedOn(f, err)
	case <-ctx.Done():
		go func() { <-got; _ = f.Close() }() // gives the lock back when it has come
		return nil, context.Cause(ctx)
	}
}

// tryLock takes a file's lock for itself alone, if nobody has it.
func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return closedOn(f, flock(f, false, unix.LOCK_NB))
}

func flock(f *os.File, shared bool, how int) error {
	if how |= unix.LOCK_EX; shared {
		how = how&^unix.LOCK_EX | unix.LOCK_SH
	}
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func closedOn(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
