//go:build libkhop && cgo

package libkhop

/*
#include "khop.h"
*/
import "C"

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/khop-gnn/khop/internal/rowsample"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// operations counts those of sparse matrices that were computed.
var operations atomic.Int64

// workers is the pool of all sparse operations, which run one at a time anyway.
var workers struct {
	sync.Mutex
	pool *sparse.Pool
}

// withPool calls f, an operation, with a pool of this number of threads; 0 means all.
func withPool(threads C.int32_t, f func(*sparse.Pool) error) error {
	operations.Add(1)
	if threads < 0 {
		return argument("%d threads", threads)
	}
	workers.Lock()
	defer workers.Unlock()
	if p := workers.pool; p != nil && (threads == 0 || p.Workers() == int(threads)) {
		return f(p)
	}
	if workers.pool != nil {
		_ = workers.pool.Close()
	}
	workers.pool = sparse.Open(sparse.Options{Workers: int(threads), Tuning: tuning()})
	return f(workers.pool)
}

// tuning is what "khop tune" has measured on this machine, if anything.
var tuning = sync.OnceValue(func() *sparse.Tuning {
	path, err := sparse.TuningPath()
	if err != nil {
		return nil
	}
	t, _ := sparse.LoadTuning(path) // serves in any case
	return t
})

// matrix is what a handle of a sparse matrix stands for.
type matrix struct {
	rows *sparse.Matrix // as the caller gave it, or sorted
	// order says which of the caller's edges stands at each place of rows, or nil.
	order      []int64
	transposed []int64 // the same of the transpose, once it was needed

	mu    sync.Mutex // of an operation
	kept  map[use]*arrangement
	sites [2]rowsample.Site // of the matrix and of its transpose
	of    [2]uint64         // the stamps of their values
}

// arrangement is the values of the caller's edges as a product reads them.
type arrangement struct {
	stamp uint64    // of the caller's values; 0: all are to be arranged anew
	all   []float32 // [heads, edges]
}

// use is what the values of a product depend on besides the caller's.
type use struct {
	transposed, spread bool
}

// Close forgets the matrix.
func (m *matrix) Close() error { return nil }

//export khop_sparse_operations
func khop_sparse_operations(count *C.int64_t, e *C.khop_error) C.int32_t {
	return call(e, func() error { *count = C.int64_t(operations.Load()); return nil })
}

//export khop_sparse_rows
func khop_sparse_rows(rows, cols, edges C.int64_t, indptr unsafe.Pointer, indptrBytes C.int32_t, indices unsafe.Pointer,
	indexBytes C.int32_t, order unsafe.Pointer, orderBytes C.int32_t, out *C.khop_handle, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		if rows < 0 || cols < 0 || edges < 0 {
			return argument("a matrix of %d x %d with %d edges", rows, cols, edges)
		}
		ptr, err := integers(indptr, int64(rows)+1, indptrBytes)
		if err != nil {
			return err
		}
		ids, err := integers(indices, int64(edges), indexBytes)
		if err != nil {
			return err
		}
		a, err := sparse.New(int64(cols), ptr, ids)
		if err != nil {
			return argument("%w", err)
		}
		m := &matrix{rows: a}
		if order != nil {
			if m.order, err = ordered(order, int64(edges), orderBytes); err != nil {
				return err
			}
		}
		*out = open(m)
		return nil
	})
}

// ordered returns a copy of the numbers of edges, each of which is there once.
func ordered(p unsafe.Pointer, n int64, bytes C.int32_t) ([]int64, error) {
	given, err := integers(p, n, bytes)
	if err != nil {
		return nil, err
	}
	order, err := unified.View[int64](given)
	if err == nil {
		order = slices.Clone(order)
	} else if narrow, err := unified.View[int32](given); err == nil {
		for _, e := range narrow {
			order = append(order, int64(e))
		}
	}
	seen := make([]bool, n)
	for k, e := range order {
		if e < 0 || e >= n || seen[e] {
			return nil, argument("place %d of the matrix has edge %d of %d, which is not there, or is twice", k, e, n)
		}
		seen[e] = true
	}
	return order, nil
}

//export khop_sparse_edges
func khop_sparse_edges(rows, cols, edges C.int64_t, targets, sources unsafe.Pointer, indexBytes C.int32_t,
	out *C.khop_handle, e *C.khop_error) C.int32_t {
	return call(e, func() error {
		if edges < 0 {
			return argument("%d edges", edges)
		}
		to, err := integers(targets, int64(edges), indexBytes)
		if err != nil {
			return err
		}
		from, err := integers(sources, int64(edges), indexBytes)
		if err != nil {
			return err
		}
		a, order, err := sparse.FromEdges(int64(rows), int64(cols), to, from)
		if err != nil {
			return argument("%w", err)
		}
		*out = open(&matrix{rows: a, order: order})
		return nil
	})
}

//export khop_sparse_multiply
func khop_sparse_multiply(h C.khop_handle, p *C.khop_product, e *C.khop_error) C.int32_t {
	return with(h, e, func(m *matrix) error {
		return withPool(p.threads, func(pool *sparse.Pool) error { return m.multiply(pool, p) })
	})
}

//export khop_sparse_sample
func khop_sparse_sample(h C.khop_handle, s *C.khop_sampled, e *C.khop_error) C.int32_t {
	return with(h, e, func(m *matrix) error {
		return withPool(s.threads, func(pool *sparse.Pool) error { return m.sample(pool, s) })
	})
}

// multiply computes a product.
func (m *matrix) multiply(pool *sparse.Pool, p *C.khop_product) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, reduce := m.rows, sparse.Sum
	if p.turned != 0 {
		a = a.Transpose()
	}
	if p.reduce == C.KHOP_MEAN {
		reduce = sparse.Mean
	}
	dtype, ok := map[C.int32_t]unified.DType{C.KHOP_FLOAT32: unified.Float32, C.KHOP_FLOAT16: unified.Float16,
		C.KHOP_BFLOAT16: unified.BFloat16}[p.dtype]
	if !ok || p.reduce < C.KHOP_SUM || p.reduce > C.KHOP_SPREAD || p.heads < 0 {
		return argument("dtype %d, reduction %d, %d heads", p.dtype, p.reduce, p.heads)
	}
	x, err := tensor(dtype, p.x, a.Cols(), int64(p.width))
	if err != nil {
		return err
	}
	y, err := tensor(unified.Float32, unsafe.Pointer(p.y), a.Rows(), int64(p.width))
	if err != nil {
		return err
	}
	if p.share != 0 {
		return m.sampled(pool, p, a.Transpose(), y, x)
	}
	values, err := m.values(pool, p, a, use{p.turned != 0, p.reduce == C.KHOP_SPREAD})
	if err != nil {
		return err
	}
	return argued(pool.SpMM(y, reduce, a, values, x))
}

// sampled computes a product of some rows of x, which are those of b: the product is one of b's transpose.
func (m *matrix) sampled(pool *sparse.Pool, p *C.khop_product, b *sparse.Matrix, y, x unified.Tensor) error {
	share, side := float64(p.share), 1
	if p.turned != 0 {
		side = 0
	}
	if !(share > 0 && share <= 1) || p.reduce == C.KHOP_MEAN || p.values != nil && p.heads != 1 {
		return argument("a share of %g, reduction %d, %d heads", share, p.reduce, p.heads)
	}
	values, err := m.values(pool, p, b, use{transposed: side == 1})
	if err != nil {
		return err
	}
	if values.Rank() == 2 {
		if values, err = values.Reshape(b.Edges()); err != nil {
			return err
		}
	}
	s := &m.sites[side]
	if p.values != nil && (p.stamp == 0 || m.of[side] != uint64(p.stamp)) || !values.Valid() != !s.Values.Valid() {
		*s = rowsample.Site{}
	}
	s.Matrix, s.Values, s.Mean, m.of[side] = b, values, p.reduce == C.KHOP_SPREAD, uint64(p.stamp)
	if err := s.Choose(pool, uint64(p.seed), share, x); err != nil {
		return argued(err)
	}
	defer func() { s.Thin, s.Left, s.Scale = nil, unified.Tensor{}, nil }()
	return argued(s.Multiply(pool, y, x))
}

// values returns the values of the edges of a, which is m's matrix or its transpose, as SpMM reads them.
func (m *matrix) values(pool *sparse.Pool, p *C.khop_product, a *sparse.Matrix, what use) (unified.Tensor, error) {
	if p.values == nil {
		if what.spread {
			return a.Transpose().TransposedMeans(), nil
		}
		return unified.Tensor{}, nil
	}
	heads := int64(p.heads)
	given, err := tensor(unified.Float32, unsafe.Pointer(p.values), a.Edges(), heads)
	if err != nil {
		return unified.Tensor{}, err
	}
	if heads == 1 && m.place(what.transposed) == nil && !what.spread {
		return given.Reshape(a.Edges())
	}
	keep := m.kept[what]
	if keep == nil || int64(len(keep.all)) != heads*a.Edges() {
		keep = &arrangement{all: make([]float32, heads*a.Edges())}
	}
	out, err := unified.FromSlice(keep.all).Reshape(heads, a.Edges())
	if err != nil || p.stamp != 0 && keep.stamp == uint64(p.stamp) {
		return out, err
	}
	keep.stamp = 0
	if err := pool.Arrange(out, given, m.place(what.transposed)); err != nil {
		return out, err
	}
	if what.spread {
		means, err := unified.View[float32](a.Transpose().TransposedMeans())
		if err != nil {
			return out, err
		}
		for h := range heads {
			for k, v := range means {
				keep.all[h*a.Edges()+int64(k)] *= v
			}
		}
	}
	keep.stamp = uint64(p.stamp)
	if m.kept == nil {
		m.kept = map[use]*arrangement{}
	}
	m.kept[what] = keep
	return out, nil
}

// place returns which of the caller's edges stands at each place of the matrix or its transpose; nil: in order.
func (m *matrix) place(transposed bool) []int64 {
	if !transposed {
		return m.order
	}
	if m.transposed == nil {
		m.transposed = m.rows.TransposeOrder()
		if m.order != nil {
			both := make([]int64, len(m.transposed))
			for k, e := range m.transposed {
				both[k] = m.order[e]
			}
			m.transposed = both
		}
	}
	return m.transposed
}

// sample computes the products of rows at the ends of each edge.
func (m *matrix) sample(pool *sparse.Pool, s *C.khop_sampled) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, heads := m.rows, int64(s.heads)
	u, err := tensor(unified.Float32, unsafe.Pointer(s.u), a.Rows(), int64(s.width))
	if err != nil {
		return err
	}
	v, err := tensor(unified.Float32, unsafe.Pointer(s.v), a.Cols(), int64(s.width))
	if err != nil {
		return err
	}
	out, err := tensor(unified.Float32, unsafe.Pointer(s.out), a.Edges(), heads)
	if err != nil {
		return err
	}
	if heads == 1 && m.order == nil {
		if out, err = out.Reshape(a.Edges()); err != nil {
			return err
		}
		return argued(pool.SDDMM(out, a, u, v))
	}
	sums, err := unified.FromSlice(make([]float32, heads*a.Edges())).Reshape(heads, a.Edges())
	if err != nil {
		return err
	}
	if err := pool.SDDMM(sums, a, u, v); err != nil {
		return argued(err)
	}
	return pool.ArrangeBack(out, sums, m.order)
}

//export khop_sparse_extreme
func khop_sparse_extreme(h C.khop_handle, x *C.khop_extreme, e *C.khop_error) C.int32_t {
	return with(h, e, func(m *matrix) error {
		return withPool(x.threads, func(pool *sparse.Pool) error { return m.extreme(pool, x) })
	})
}

//export khop_sparse_winners
func khop_sparse_winners(h C.khop_handle, w *C.khop_winners, e *C.khop_error) C.int32_t {
	return with(h, e, func(m *matrix) error {
		return withPool(w.threads, func(pool *sparse.Pool) error { return m.winners(pool, w) })
	})
}

// extreme computes the greatest or the least of rows.
func (m *matrix) extreme(pool *sparse.Pool, p *C.khop_extreme) error {
	a, reduce, width := m.rows, sparse.Max, int64(p.width)
	if p.least != 0 {
		reduce = sparse.Min
	}
	y, err := floats(p.dtype, p.y, a.Rows(), width)
	if err != nil {
		return err
	}
	x, err := floats(p.dtype, p.x, a.Cols(), width)
	if err != nil {
		return err
	}
	values, err := m.inPlace(p.dtype, p.values)
	if err != nil {
		return err
	}
	if p.places == nil {
		return argued(pool.SpMMExtreme(y, unified.Tensor{}, reduce, a, values, x))
	}
	places, err := tensor(unified.Int64, unsafe.Pointer(p.places), a.Rows(), width)
	if err != nil {
		return err
	}
	return argued(pool.SpMMExtreme(y, places, reduce, a, values, x))
}

// winners sums over the edges that an extreme is of.
func (m *matrix) winners(pool *sparse.Pool, p *C.khop_winners) error {
	rows, cols, width := m.rows.Rows(), m.rows.Cols(), int64(p.width)
	to, from := rows, cols
	if p.turned != 0 {
		to, from = from, to
	}
	y, err := floats(p.dtype, p.y, rows, width)
	if err != nil {
		return err
	}
	x, err := floats(p.dtype, p.x, cols, width)
	if err != nil {
		return err
	}
	out, err := floats(p.dtype, p.out, to, width)
	if err != nil {
		return err
	}
	var u unified.Tensor
	if p.u != nil {
		if u, err = floats(p.dtype, p.u, from, width); err != nil {
			return err
		}
	}
	values, err := m.inPlace(p.dtype, p.values)
	if err != nil {
		return err
	}
	return argued(pool.SpMMWinners(out, p.turned != 0, m.rows, values, y, x, u))
}

// floats returns the caller's array of rows of float32 or float64.
func floats(dtype C.int32_t, p unsafe.Pointer, rows, width int64) (unified.Tensor, error) {
	of, ok := map[C.int32_t]unified.DType{C.KHOP_FLOAT32: unified.Float32, C.KHOP_FLOAT64: unified.Float64}[dtype]
	if !ok {
		return unified.Tensor{}, argument("dtype %d", dtype)
	}
	return tensor(of, p, rows, width)
}

// inPlace returns the values of the caller's edges, of one head, in the order of the matrix; no tensor for NULL.
func (m *matrix) inPlace(dtype C.int32_t, p unsafe.Pointer) (unified.Tensor, error) {
	if p == nil {
		return unified.Tensor{}, nil
	}
	given, err := floats(dtype, p, m.rows.Edges(), 1)
	if err != nil {
		return given, err
	}
	if m.order == nil {
		return given.Reshape(m.rows.Edges())
	}
	if narrow, err := unified.View[float32](given); err == nil {
		return unified.FromSlice(picked(narrow, m.order)), nil
	}
	wide, err := unified.View[float64](given)
	return unified.FromSlice(picked(wide, m.order)), err
}

func picked[F any](from []F, order []int64) []F {
	to := make([]F, len(order))
	for k, e := range order {
		to[k] = from[e]
	}
	return to
}

// argued makes an error of operands that of an argument.
func argued(err error) error {
	if err == nil {
		return nil
	}
	return argument("%w", err)
}

// integers returns the caller's array of n integers.
func integers(p unsafe.Pointer, n int64, bytes C.int32_t) (unified.Tensor, error) {
	switch {
	case p == nil && n > 0 || n >= 1<<48:
		return unified.Tensor{}, argument("%d integers at %p", n, p)
	case bytes == 4:
		return unified.FromSlice(unsafe.Slice((*int32)(p), n)), nil
	case bytes == 8:
		return unified.FromSlice(unsafe.Slice((*int64)(p), n)), nil
	}
	return unified.Tensor{}, argument("integers of %d bytes", bytes)
}

// tensor returns the caller's array of rows.
func tensor(dtype unified.DType, p unsafe.Pointer, rows, width int64) (unified.Tensor, error) {
	const most = 1 << 48 // elements; no address space has more
	if width < 0 || rows < 0 || width > 0 && rows > most/width || p == nil && rows*width > 0 {
		return unified.Tensor{}, argument("an array of %d x %d at %p", rows, width, p)
	}
	t, err := unified.New(dtype, unsafe.Slice((*byte)(p), rows*width*dtype.Size()), rows, width)
	if err != nil {
		return t, argument("%w", err)
	}
	return t, nil
}
