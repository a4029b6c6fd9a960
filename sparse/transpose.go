package sparse

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/khop-gnn/khop/unified"
)

// Transpose returns the matrix whose row j lists, ascending, the rows of a that have column j. It is built at the first
// call, takes 12 bytes an edge, and belongs to a: it is valid as long as a is. The transpose of a transpose is the
// matrix itself.
func (a *Matrix) Transpose() *Matrix {
	a.transposing.Do(func() {
		t := &Matrix{rows: a.cols, cols: a.rows, transposed: a, indptr64: make([]int64, a.cols+1)}
		t.transposing.Do(func() {}) // it has its transpose
		t.makeIndices(a.edges)
		t.from = make([]int64, a.edges)
		switch {
		case a.indices64 != nil:
			transpose(t, a, a.indices64)
		default:
			transpose(t, a, a.indices32)
		}
		a.transposed = t
	})
	return a.transposed
}

// transpose sorts the edges by column; those of a column stay in the order of rows.
func transpose[I int32 | int64](t, a *Matrix, columns []I) {
	next := t.indptr64
	for _, j := range columns {
		next[j+1]++
	}
	for j := range t.rows {
		next[j+1] += next[j]
	}
	for i := range a.rows {
		for e := a.start(i); e < a.start(i+1); e++ {
			to := next[columns[e]]
			next[columns[e]]++
			t.from[to] = e
			t.setIndex(to, i)
		}
	}
	t.rewind()
}

// makeIndices makes room for the columns of this number of edges.
func (t *Matrix) makeIndices(edges int64) {
	if t.edges = edges; t.cols <= math.MaxInt32 {
		t.indices32 = make([]int32, edges)
	} else {
		t.indices64 = make([]int64, edges)
	}
}

func (t *Matrix) setIndex(edge, column int64) {
	if t.indices64 != nil {
		t.indices64[edge] = column
	} else {
		t.indices32[edge] = int32(column)
	}
}

// rewind sets the starts of rows back, each of which has become where the next row begins.
func (t *Matrix) rewind() {
	copy(t.indptr64[1:], t.indptr64[:t.rows])
	t.indptr64[0] = 0
}

// TransposeValues writes the values of a's edges to out, in the order of the edges of a.Transpose(). Shapes: values and
// out float32 [edges] or [heads, edges], of equal shapes. ErrShape otherwise.
func (p *Pool) TransposeValues(out unified.Tensor, a *Matrix, values unified.Tensor) error {
	if !perEdge(out, a) || !perEdge(values, a) || headsOf(out) != headsOf(values) || overlap(out, values) {
		return fmt.Errorf("%w: values %v and %v of %d edges", ErrShape, out, values, a.edges)
	}
	order, to, from := a.Transpose().order(), floats(out), floats(values)
	return p.Split(a.edges, 1<<14, func(lo, hi int64) {
		for h := int64(0); h < int64(len(to)); h += a.edges {
			for e := lo; e < hi; e++ {
				to[h+e] = from[h+order[e]]
			}
		}
	})
}

// SpMMBackward is the gradient of SpMM with respect to x: row j of dx becomes the sum of rows i of dy, each times the
// value of its edge and, for Mean, 1/degree of i, over the edges (i, j) of a, in the order of rows. It is an SpMM of
// the transpose, which it builds at the first call. SDDMM is the gradient with respect to the values.
//
// Shapes: dx float32 [a.Cols(), ...], written; dy float32 [a.Rows(), ...] of the same width; values as in SpMM. room is
// scratch memory, float32 of the shape of values, or no tensor: it is then allocated if values or Mean need it.
func (p *Pool) SpMMBackward(dx unified.Tensor, r Reduce, a *Matrix, values, dy, room unified.Tensor) error {
	t := a.Transpose()
	if r == Mean && !values.Valid() {
		return p.SpMM(dx, Sum, t, a.TransposedMeans(), dy)
	}
	if !values.Valid() {
		return p.SpMM(dx, r, t, values, dy)
	}
	if !perEdge(values, a) {
		return fmt.Errorf("%w: the values are %v, not float32[%d] on the host", ErrShape, values, a.edges)
	}
	if !room.Valid() {
		room, _ = unified.FromSlice(make([]float32, headsOf(values)*a.edges)).Reshape(values.Shape()...)
	}
	if err := p.TransposeValues(room, a, values); err != nil {
		return err
	}
	if r == Mean {
		mean, transposed := floats(a.TransposedMeans()), floats(room)
		for h := 0; h < len(transposed); h += len(mean) {
			for e, m := range mean {
				transposed[h+e] *= m
			}
		}
	}
	return p.SpMM(dx, Sum, t, room, dy)
}

// TransposedMeans returns 1/degree of the row of each edge of a, in the order of the edges of a.Transpose(): with these
// values the gradient of a mean is a sum. It is computed at the first call, and belongs to a.
func (a *Matrix) TransposedMeans() unified.Tensor {
	a.means.Do(func() {
		inverse, t := a.inverseDegrees(), a.Transpose()
		a.mean = make([]float32, a.edges)
		for e := range a.mean {
			a.mean[e] = inverse[t.column(int64(e))]
		}
	})
	return unified.FromSlice(a.mean)
}

// GCNNorm returns a value for each edge (i, j): 1/sqrt(degree of row i x degree of column j). It is computed at the
// first call, in float64, and belongs to a.
//
// Source: Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017, for a
// symmetric matrix with self-loops (WithLoops).
func (a *Matrix) GCNNorm() unified.Tensor {
	a.norms.Do(func() {
		t := a.Transpose()
		a.norm = make([]float32, a.edges)
		for i := range a.rows {
			d := float64(a.start(i+1) - a.start(i))
			for e := a.start(i); e < a.start(i+1); e++ {
				j := a.column(e)
				a.norm[e] = float32(1 / math.Sqrt(d*float64(t.start(j+1)-t.start(j))))
			}
		}
	})
	return unified.FromSlice(a.norm)
}

// InverseRoots returns 1/sqrt(degree) of every row, 0 for rows without edges: GCNNorm in two parts. It is computed at
// the first call, and belongs to a.
func (a *Matrix) InverseRoots() []float32 {
	a.rootsOnce.Do(func() {
		a.roots = make([]float32, a.rows)
		for i := range a.roots {
			if d := a.Degree(int64(i)); d > 0 {
				a.roots[i] = float32(1 / math.Sqrt(float64(d)))
			}
		}
	})
	return a.roots
}

// WithLoops returns a new matrix with the edges of a, and an edge (i, i) at the end of each row i that has none: the
// destinations of a block are its first sources. ErrShape if there are more rows than columns.
func (a *Matrix) WithLoops() (*Matrix, error) {
	if a.rows > a.cols {
		return nil, fmt.Errorf("%w: a matrix of %d x %d has rows without a loop", ErrShape, a.rows, a.cols)
	}
	if a.cols > math.MaxInt32 {
		return looped[int64](a)
	}
	return looped[int32](a)
}

func looped[I int32 | int64](a *Matrix) (*Matrix, error) {
	indptr, indices := make([]int64, a.rows+1), make([]I, 0, a.edges+a.rows)
	for i := range a.rows {
		lo, hi := a.start(i), a.start(i+1)
		if a.indices64 != nil {
			indices = appendLooped(indices, a.indices64[lo:hi], i)
		} else {
			indices = appendLooped(indices, a.indices32[lo:hi], i)
		}
		indptr[i+1] = int64(len(indices))
	}
	return New(a.cols, unified.FromSlice(indptr), unified.FromSlice(indices))
}

// appendLooped appends row i to the indices of others, with an edge to itself last where it has none.
func appendLooped[I, J int32 | int64](indices []I, row []J, i int64) []I {
	loop := false
	for _, j := range row {
		loop = loop || int64(j) == i
		indices = append(indices, I(j))
	}
	if !loop {
		indices = append(indices, I(i))
	}
	return indices
}

// floats returns the elements of a tensor that dense allows.
func floats(t unified.Tensor) []float32 {
	b := t.Bytes()
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// order returns, for each edge of a, which edge of the transpose it is. a has a transpose.
func (a *Matrix) order() []int64 {
	a.orders.Do(func() {
		switch {
		case a.from != nil:
		case a.narrow != nil:
			a.from = make([]int64, a.edges)
			for k, e := range a.narrow {
				a.from[k] = int64(e)
			}
		default:
			a.from = make([]int64, a.edges)
			for e, from := range a.transposed.order() {
				a.from[from] = int64(e)
			}
		}
	})
	return a.from
}

// TransposeOrder returns which edge of a is at each place of a.Transpose(). It belongs to a.
func (a *Matrix) TransposeOrder() []int64 {
	t := a.Transpose()
	return t.order()
}

// Arrange writes values [edges, heads] to out [heads, edges]: those of edge order[k] to place k. A nil order is 0, 1,
// 2, .. So values of edges in any order become values for the matrix of FromEdges, or for its transpose.
//
// Shapes: values float32 [edges] or [edges, heads]; out float32 [edges] or [heads, edges]; order [edges], each edge
// once. ErrShape if they do not fit.
func (p *Pool) Arrange(out, values unified.Tensor, order []int64) error {
	return p.arrange(out, values, order, false)
}

// ArrangeBack is the reverse of Arrange: it writes out's elements to values, values[order[k], h] = out[h, k].
func (p *Pool) ArrangeBack(values, out unified.Tensor, order []int64) error {
	return p.arrange(out, values, order, true)
}

func (p *Pool) arrange(out, values unified.Tensor, order []int64, back bool) error {
	rows, edges, heads, err := arranged(out, values, order)
	if err != nil {
		return err
	}
	n := int64(len(rows)) / heads
	return p.Split(n, 1<<14, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			e := k
			if order != nil {
				e = order[k]
			}
			for h := range heads {
				if back {
					edges[e*heads+h] = rows[h*n+k]
				} else {
					rows[h*n+k] = edges[e*heads+h]
				}
			}
		}
	})
}

// arranged returns the elements of both layouts of values, and the heads.
func arranged(out, values unified.Tensor, order []int64) (rows, edges []float32, heads int64, err error) {
	heads = headsOf(out)
	n := values.Len()
	if !dense(out) || !dense(values) || values.Rank() > 2 || out.Rank() > 2 || values.Width() != heads ||
		out.Rank() == 2 && out.Dim(1) != n || out.Rank() == 1 && out.Len() != n || overlap(out, values) ||
		order != nil && int64(len(order)) != n {
		return nil, nil, 0, fmt.Errorf("%w: values %v and %v in an order of %d", ErrShape, values, out, len(order))
	}
	return floats(out), floats(values), heads, nil
}
