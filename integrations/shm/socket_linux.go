package shm

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
)

// socket is one end of a connection. Sending is safe from any goroutine, a message at a time; one goroutine receives.
type socket struct {
	conn *net.UnixConn
	oob  [64]byte // for received descriptors
}

// send sends a message, with a descriptor unless fd is negative.
func (s *socket) send(b []byte, fd int) error {
	var oob []byte
	if fd >= 0 {
		oob = unix.UnixRights(fd)
	}
	_, _, err := s.conn.WriteMsgUnix(b, oob, nil)
	return err
}

// trySend sends a message if there is room for it now, whatever deadline is set.
func (s *socket) trySend(b []byte) error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) }); e != nil {
		return e
	}
	return err
}

// ended reports whether nothing more can come: the other end has closed, or reading was.
func (s *socket) ended() bool {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return true
	}
	hangup := false
	err = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0) // POLLHUP comes unasked
		hangup = err == nil && n > 0
	})
	return hangup || err != nil
}

// receive returns one packet, and a descriptor or -1. io.EOF and the like where the other end is gone.
func (s *socket) receive(b []byte) (n, fd int, err error) {
	n, oobn, flags, _, err := s.conn.ReadMsgUnix(b, s.oob[:])
	if errors.Is(err, unix.ECONNRESET) { // the other end is gone, and left messages unread; what it sent before is still there
		n, oobn, flags, _, err = s.conn.ReadMsgUnix(b, s.oob[:])
	}
	fd = -1
	if oobn > 0 {
		var bad error
		if fd, bad = s.descriptor(s.oob[:oobn]); err == nil {
			err = bad
		}
	}
	if err != nil {
		closeDescriptor(fd)
		return 0, -1, err
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || n == 0 && fd >= 0 {
		closeDescriptor(fd)
		return 0, -1, fmt.Errorf("%w: a packet of more than %d bytes, or with too many descriptors", errMessage, len(b))
	}
	return n, fd, nil
}

// descriptor returns the one descriptor of a control message, and closes all where there are more.
func (s *socket) descriptor(oob []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1, fmt.Errorf("%w: %w", errMessage, err)
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err == nil {
			all = append(all, fds...)
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	for _, fd := range all {
		closeDescriptor(fd)
	}
	if len(all) > 1 {
		return -1, fmt.Errorf("%w: %d descriptors at once", errMessage, len(all))
	}
	return -1, nil
}

func closeDescriptor(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

func (s *socket) close() error { return s.conn.Close() }

// peer asks the kernel who is at the other end.
func (s *socket) peer() (uid uint32, pid int, err error) {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	var inner error
	if err := raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, 0, err
	}
	if inner != nil {
		return 0, 0, inner
	}
	return cred.Uid, int(cred.Pid), nil
}

// listen makes the socket, and its directory where there is none. remove undoes that.
func listen(path string) (l *net.UnixListener, remove func() error, err error) {
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
	undo := func() error {
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
	return l, undo, nil
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
		return nil, err
	}
	if !st.IsDir() || sys.Uid != uint32(os.Geteuid()) || st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others may enter it: the socket's directory must be yours alone (mode 0700); name one that does not exist yet, such as %s",
			dir, filepath.Join(dir, "khop", filepath.Base(path)))
	}
	// One server at a time looks for a stale socket in this directory.
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
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
		return fmt.Errorf("%s: there is a file, which is no socket: name another path", path)
	}
	c, err := net.DialTimeout("unixpacket", path, time.Second)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("%s: %w: end it, or name another path", path, ErrRunning)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%s: cannot tell whether a server listens: %w", path, err)
	}
	return os.Remove(path)
}

// dial connects to a server of the same user.
func dial(ctx context.Context, path string) (*socket, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", path)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%w: %s is the socket of a server that has ended: %w", ErrNoServer, path, err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s: %w", ErrNoServer, path, err)
	case err != nil:
		return nil, err
	}
	s := &socket{conn: c.(*net.UnixConn)}
	uid, pid, err := s.peer()
	if err == nil && uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("%w: %s: the server, process %d, runs as user %d", ErrUser, path, pid, uid)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}
