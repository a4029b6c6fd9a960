//go:build libkhop && cgo

package libkhop

/*
#define KHOP_OF_GO
#include "feed.h"
*/
import "C"

import (
	"context"
	"errors"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/shm/server"
)

// Loader is what OpenLoader makes: a server.Inside, with what it reads.
type Loader interface {
	Segment(number uint32) (data []byte, of io.Closer, err error)
	Close() error
}

// OpenLoader makes a loader of a configuration (khop.h, khop_loader_open), which reads a dataset in memory unless that
// is nil. The text of its errors is an object of JSON. The command sets it.
var OpenLoader func(ctx context.Context, config string, memory *formats.Dataset, stderr io.Writer,
	w server.Within) (Loader, error)

// Mail and khop_post are the same memory.
const (
	_ = uint(unsafe.Sizeof(server.Mail{}) - 2*C.sizeof_struct_khop_post)
	_ = uint(2*C.sizeof_struct_khop_post - unsafe.Sizeof(server.Mail{}))
	_ = uint(server.PostBytes - C.KHOP_POST)
	_ = uint(C.KHOP_POST - server.PostBytes)
)

// opening is a loader that is being opened, or is open.
type opening struct {
	*pending[Loader]
	feed  *C.khop_feed
	graph *heldGraph
}

// ring writes to an eventfd without telling Go's scheduler: it does not wait, and who is woken may take the processor
// before it returns (wire.Socket says what that would cost).
func ring(fd C.int32_t) {
	one := [8]byte{1}
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
}

// newLoader begins to open one. Where that fails nobody hears the bell.
func newLoader(config string, graph *heldGraph, quiet C.int32_t, feed *C.khop_feed) (*opening, error) {
	fd, err := unix.FcntlInt(uintptr(feed.up_bell), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	C.khop_feed_keep(feed)
	w := server.Within{
		Mail: (*server.Mail)(unsafe.Pointer(&feed.down)),
		Ring: func() { ring(feed.down_bell) },
		Bell: os.NewFile(uintptr(fd), "bell"),
	}
	return &opening{begin(quiet, func(ctx context.Context, stderr io.Writer) (Loader, error) {
		return OpenLoader(ctx, config, graph.dataset(), stderr, w)
	}, func(err error) {
		if err != nil {
			_ = w.Bell.Close()
		}
		w.Ring()
	}), feed, graph}, nil
}

func (l *opening) Close() error {
	err := errors.Join(l.pending.Close(), l.graph.release())
	C.khop_feed_free(l.feed)
	return err
}

//export khop_loader_open
func khop_loader_open(config *C.char, graph C.khop_handle, quiet C.int32_t, feed *C.khop_feed, to *C.khop_handle,
	e *C.khop_error) C.int32_t {
	return call(e, func() error {
		if feed == nil {
			return argument("a loader without a feed")
		}
		held, err := holdGraph(graph)
		if err != nil {
			return err
		}
		l, err := newLoader(C.GoString(config), held, quiet, feed)
		if err != nil {
			return errors.Join(err, held.release())
		}
		*to = open(l)
		return nil
	})
}

//export khop_loader_ready
func khop_loader_ready(h C.khop_handle, e *C.khop_error) C.int32_t {
	return with(h, e, func(l *opening) error {
		_, _ = unix.Read(int(l.feed.down_bell), make([]byte, 8))
		_, err := l.open(0)
		return err
	})
}

//export khop_loader_segment
func khop_loader_segment(h C.khop_handle, number C.uint32_t, to *C.khop_handle, address *C.uint64_t,
	size *C.uint64_t, e *C.khop_error) C.int32_t {
	return with(h, e, func(l *opening) error {
		in, err := l.open(0)
		if err != nil {
			return err
		}
		data, of, err := in.Segment(uint32(number))
		if err == nil {
			*to, *size = open(of), C.uint64_t(len(data))
			*address = C.uint64_t(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
		}
		return err
	})
}
