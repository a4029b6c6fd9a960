//go:build libkhop && cgo

package libkhop

/*
#include "khop.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm/server"
)

// Loader is what OpenLoader makes: a server.Inside, with what it reads.
type Loader interface {
	Put(message []byte) error
	Take(room []byte) (int, error)
	Segment(number uint32) (*server.Segment, error)
	Close() error
}

// OpenLoader makes a loader of the arguments of "khop serve". The command sets it.
var OpenLoader func(ctx context.Context, rank int, args []string, stderr io.Writer, wake func()) (Loader, error)

// loader is a loader that is being opened, or is open.
type loader struct {
	cancel context.CancelFunc
	bell   bell
	opened chan struct{} // closed when inside and err are set
	inside Loader
	err    error
}

// bell is an eventfd, which is readable from when it is rung until it is still.
type bell struct {
	mu sync.RWMutex // read-locked by who uses fd
	fd int          // -1 when closed
}

func (b *bell) ring() { b.use(unix.SYS_WRITE, [8]byte{1}) }

func (b *bell) still() { b.use(unix.SYS_READ, [8]byte{}) }

// use reads or writes, without telling Go's scheduler: it does not wait.
func (b *bell) use(call uintptr, number [8]byte) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.fd >= 0 {
		_, _, _ = unix.RawSyscall(call, uintptr(b.fd), uintptr(unsafe.Pointer(&number)), 8)
	}
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = unix.Close(b.fd)
	b.fd = -1
}

// newLoader begins to open one.
func newLoader(rank int, args []string, stderr io.Writer) (*loader, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	l := &loader{bell: bell{fd: fd}, opened: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() {
		defer l.bell.ring()
		defer close(l.opened)
		defer func() {
			if p := recover(); p != nil {
				l.err = fmt.Errorf("internal error: %v. This is a bug; please report it", p)
			}
		}()
		l.inside, l.err = OpenLoader(ctx, rank, args, stderr, l.bell.ring)
	}()
	return l, nil
}

// open returns the loader when it is open, and errAgain before.
func (l *loader) open() (Loader, error) {
	select {
	case <-l.opened:
		return l.inside, l.err
	default:
		return nil, errAgain
	}
}

// take takes the next message. Where there is none the bell is still, and rings when there is one.
func (l *loader) take(in Loader, room []byte) (int, error) {
	n, err := in.Take(room)
	if n > 0 || err != nil {
		return n, err
	}
	l.bell.still()
	if n, err = in.Take(room); n == 0 && err == nil { // it came meanwhile, or the bell will ring
		err = errAgain
	}
	return n, err
}

func (l *loader) Close() error {
	l.cancel()
	<-l.opened
	defer l.bell.close()
	if l.inside == nil {
		return nil
	}
	return l.inside.Close()
}

//export khop_loader_open
func khop_loader_open(arguments **C.char, count, rank, quiet C.int32_t, to *C.khop_handle, bell *C.int32_t,
	e *C.khop_error) C.int32_t {
	return call(e, func() error {
		var args []string
		for _, a := range unsafe.Slice(arguments, count) {
			args = append(args, C.GoString(a))
		}
		stderr := io.Writer(os.Stderr)
		if quiet != 0 {
			stderr = io.Discard
		}
		l, err := newLoader(int(rank), args, stderr)
		if err == nil {
			*to, *bell = open(l), C.int32_t(l.bell.fd)
		}
		return err
	})
}

//export khop_loader_ready
func khop_loader_ready(h C.khop_handle, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		l, err := thing[*loader](h)
		if err == nil {
			l.bell.still()
			_, err = l.open()
		}
		return err
	})
}

// opened returns the loader of a handle, once it is open.
func opened(h C.khop_handle) (l *loader, in Loader, err error) {
	if l, err = thing[*loader](h); err == nil {
		in, err = l.open()
	}
	return l, in, err
}

//export khop_loader_exchange
func khop_loader_exchange(h C.khop_handle, message unsafe.Pointer, size C.uint32_t, room unsafe.Pointer,
	length *C.uint32_t, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		l, in, err := opened(h)
		if err != nil {
			return err
		}
		if size > 0 { // after the end it says nothing new: what was sent before, which is taken next, says why
			_ = in.Put(unsafe.Slice((*byte)(message), size))
		}
		if room == nil {
			return nil
		}
		n, err := l.take(in, unsafe.Slice((*byte)(room), C.KHOP_MESSAGE))
		if errors.Is(err, io.EOF) {
			n, err = 0, nil
		}
		*length = C.uint32_t(n)
		return err
	})
}

//export khop_loader_segment
func khop_loader_segment(h C.khop_handle, number C.uint32_t, to *C.khop_handle, address *C.uint64_t,
	size *C.uint64_t, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		_, in, err := opened(h)
		if err != nil {
			return err
		}
		s, err := in.Segment(uint32(number))
		if err == nil {
			*to, *address, *size = open(s), C.uint64_t(s.Address()), C.uint64_t(len(s.Data))
		}
		return err
	})
}
