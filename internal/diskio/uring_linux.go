package diskio

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is io_uring: requests and their results go through memory that the kernel shares, so a system call serves many.
// See io_uring_setup(2), io_uring_enter(2) and io_uring_register(2), whose structures these are.
type ring struct {
	fd              int
	sq, cq, entries []byte // mapped

	sqTail, sqArray *uint32
	sqMask          uint32
	cqHead, cqTail  *uint32
	cqMask          uint32
	cqes            uintptr

	requests []request // [buffer] under way
	free     []int     // buffers
	fixed    struct{ buffers, files bool }
}

type ringOffsets struct {
	head, tail, mask, entries, a, b, c, d uint32 // a and b: flags and dropped, or overflow and cqes; c: the array
	userAddr                              uint64
}

type ringParams struct {
	sqEntries, cqEntries, flags, cpu, idle, features, wq uint32
	_                                                    [3]uint32
	sq, cq                                               ringOffsets
}

type ringEntry struct { // struct io_uring_sqe
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	offset, addr  uint64
	bytes, rw     uint32
	user          uint64
	buffer        uint16
	_             [22]byte
}

type ringResult struct { // struct io_uring_cqe
	user   uint64
	result int32
	flags  uint32
}

const (
	ringOffSQ, ringOffCQ, ringOffEntries = 0, 0x8000000, 0x10000000
	ringRead, ringReadFixed              = 22, 4
	ringFixedFile                        = 1 << 0
	ringGetEvents                        = 1 << 0
	ringClamp                            = 1 << 4
	ringRegisterBuffers                  = 0
	ringRegisterFiles                    = 2
)

// newRing sets up a ring of the reader's depth. Its error says why the system refuses.
func newRing(r *Reader) (engine, error) {
	e := &ring{fd: -1}
	p := ringParams{flags: ringClamp}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(r.opt.Depth), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("the system refuses io_uring: %w", errno)
	}
	e.fd = int(fd)
	unix.CloseOnExec(e.fd)
	if err := e.share(&p); err != nil {
		return nil, errors.Join(fmt.Errorf("the rings of io_uring cannot be mapped: %w", err), e.close())
	}
	if _, errno := e.enter(0, 0); errno != 0 { // a filter of system calls may refuse this one alone
		return nil, errors.Join(fmt.Errorf("the system refuses io_uring_enter: %w", errno), e.close())
	}
	if int(p.sqEntries) < r.opt.Depth {
		return nil, errors.Join(fmt.Errorf("io_uring has %d entries only", p.sqEntries), e.close())
	}
	e.requests = make([]request, r.opt.Depth)
	for i := range r.opt.Depth {
		e.free = append(e.free, i)
	}
	e.register(r)
	return e, nil
}

// share maps the rings.
func (e *ring) share(p *ringParams) (err error) {
	mapped := func(offset int64, n uint32) (b []byte) {
		if err == nil {
			b, err = unix.Mmap(e.fd, offset, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
		}
		return b
	}
	sqArray, cqes := p.sq.c, p.cq.b
	e.sq = mapped(ringOffSQ, sqArray+p.sqEntries*4)
	e.cq = mapped(ringOffCQ, cqes+p.cqEntries*uint32(unsafe.Sizeof(ringResult{})))
	e.entries = mapped(ringOffEntries, p.sqEntries*uint32(unsafe.Sizeof(ringEntry{})))
	if err != nil {
		return err
	}
	word := func(b []byte, at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b[at])) }
	e.sqTail, e.sqArray, e.sqMask = word(e.sq, p.sq.tail), word(e.sq, sqArray), *word(e.sq, p.sq.mask)
	e.cqHead, e.cqTail, e.cqMask = word(e.cq, p.cq.head), word(e.cq, p.cq.tail), *word(e.cq, p.cq.mask)
	e.cqes = uintptr(cqes)
	return nil
}

// register lets the kernel look up files and buffers once, in place of at each request. It is only faster: a limit on
// locked memory may refuse it.
func (e *ring) register(r *Reader) {
	call := func(op uintptr, at unsafe.Pointer, n int) bool {
		_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(e.fd), op, uintptr(at), uintptr(n), 0, 0)
		return errno == 0
	}
	if len(r.files) == 0 {
		return
	}
	var files []int32
	for _, f := range r.files {
		files = append(files, int32(f.file.Fd()))
	}
	e.fixed.files = call(ringRegisterFiles, unsafe.Pointer(&files[0]), len(files))
	vectors := make([]unix.Iovec, r.opt.Depth)
	for i := range vectors {
		b := r.buffer(i)
		vectors[i].Base = &b[0]
		vectors[i].SetLen(len(b))
	}
	e.fixed.buffers = call(ringRegisterBuffers, unsafe.Pointer(&vectors[0]), len(vectors))
	runtime.KeepAlive(files)
	runtime.KeepAlive(vectors)
}

func (e *ring) close() error {
	var errs []error
	for _, b := range [][]byte{e.sq, e.cq, e.entries} {
		if b != nil {
			errs = append(errs, unix.Munmap(b))
		}
	}
	return errors.Join(append(errs, unix.Close(e.fd))...)
}

// enter begins a number of requests of the ring, and waits until end of them have ended.
func (e *ring) enter(begin, end int) (begun int, errno unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(e.fd), uintptr(begin), uintptr(end), ringGetEvents, 0,
		0)
	return int(n), errno
}

// submit puts the request of buffer i into the ring; enter begins it.
func (e *ring) submit(i int) {
	q := &e.requests[i]
	tail := *e.sqTail
	at := tail & e.sqMask
	s := (*ringEntry)(unsafe.Pointer(&e.entries[uintptr(at)*unsafe.Sizeof(ringEntry{})]))
	*s = ringEntry{opcode: ringRead, fd: int32(q.of.file.file.Fd()), offset: uint64(q.extent.offset) + uint64(q.got),
		addr: uint64(uintptr(unsafe.Pointer(&q.buf[q.got]))), bytes: uint32(q.extent.bytes) - uint32(q.got),
		user: uint64(i)}
	if e.fixed.files && q.of.file.index != notRegistered {
		s.fd, s.flags = int32(q.of.file.index), ringFixedFile
	}
	if e.fixed.buffers {
		s.opcode, s.buffer = ringReadFixed, uint16(i)
	}
	*(*uint32)(unsafe.Add(unsafe.Pointer(e.sqArray), 4*uintptr(at))) = at
	atomic.StoreUint32(e.sqTail, tail+1)
}

// run implements engine.
func (e *ring) run(r *Reader) {
	begun := 0 // requests in the ring that the kernel has not taken
	for {
		for len(e.free) > 0 {
			q, ok := e.take(r, len(e.free) == len(e.requests))
			if !ok {
				break
			}
			i := e.free[len(e.free)-1]
			e.free = e.free[:len(e.free)-1]
			q.buf = r.buffer(i)
			e.requests[i] = q
			e.submit(i)
			begun++
		}
		if len(e.free) == len(e.requests) { // the reader is closed
			return
		}
		n, errno := e.enter(begun, 1)
		switch errno {
		case 0:
			begun -= n
		case unix.EINTR, unix.EAGAIN, unix.EBUSY:
		default:
			e.fail(r, fmt.Errorf("io_uring_enter: %w", errno))
			return
		}
		begun += e.reap(r)
	}
}

// fail ends the reader where the kernel takes no more requests. Those under way may still write to their buffers.
func (e *ring) fail(r *Reader, err error) {
	for i := range e.requests {
		if e.requests[i].of != nil {
			r.complete(&e.requests[i], 0, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = err
	for _, t := range r.queue {
		t.finish(err)
	}
	r.queue = nil
}

// take returns the next request, and waits for one if none is under way.
func (e *ring) take(r *Reader, idle bool) (request, bool) {
	if idle {
		return r.wait()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pop()
}

// reap takes the results that are there, and returns how many requests it put into the ring again.
func (e *ring) reap(r *Reader) (again int) {
	head := *e.cqHead
	for ; head != atomic.LoadUint32(e.cqTail); head++ {
		c := *(*ringResult)(unsafe.Pointer(&e.cq[e.cqes+uintptr(head&e.cqMask)*unsafe.Sizeof(ringResult{})]))
		atomic.StoreUint32(e.cqHead, head+1)
		i := int(c.user)
		n, err := int(c.result), error(nil)
		switch errno := unix.Errno(-c.result); {
		case c.result >= 0:
		case errno == unix.EINTR || errno == unix.EAGAIN:
			e.submit(i)
			again++
			continue
		default:
			n, err = 0, errno
		}
		if r.complete(&e.requests[i], n, err) {
			e.submit(i)
			again++
			continue
		}
		e.requests[i] = request{}
		e.free = append(e.free, i)
	}
	return again
}
