//go:build libkhop && cgo

package libkhop

/*
#include "khop.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// shared is a column, of which the host and devices gather rows.
type shared struct {
	host *gather.Store
	of   io.Closer // what maps the column; nil: it is the caller's memory

	mu      sync.Mutex // of what follows
	devices map[int]*reached
}

// reached is the column as a device addresses it.
type reached struct {
	device *device.Device
	memory *pinned.Attachment
	store  *cuda.Store
}

// on returns the column as a device addresses it, which it learns at the first call.
func (s *shared) on(ordinal int) (*reached, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.devices[ordinal]; r != nil {
		return r, nil
	}
	if device.Count() == 0 {
		return nil, fmt.Errorf("cuda:%d: %w: %s", ordinal, device.ErrNoDevice, device.Reason())
	}
	r := &reached{}
	if err := r.open(ordinal, s.host.Column()); err != nil {
		return nil, errors.Join(fmt.Errorf("cuda:%d: %w", ordinal, err), r.Close())
	}
	if s.devices == nil {
		s.devices = map[int]*reached{}
	}
	s.devices[ordinal] = r
	return r, nil
}

func (r *reached) open(ordinal int, column unified.Tensor) (err error) {
	if r.device, err = device.Open(ordinal); err != nil {
		return err
	}
	if r.memory, err = pinned.Attach(context.Background(), r.device, column.Bytes(), pinned.AttachOptions{
		Purpose: pinned.Columns, OutsideHeap: true}); err != nil {
		return err
	}
	r.store, err = cuda.NewStore(r.device, column, r.memory.Address())
	return err
}

// Close undoes what was registered with the device.
func (r *reached) Close() error {
	var errs []error
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	if r.memory != nil {
		errs = append(errs, r.memory.Close())
	}
	if r.device != nil {
		errs = append(errs, r.device.Close())
	}
	return errors.Join(errs...)
}

// Close forgets the column on all devices.
func (s *shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, r := range s.devices {
		errs = append(errs, r.Close())
	}
	s.devices = nil
	if s.of != nil {
		errs = append(errs, s.of.Close())
	}
	return errors.Join(errs...)
}

// columnOf opens a column of a dataset.
func columnOf(path, nodeType, name string) (_ *shared, err error) {
	d, err := remote.Open(context.Background(), path, remote.Options{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	schema := d.Graph().Schema()
	t := schema.NodeType(nodeType)
	if t < 0 && nodeType == "" && len(schema.Nodes) == 1 {
		t = 0
	}
	if t < 0 {
		return nil, argument("%s: there is no node type %q", path, nodeType)
	}
	column, ok := d.Graph().NodeColumn(t, name)
	if !ok {
		return nil, argument("%s: node type %q has no column %q", path, schema.Nodes[t].Name, name)
	}
	for _, c := range schema.Nodes[t].Columns {
		if c.Name == name && c.Code != nil {
			return nil, argument("%s: column %q is stored as %s: khop.Loader widens it", path, name, c.TypeName())
		}
	}
	host, err := gather.NewStore(column)
	if err != nil {
		return nil, Refused(err)
	}
	return &shared{host: host, of: d}, nil
}

//export khop_unified_open
func khop_unified_open(base unsafe.Pointer, rows, rowBytes C.int64_t, to *C.khop_handle, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		column, err := tensor(unified.Uint8, base, int64(rows), int64(rowBytes))
		if err != nil {
			return err
		}
		host, err := gather.NewStore(column)
		if err != nil {
			return Refused(err)
		}
		*to = open(&shared{host: host})
		return nil
	})
}

//export khop_unified_column
func khop_unified_column(dataset, nodeType, name *C.char, to *C.khop_handle, address *C.uint64_t, room unsafe.Pointer,
	bytes C.uint64_t, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		s, err := columnOf(C.GoString(dataset), C.GoString(nodeType), C.GoString(name))
		if err != nil {
			return err
		}
		t := s.host.Column()
		about, err := json.Marshal(map[string]any{"dtype": t.DType().String(), "shape": t.Shape()})
		if err == nil && uint64(len(about)) >= uint64(bytes) {
			err = argument("room for %d bytes, where %d are needed", bytes, len(about)+1)
		}
		if err != nil {
			return errors.Join(err, s.Close())
		}
		text := unsafe.Slice((*byte)(room), bytes)
		text[copy(text, about)] = 0
		*address = C.uint64_t(uintptr(unsafe.Pointer(unsafe.SliceData(t.Bytes()))))
		*to = open(s)
		return nil
	})
}

//export khop_unified_gather
func khop_unified_gather(h C.khop_handle, ids unsafe.Pointer, count C.int64_t, idBytes C.int32_t, out unsafe.Pointer,
	threads C.int32_t, e *C.khop_error) C.int32_t {
	return with(h, e, func(s *shared) error {
		list, rows, err := gathering(s.host.RowBytes(), ids, count, idBytes, out)
		if err != nil {
			return err
		}
		return ranged(s.host.GatherInto(rows.Bytes(), list, int(threads)))
	})
}

//export khop_unified_enqueue
func khop_unified_enqueue(h C.khop_handle, ordinal C.int32_t, stream C.uint64_t, ids unsafe.Pointer, count C.int64_t,
	idBytes C.int32_t, out unsafe.Pointer, e *C.khop_error) C.int32_t {
	return with(h, e, func(s *shared) error {
		r, err := s.on(int(ordinal))
		if err != nil {
			return err
		}
		if err := r.store.Err(); err != nil { // of a call before
			return Refused(err)
		}
		list, rows, err := gathering(s.host.RowBytes(), ids, count, idBytes, out)
		if err != nil {
			return err
		}
		if list, err = placed(list); err != nil {
			return err
		}
		if rows, err = placed(rows); err != nil {
			return err
		}
		return r.store.EnqueueInto(r.device.BorrowStream(uintptr(stream)), rows, list, 0)
	})
}

//export khop_unified_hot
func khop_unified_hot(h C.khop_handle, ordinal C.int32_t, rows *C.int64_t, count C.int64_t, e *C.khop_error) C.int32_t {
	return with(h, e, func(s *shared) error {
		if count < 0 || count > 0 && rows == nil {
			return argument("%d hot rows at %p", count, rows)
		}
		r, err := s.on(int(ordinal))
		if err != nil {
			return err
		}
		return ranged(r.store.Cache(context.Background(), numbers(rows, count), pinned.Options{Device: r.device,
			Purpose: pinned.Columns}))
	})
}

//export khop_unified_address
func khop_unified_address(h C.khop_handle, ordinal C.int32_t, address *C.uint64_t, e *C.khop_error) C.int32_t {
	return with(h, e, func(s *shared) error {
		r, err := s.on(int(ordinal))
		if err != nil {
			return err
		}
		*address = C.uint64_t(r.memory.Address())
		return nil
	})
}

// gathering returns the caller's ids, and the rows to write for them.
func gathering(rowBytes int64, ids unsafe.Pointer, count C.int64_t, idBytes C.int32_t, out unsafe.Pointer) (list,
	rows unified.Tensor, err error) {
	if count < 0 {
		return list, rows, argument("%d ids", count)
	}
	if list, err = integers(ids, int64(count), idBytes); err != nil {
		return list, rows, err
	}
	rows, err = tensor(unified.Uint8, out, int64(count), rowBytes)
	return list, rows, err
}

// placed is a tensor of the same memory, which is a device's.
func placed(t unified.Tensor) (unified.Tensor, error) {
	return unified.NewPlaced(pinned.Device, t.DType(), t.Bytes(), t.Shape()...)
}

// ranged makes an id that is no row an argument that khop does not take.
func ranged(err error) error {
	if errors.Is(err, gather.ErrRange) {
		return Refused(err)
	}
	return err
}
