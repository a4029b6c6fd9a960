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
	"os"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Sampler is what OpenSampler makes: a loader.Loader of requests, with what it reads.
type Sampler interface {
	Sample(ctx context.Context, r loader.Request) (*loader.Batch, error)
	Arrays() []layout.Array
	Schema() *graph.Schema
	Answer() loader.Answer
	Stats() loader.Stats
	Estimate() loader.Estimate
	Path() string
	Close() error
}

// OpenSampler makes a loader of requests of a configuration, as OpenLoader makes one of epochs. The command sets it.
var OpenSampler func(ctx context.Context, config string, memory *formats.Dataset, stderr io.Writer) (Sampler, error)

// pending is what is being opened, or is open.
type pending[T io.Closer] struct {
	cancel context.CancelFunc
	opened chan struct{} // closed when the following are set
	done   chan struct{} // closed after that, when who opened it is gone
	value  T
	err    error
}

// begin begins to open something, and calls after in the end. A panic is an error.
func begin[T io.Closer](quiet C.int32_t, open func(ctx context.Context, stderr io.Writer) (T, error),
	after func(err error)) *pending[T] {
	stderr := io.Writer(os.Stderr)
	if quiet != 0 {
		stderr = io.Discard
	}
	p := &pending[T]{opened: make(chan struct{}), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		p.value, p.err = guarded(func() (T, error) { return open(ctx, stderr) })
		close(p.opened)
		after(p.err)
	}()
	return p
}

// guarded calls a function, whose panic is an error.
func guarded[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v. This is a bug; please report it", p)
		}
	}()
	return f()
}

// open returns it when it is open, and errAgain where it is not after some time.
func (p *pending[T]) open(wait time.Duration) (none T, _ error) {
	select {
	case <-p.opened:
		return p.value, p.err
	default:
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-p.opened:
		return p.value, p.err
	case <-t.C:
		return none, errAgain
	}
}

func (p *pending[T]) Close() error {
	p.cancel()
	<-p.done
	if p.err != nil {
		return nil
	}
	return p.value.Close()
}

// asked is a sampler that is being opened, or is open.
type asked struct {
	*pending[Sampler]
	graph *heldGraph
}

func (a *asked) Close() error { return errors.Join(a.pending.Close(), a.graph.release()) }

// described is what khop_sampler_about tells.
type described struct {
	Dataset   string           `json:"dataset"`
	Sampler   string           `json:"sampler"`
	Layers    int              `json:"layers"`
	Frontier  string           `json:"frontier,omitempty"`
	BatchSize int              `json:"batch_size"`
	Workers   int              `json:"workers"`
	Memory    loader.Estimate  `json:"memory"`
	Stats     loader.Stats     `json:"stats"`
	NodeTypes []describedType  `json:"node_types"`
	EdgeTypes []describedType  `json:"edge_types"`
	Arrays    []describedArray `json:"arrays"`
}

type describedType struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

type describedArray struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Row   []int64 `json:"row"`
}

func describe(s Sampler) ([]byte, error) {
	made, schema := s.Answer(), s.Schema()
	of, err := made.Sampler.Describe(schema, made.BatchSize)
	if err != nil {
		return nil, err
	}
	d := described{Dataset: s.Path(), Sampler: made.Sampler.Fingerprint(), Layers: of.Bound.Layers,
		BatchSize: made.BatchSize, Workers: made.Workers, Memory: s.Estimate(), Stats: s.Stats()}
	if of.Frontier != nil {
		d.Frontier = of.Frontier.String()
	}
	for _, t := range schema.Nodes {
		d.NodeTypes = append(d.NodeTypes, describedType{t.Name, t.Count})
	}
	for i := range schema.Edges {
		d.EdgeTypes = append(d.EdgeTypes, describedType{schema.Edges[i].String(), schema.Edges[i].Count})
	}
	for _, a := range s.Arrays() {
		d.Arrays = append(d.Arrays, describedArray{a.Name, a.DType.String(), a.Row})
	}
	return json.Marshal(d)
}

// answer is a batch that the caller has.
type answer struct{ *loader.Batch }

func (a answer) Close() error {
	a.Release()
	return nil
}

//export khop_sampler_open
func khop_sampler_open(config *C.char, graph C.khop_handle, quiet C.int32_t, to *C.khop_handle,
	e *C.khop_error) C.int32_t {
	return call(e, func() error {
		text := C.GoString(config)
		held, err := holdGraph(graph)
		if err != nil {
			return err
		}
		*to = open(&asked{begin(quiet, func(ctx context.Context, stderr io.Writer) (Sampler, error) {
			return OpenSampler(ctx, text, held.dataset(), stderr)
		}, func(error) {}), held})
		return nil
	})
}

//export khop_sampler_ready
func khop_sampler_ready(h C.khop_handle, milliseconds C.int32_t, e *C.khop_error) C.int32_t {
	return with(h, e, func(a *asked) error {
		_, err := a.open(time.Duration(milliseconds) * time.Millisecond)
		return err
	})
}

//export khop_sampler_about
func khop_sampler_about(h C.khop_handle, room unsafe.Pointer, bytes C.uint64_t, size *C.uint64_t,
	e *C.khop_error) C.int32_t {
	return with(h, e, func(a *asked) error {
		s, err := a.open(0)
		if err != nil {
			return err
		}
		about, err := describe(s)
		if *size = C.uint64_t(len(about)); room != nil && uint64(bytes) >= uint64(len(about)) {
			copy(unsafe.Slice((*byte)(room), bytes), about)
		}
		return err
	})
}

// seedsOf is a request's, in the caller's memory.
func seedsOf(r *C.khop_request) (s graph.Seeds, err error) {
	if r.sets < 0 || r.sets > 1<<16 || r.sets > 0 && r.nodes == nil {
		return s, argument("a request of %d sets", r.sets)
	}
	for k, n := range unsafe.Slice(r.nodes, r.sets) {
		if n.count < 0 || n.count > 1<<32 || n.count > 0 && n.ids == nil {
			return s, argument("set %d of a request: %d ids", k, n.count)
		}
		set := graph.SeedSet{Type: int(n.node_type), IDs: unified.FromSlice(numbers(n.ids, n.count))}
		if n.times != nil {
			set.Times = numbers(n.times, n.count)
		}
		if n.from != nil {
			set.From = numbers(n.from, n.count)
		}
		s.Sets = append(s.Sets, set)
	}
	return s, nil
}

func numbers(p *C.int64_t, n C.int64_t) []int64 {
	if n == 0 {
		return []int64{}
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(p)), n)
}

//export khop_sampler_sample
func khop_sampler_sample(h C.khop_handle, r *C.khop_request, to *C.khop_handle, e *C.khop_error) C.int32_t {
	return with(h, e, func(a *asked) error {
		s, err := a.open(0)
		if err != nil {
			return err
		}
		seeds, err := seedsOf(r)
		if err != nil {
			return err
		}
		b, err := s.Sample(context.Background(), loader.Request{Seeds: seeds, Epoch: uint64(r.epoch),
			Number: uint64(r.number)})
		switch {
		case errors.Is(err, loader.ErrSlotsHeld):
			return errAgain
		case errors.Is(err, loader.ErrOptions), errors.Is(err, sampling.ErrOptions), errors.Is(err, graph.ErrSeed):
			return Refused(err)
		case err != nil:
			return err
		}
		if err = tellRows(r, s.Arrays(), b); err != nil {
			b.Release()
			return err
		}
		*to = open(answer{b})
		return nil
	})
}

// tellRows says where the arrays of an answer are. Those on Go's heap are copied to the caller's numbers.
func tellRows(r *C.khop_request, arrays []layout.Array, b *loader.Batch) error {
	if int(r.arrays) != len(arrays) || r.rows == nil {
		return argument("room for %d arrays, where answers have %d", r.arrays, len(arrays))
	}
	rows, own := unsafe.Slice(r.rows, len(arrays)), numbers(r.numbers, r.room)
	for i := range arrays {
		t := b.Array(i)
		data := unsafe.Pointer(unsafe.SliceData(t.Bytes()))
		if k := arrays[i].Kind; k == layout.NumNodes || k == layout.Items {
			n := len(t.Bytes()) / 8
			if n > len(own) {
				return argument("room for %d numbers is too little", r.room)
			}
			copy(own, unsafe.Slice((*int64)(data), n))
			data, own = unsafe.Pointer(unsafe.SliceData(own)), own[n:]
		}
		rows[i] = C.khop_rows{address: C.uint64_t(uintptr(data)), rows: C.int64_t(t.Len())}
	}
	return nil
}
