//go:build libkhop && cgo

package libkhop

/*
#include <stdlib.h>
#include "arrow.h"
#include "khop.h"

static int stream_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) { return s->get_schema(s, out); }
static int stream_next(struct ArrowArrayStream *s, struct ArrowArray *out) { return s->get_next(s, out); }
static const char *stream_error(struct ArrowArrayStream *s) { return s->get_last_error(s); }
static void stream_end(struct ArrowArrayStream *s) { if (s->release) s->release(s); }
static void schema_end(struct ArrowSchema *s) { if (s->release) s->release(s); }
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/cdata"
	"github.com/apache/arrow/go/v15/arrow/memory/mallocator"

	"github.com/khop-gnn/khop/cmd/libkhop/internal/streams"
	"github.com/khop-gnn/khop/formats/remote"
)

// stream is one that is written to a file.
type stream struct {
	c      *C.struct_ArrowArrayStream // memory of C's, to which the caller's was moved
	schema *arrow.Schema
	spool  *streams.Spool
}

// failure is what a stream says of an error.
func (s *stream) failure(code C.int) error {
	text := "it does not say why"
	if said := C.stream_error(s.c); said != nil {
		text = C.GoString(said)
	}
	return fmt.Errorf("the stream has failed: %w: %s", syscall.Errno(code), text)
}

// describe reads the schema of the stream.
func (s *stream) describe() error {
	c := (*C.struct_ArrowSchema)(C.calloc(1, C.sizeof_struct_ArrowSchema))
	defer C.free(unsafe.Pointer(c))
	if code := C.stream_schema(s.c, c); code != 0 {
		return s.failure(code)
	}
	defer C.schema_end(c)
	if c.format == nil || C.GoString(c.format) != "+s" {
		return argument("a stream of columns is expected, that of a table: this is a single column")
	}
	var fields []arrow.Field
	for i, child := range unsafe.Slice(c.children, c.n_children) {
		name, format := fmt.Sprint(i), ""
		if child.name != nil {
			name = C.GoString(child.name)
		}
		if child.format != nil {
			format = C.GoString(child.format)
		}
		f, err := field(child)
		if err != nil {
			return argument("the column %q is of Arrow's type %q, which is not read: cast it to another", name, format)
		}
		fields = append(fields, f)
	}
	s.schema = arrow.NewSchema(fields, nil)
	return nil
}

// field describes a column. The library that reads descriptions panics at some that it does not know.
func field(c *C.struct_ArrowSchema) (f arrow.Field, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	if f, err = cdata.ImportCArrowField((*cdata.CArrowSchema)(unsafe.Pointer(c))); err == nil && f.Type == nil {
		err = errors.New("no type")
	}
	return f, err
}

// next writes a batch, and returns how many rows it has; -1 where no other comes.
func (s *stream) next() (int64, error) {
	c := (*C.struct_ArrowArray)(C.calloc(1, C.sizeof_struct_ArrowArray))
	defer C.free(unsafe.Pointer(c))
	if code := C.stream_next(s.c, c); code != 0 {
		return 0, s.failure(code)
	}
	if c.release == nil {
		return -1, nil
	}
	r, err := cdata.ImportCRecordBatchWithSchema((*cdata.CArrowArray)(unsafe.Pointer(c)), s.schema)
	if err != nil {
		return 0, err
	}
	defer r.Release()
	return r.NumRows(), s.spool.Put(r)
}

// Close ends the stream and the file.
func (s *stream) Close() error {
	C.stream_end(s.c)
	C.free(unsafe.Pointer(s.c))
	if s.spool == nil {
		return nil
	}
	return s.spool.Close()
}

//export khop_stream_write
func khop_stream_write(from *C.struct_ArrowArrayStream, path *C.char, h *C.khop_handle,
	e *C.khop_error) C.int32_t {
	return call(e, func() (err error) {
		if from == nil || from.release == nil {
			return argument("the stream was read already: it can be read once")
		}
		s := &stream{c: (*C.struct_ArrowArrayStream)(C.calloc(1, C.sizeof_struct_ArrowArrayStream))}
		*s.c, from.release = *from, nil
		if err = s.describe(); err == nil {
			s.spool, err = streams.New(C.GoString(path), s.schema)
		}
		if err != nil {
			return errors.Join(err, s.Close())
		}
		*h = open(s)
		return nil
	})
}

//export khop_stream_next
func khop_stream_next(h C.khop_handle, rows *C.int64_t, e *C.khop_error) C.int32_t {
	return with(h, e, func(s *stream) error {
		n, err := s.next()
		*rows = C.int64_t(n)
		return err
	})
}

//export khop_stream_read
func khop_stream_read(dataset *C.char, edges C.int32_t, of C.int64_t, out *C.struct_ArrowArrayStream,
	e *C.khop_error) C.int32_t {
	return call(e, func() error {
		path := C.GoString(dataset)
		d, err := remote.Open(context.Background(), path, remote.Options{})
		if err != nil {
			return err
		}
		types, rows := len(d.Graph().Schema().Nodes), streams.NodeRows
		if edges != 0 {
			types, rows = len(d.Graph().Schema().Edges), streams.EdgeRows
		}
		if of < 0 || int64(of) >= int64(types) {
			return errors.Join(argument("%s: there is no type %d of %d", path, of, types), d.Close())
		}
		r, err := rows(d, int(of), mallocator.NewMallocator())
		if err != nil {
			return err
		}
		defer r.Release() // the stream keeps it
		cdata.ExportRecordReader(r, (*cdata.CArrowArrayStream)(unsafe.Pointer(out)))
		return nil
	})
}
