package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/internal/underway"
)

// Listen makes the socket, and its directory where there is none. remove undoes that.
func Listen(path string) (l *net.UnixListener, remove func() error, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, nil, err
	}
	dir := filepath.Dir(path)
	made := true
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		made = false
	} else if err != nil {
		return nil, nil, fmt.Errorf("directory of the socket: %w", err)
	}
	left := func() {}
	if made {
		left = underway.Leaves(underway.File, dir)
	}
	undo := func() error {
		defer left()
		if made {
			if err := os.Remove(dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	if l, err = listenIn(dir, path); err != nil {
		return nil, nil, errors.Join(err, undo())
	}
	socket := underway.Leaves(underway.File, path)
	return l, func() error {
		socket()
		return undo()
	}, nil
}

func listenIn(dir, path string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	st, err := d.Stat()
	if err != nil {
		return nil, err
	}
	var sys unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &sys); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if !st.IsDir() || sys.Uid != uint32(os.Geteuid()) || st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others may enter it: the socket's directory must be yours alone (mode 0700); name "+
			"one that does not exist yet, such as %s",
			dir, filepath.Join(dir, "khop", filepath.Base(path)))
	}
	// One server at a time looks for a stale socket in this directory.
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return nil, &fs.PathError{Op: "lock", Path: dir, Err: err}
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		if len(path) > 107 {
			err = fmt.Errorf("%s: the path of a socket may have 107 bytes, this one has %d", path, len(path))
		}
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil { // nobody else could enter the directory meanwhile
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes a socket on which nobody listens. It is an error if somebody does, or if path is something else.
func removeStale(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s: this file is not a socket: name another path", path)
	}
	c, err := net.DialTimeout("unixpacket", path, time.Second)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%s: %w: end it, or name another path", path, shm.ErrRunning)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%s: cannot tell whether a server listens: %w", path, err)
	}
	return os.Remove(path)
}

// Dial connects to a server of the same user.
func Dial(ctx context.Context, path string) (*Socket, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", path)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%w: %s is the socket of a server that has ended: %w", shm.ErrNoServer, path, err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s: %w", shm.ErrNoServer, path, err)
	case err != nil:
		return nil, err
	}
	s, err := NewSocket(c.(*net.UnixConn))
	if err != nil {
		return nil, err
	}
	uid, pid, err := s.Peer()
	if err == nil && uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("%w: %s: the server, process %d, runs as user %d", shm.ErrUser, path, pid, uid)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
