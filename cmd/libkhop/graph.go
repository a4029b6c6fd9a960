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
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/unified"
)

// heldGraph is a graph in memory, which its handle holds and each loader of it. It ends with the last of them.
type heldGraph struct {
	of *formats.Dataset

	mu   sync.Mutex
	held int
}

// holdGraph returns the graph of a handle for one more holder, who releases it; nil for 0.
func holdGraph(h C.khop_handle) (*heldGraph, error) {
	if h == 0 {
		return nil, nil
	}
	g, err := thing[*heldGraph](h)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == 0 {
		return nil, &coded{C.KHOP_CLOSED, errors.New("the graph in memory is closed")}
	}
	g.held++
	return g, nil
}

// dataset returns what loaders read; nil of none.
func (g *heldGraph) dataset() *formats.Dataset {
	if g == nil {
		return nil
	}
	return g.of
}

// release counts one holder less.
func (g *heldGraph) release() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held--; g.held > 0 {
		return nil
	}
	return g.of.Close()
}

// Close ends the handle's hold.
func (g *heldGraph) Close() error { return g.release() }

// arrayOf is an array in the caller's memory.
func arrayOf(a *C.khop_array) (name string, _ unified.Tensor, err error) {
	if a.name == nil || a.dtype == nil || a.shape == nil || a.rank < 1 || a.rank > unified.MaxRank {
		return "", unified.Tensor{}, argument("an array without a name, a dtype, or with %d dimensions", a.rank)
	}
	name = C.GoString(a.name)
	shape, dtype, size := numbers(a.shape, a.rank), unified.ParseNumPy(C.GoString(a.dtype)), int64(1)
	for _, n := range shape {
		if n < 0 || n > 0 && size > (1<<40)/n {
			return "", unified.Tensor{}, argument("%s: shape %d", name, shape)
		}
		size *= n
	}
	var data []byte
	if size > 0 && a.data != nil && dtype != unified.Invalid {
		data = unsafe.Slice((*byte)(a.data), size*dtype.Size())
	}
	t, err := unified.New(dtype, data, shape...)
	if err != nil {
		err = argument("%s: %w", name, err)
	}
	return name, t, err
}

// isUnusual reports whether who makes a graph of arrays should hear of a note: not of parallel edges, which are kept,
// nor of names that batches have anyway.
func isUnusual(n formats.Note) bool {
	return !strings.HasSuffix(n.Text, ", and kept") && !strings.HasSuffix(n.Text, ", as batches know it")
}

//export khop_graph_open
func khop_graph_open(arrays *C.khop_array, count C.int64_t, to *C.khop_handle, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		if count < 0 || count > 1<<24 || count > 0 && arrays == nil {
			return argument("%d arrays", count)
		}
		rows := make(map[string]unified.Tensor, count)
		for i := range unsafe.Slice(arrays, count) {
			name, t, err := arrayOf(&unsafe.Slice(arrays, count)[i])
			if err != nil {
				return err
			}
			rows[name] = t
		}
		ds, res, err := convert.InMemory(context.Background(), rows, convert.Options{})
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(res.Notes, isUnusual); i >= 0 {
			return errors.Join(fmt.Errorf("there is something to note: %s", res.Notes[i].Text), ds.Close())
		}
		*to = open(&heldGraph{of: ds, held: 1})
		return nil
	})
}
