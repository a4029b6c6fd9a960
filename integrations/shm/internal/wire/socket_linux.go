package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket is one end of a connection. Sending is safe from any goroutine, a message at a time; one goroutine receives.
//
// The descriptor is not in Go's poller, which watches every socket for room to send as well and would wake for each
// message that the other end takes. The poller watches an epoll of the socket's own instead, and that one for messages
// only; and for nothing while they come fast (shortWait).
type Socket struct {
	fd     int
	use    sync.RWMutex // read-locked by who uses fd, locked to close it
	closed atomic.Bool
	sleep  *os.File // the epoll, in which who receives waits

	// The receiving goroutine's.
	watched uint32 // what the epoll watches for: EPOLLIN are messages, 0 is nothing
	header  unix.Msghdr
	part    unix.Iovec
	oob     [64]byte // for received descriptors
	habit   habit
}

// NewSocket takes a connection over from package net.
func NewSocket(c *net.UnixConn) (*Socket, error) {
	defer c.Close() // this leaves Go's poller
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var inner error
	if err := raw.Control(func(its uintptr) { fd, inner = unix.FcntlInt(its, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if inner != nil {
		return nil, os.NewSyscallError("fcntl", inner)
	}
	return OwnSocket(fd)
}

// OwnSocket makes a socket of a descriptor, which it takes.
func OwnSocket(fd int) (*Socket, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.SetNonblock(epoll, true) // so that Go's poller takes it
	}
	if err != nil {
		CloseDescriptor(epoll)
		CloseDescriptor(fd)
		return nil, os.NewSyscallError("epoll", err)
	}
	return &Socket{fd: fd, sleep: os.NewFile(uintptr(epoll), "epoll")}, nil
}

// Send sends a message, with a descriptor unless fd is negative. Where the other end does not read it waits for room:
// at most for the time given, os.ErrDeadlineExceeded then, and while this end is open for reading.
func (s *Socket) Send(b []byte, fd int, most time.Duration) error {
	s.use.RLock()
	defer s.use.RUnlock()
	var oob []byte
	if fd >= 0 {
		oob = unix.UnixRights(fd)
	}
	var end time.Time
	for !s.closed.Load() {
		err := s.put(b, oob)
		switch err {
		case nil:
			return nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
		default:
			return os.NewSyscallError("sendmsg", err)
		}
		if end.IsZero() {
			end = time.Now().Add(most)
		}
		if err := s.awaitRoom(end); err != nil {
			return err
		}
	}
	return net.ErrClosed
}

// awaitRoom sleeps until a message can be sent or a signal came; os.ErrDeadlineExceeded after end, EPIPE where nobody
// reads at this end any more.
func (s *Socket) awaitRoom(end time.Time) error {
	room := [1]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT | unix.POLLRDHUP}}
	left := unix.NsecToTimespec(max(0, int64(time.Until(end))))
	n, err := unix.Ppoll(room[:], &left, nil)
	switch {
	case err == unix.EINTR:
		return nil
	case err != nil:
		return os.NewSyscallError("ppoll", err)
	case n == 0:
		return os.ErrDeadlineExceeded
	case room[0].Revents == unix.POLLRDHUP:
		return unix.EPIPE
	}
	return nil
}

// put sends a message that there is room for; EAGAIN where there is none.
//
// Like take it calls the system without telling Go's scheduler, for it does not wait. Who wakes the other end is often
// preempted by it before the call returns. The scheduler would take that for a call that waits, give the processor
// away, and have its monitor look every 20 us for the next five milliseconds, at the cost of whoever makes batches.
func (s *Socket) put(b, oob []byte) error {
	const flags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	if oob != nil {
		_, err := unix.SendmsgN(s.fd, b, oob, nil, flags)
		return err
	}
	_, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), flags, 0, 0)
	if err != 0 {
		return err
	}
	return nil
}

// Receive returns one packet, and a descriptor or -1. Errors: os.ErrDeadlineExceeded after end, where it is not zero;
// the cause of ctx; net.ErrClosed; io.EOF and the like where the other end is gone.
func (s *Socket) Receive(ctx context.Context, end time.Time, b []byte) (n, fd int, err error) {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.closed.Load() {
		return 0, -1, net.ErrClosed
	}
	n, err = s.take(b)
	if err == unix.EAGAIN {
		n, err = s.await(ctx, end, b)
	}
	if err == unix.ECONNRESET { // the other end is gone, and left messages unread; what it sent before is still there
		n, err = s.take(b)
	}
	if err != nil {
		if s.closed.Load() {
			err = net.ErrClosed
		}
		return 0, -1, err
	}
	fd = -1
	if s.header.Controllen > 0 {
		if fd, err = s.descriptor(s.oob[:s.header.Controllen]); err != nil {
			return 0, -1, err
		}
	}
	if s.header.Flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || n == 0 && fd >= 0 {
		CloseDescriptor(fd)
		return 0, -1, fmt.Errorf("%w: a packet of more than %d bytes, or with too many descriptors", ErrMessage, len(b))
	}
	if n == 0 && s.ended() {
		return 0, -1, io.EOF
	}
	if n == 0 {
		return 0, -1, fmt.Errorf("%w: a packet of no bytes", ErrMessage)
	}
	return n, fd, nil
}

// take takes a packet that is there; EAGAIN where none is.
func (s *Socket) take(b []byte) (int, error) {
	s.part.Base = unsafe.SliceData(b)
	s.part.SetLen(len(b))
	s.header = unix.Msghdr{Iov: &s.part, Control: &s.oob[0]}
	s.header.SetIovlen(1)
	s.header.SetControllen(len(s.oob))
	for {
		n, _, err := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.header)),
			unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch err {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		}
		return 0, err
	}
}

// await waits for a packet and takes it.
func (s *Socket) await(ctx context.Context, end time.Time, b []byte) (n int, err error) {
	begin := time.Now()
	defer func() { s.habit.learn(time.Since(begin)) }()
	if s.habit.isShort() {
		if err := s.watch(0); err != nil {
			return 0, err
		}
		for waited := time.Duration(0); waited < shortWait; waited = time.Since(begin) {
			if n, err := s.take(b); err != unix.EAGAIN {
				return n, err
			}
			if waited > shortWait/10 { // the other end may be waiting for this very processor
				_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			}
		}
	}
	if err := s.watch(unix.EPOLLIN); err != nil {
		return 0, err
	}
	raw, err := s.sleep.SyscallConn()
	if err != nil {
		return 0, err
	}
	for {
		if err := s.sleep.SetReadDeadline(end); err != nil {
			return 0, err
		}
		stop := context.AfterFunc(ctx, s.wake)
		failed := raw.Read(func(uintptr) bool {
			n, err = s.take(b)
			return err != unix.EAGAIN
		})
		stop()
		switch {
		case failed == nil:
			return n, err
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case !errors.Is(failed, os.ErrDeadlineExceeded) || !end.IsZero() && !time.Now().Before(end):
			return 0, failed
		}
	}
}

// wake has who waits for a message look whether it still should.
func (s *Socket) wake() { _ = s.sleep.SetReadDeadline(time.Unix(1, 0)) }

// watch has the epoll watch for events; 0 for none.
func (s *Socket) watch(events uint32) error {
	if s.watched == events {
		return nil
	}
	do := unix.EPOLL_CTL_MOD
	switch {
	case events == 0:
		do = unix.EPOLL_CTL_DEL
	case s.watched == 0:
		do = unix.EPOLL_CTL_ADD
	}
	raw, err := s.sleep.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(epoll uintptr) {
		inner = unix.EpollCtl(int(epoll), do, s.fd, &unix.EpollEvent{Events: events})
	})
	if err = errors.Join(err, os.NewSyscallError("epoll_ctl", inner)); err == nil {
		s.watched = events
	}
	return err
}

// AwaitEnd waits until nothing more can come (Ended), or ctx ends, whose cause it returns then. Nobody may receive
// meanwhile.
func (s *Socket) AwaitEnd(ctx context.Context) error {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.closed.Load() {
		return nil
	}
	if err := s.watch(unix.EPOLLRDHUP); err != nil {
		return err
	}
	raw, err := s.sleep.SyscallConn()
	if err != nil {
		return err
	}
	if err := s.sleep.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, s.wake)
	defer stop()
	if err = raw.Read(func(uintptr) bool { return s.ended() }); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// shortWait is a wait that is better spent looking again: to fall asleep and to be woken takes about as long, of both
// ends.
const shortWait = 100 * time.Microsecond

// habit says whether to spin before sleeping: above 0 it pays to look again, where longWeight short waits come with
// each long one, or more. To look again in vain takes the processor from who makes batches.
type habit int

const (
	longWeight = 2
	mostHabit  = 32 // either way: so soon habits change
)

// learn hears of a wait.
func (h *habit) learn(d time.Duration) {
	if d < shortWait {
		*h = min(*h+1, mostHabit)
	} else {
		*h = max(*h-longWeight, -mostHabit)
	}
}

// isShort reports whether the next wait is likely to be short. On a single processor nobody answers who is not let.
func (h habit) isShort() bool { return h > 0 && runtime.NumCPU() > 1 }

// descriptor returns the one descriptor of a control message, and closes all where there are more.
func (s *Socket) descriptor(oob []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1, fmt.Errorf("%w: %w", ErrMessage, err)
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
		CloseDescriptor(fd)
	}
	if len(all) > 1 {
		return -1, fmt.Errorf("%w: %d descriptors at once", ErrMessage, len(all))
	}
	return -1, nil
}

// CloseDescriptor closes a descriptor that a message may have brought; -1 means none.
func CloseDescriptor(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// CloseRead ends receiving, after all that the other end has sent so far, and ends sends that wait for room.
func (s *Socket) CloseRead() {
	s.use.RLock()
	defer s.use.RUnlock()
	if !s.closed.Load() {
		_ = unix.Shutdown(s.fd, unix.SHUT_RD)
	}
}

// Ended reports whether nothing more can come: the other end has closed, or this one no longer reads.
func (s *Socket) Ended() bool {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.closed.Load() {
		return true
	}
	return s.ended()
}

// ended is Ended while fd is in use.
func (s *Socket) ended() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLRDHUP}}, 0) // POLLHUP comes unasked
	return err == nil && n > 0
}

// Close ends the connection, in forks too, and whatever waits.
func (s *Socket) Close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // ends who waits for room
	err := s.sleep.Close()                  // ends who waits for a message
	s.use.Lock()
	defer s.use.Unlock()
	return errors.Join(err, unix.Close(s.fd))
}

// Peer asks the kernel who is at the other end.
func (s *Socket) Peer() (uid uint32, pid int, err error) {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.closed.Load() {
		return 0, 0, net.ErrClosed
	}
	cred, err := unix.GetsockoptUcred(s.fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, 0, os.NewSyscallError("getsockopt", err)
	}
	return cred.Uid, int(cred.Pid), nil
}

// IsBroken reports whether an error says that the other end is gone.
func IsBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
}
