package npz

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/khop-gnn/khop/formats/npy"
	"github.com/khop-gnn/khop/formats/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

type writer = io.Writer

// matrix is a CSR matrix that has been checked.
type matrix struct {
	prefix     string // of its members
	rows, cols int64
	indptr     []int64
	indices    []int64
	data       []float64 // nil: all ones
	dtype      unified.DType
}

// matrix reads the members prefix + indptr, indices, data and shape. Values are read in any case if they are wanted.
func (a *archive) matrix(prefix string, values bool) (*matrix, error) {
	m := &matrix{prefix: prefix}
	var err error
	if m.indptr, _, err = a.ints(prefix+"indptr", 1); err != nil {
		return nil, err
	}
	if m.indices, _, err = a.ints(prefix+"indices", 1); err != nil {
		return nil, err
	}
	m.rows, m.cols = int64(len(m.indptr))-1, 1<<62
	if a.has(prefix + "shape") {
		shape, _, err := a.ints(prefix+"shape", 1)
		if err != nil {
			return nil, err
		}
		if len(shape) != 2 || shape[0] != m.rows || shape[1] < 0 {
			return nil, a.fail(prefix+"shape", -1, "is %v, but indptr has %d entries", shape, len(m.indptr))
		}
		m.cols = shape[1]
	} else if values {
		return nil, a.fail(prefix+"shape", -1, "is missing from the archive")
	}
	if err := m.checkRows(a); err != nil {
		return nil, err
	}
	if err := m.checkColumns(a); err != nil {
		return nil, err
	}
	if a.has(prefix + "data") {
		err = m.readData(a, values)
	}
	return m, err
}

func (m *matrix) checkRows(a *archive) error {
	if m.rows < 0 || m.indptr[0] != 0 || m.indptr[m.rows] != int64(len(m.indices)) {
		return a.fail(m.prefix+"indptr", -1, "does not run from 0 to the %d indices", len(m.indices))
	}
	for i := range m.rows {
		if m.indptr[i+1] < m.indptr[i] {
			return a.fail(m.prefix+"indptr", i+1, "falls from %d to %d", m.indptr[i], m.indptr[i+1])
		}
	}
	return nil
}

func (m *matrix) checkColumns(a *archive) error {
	if i := slices.IndexFunc(m.indices, func(v int64) bool { return v < 0 || v >= m.cols }); i >= 0 {
		return a.fail(m.prefix+"indices", int64(i), "column %d is not in 0 .. %d", m.indices[i], m.cols-1)
	}
	return nil
}

// readData reads the values. They are kept if they are wanted, or are not all one.
func (m *matrix) readData(a *archive, wanted bool) error {
	name := m.prefix + "data"
	arr, err := a.array(name)
	if err != nil {
		return err
	}
	values, err := floats(arr, a.budget)
	if err != nil {
		return a.fail(name, -1, "%w", err)
	}
	if len(values) != len(m.indices) || len(arr.Shape) != 1 {
		return a.fail(name, -1, "is %v, but there are %d indices", &arr.Header, len(m.indices))
	}
	if i := slices.IndexFunc(values, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }); i >= 0 {
		return a.fail(name, int64(i), "the value is %v", values[i])
	}
	m.dtype = arr.DType
	if wanted || slices.ContainsFunc(values, func(x float64) bool { return x != 1 }) {
		m.data = values
	} else {
		a.budget.Give(8 * int64(len(values)))
	}
	return nil
}

// floats returns an array's numbers. In place of the array they stay charged.
func floats(a *npy.Array, b *source.Budget) ([]float64, error) {
	t, err := a.Tensor()
	if err != nil {
		return nil, err
	}
	if v, err := unified.View[float64](t); err == nil {
		return v, nil
	}
	if err := b.Take(8 * a.Elements()); err != nil {
		return nil, err
	}
	defer b.Give(a.Bytes())
	if v, err := unified.View[float32](t); err == nil {
		w := make([]float64, len(v))
		for i, x := range v {
			w[i] = float64(x)
		}
		return w, nil
	}
	if err := b.Take(8 * a.Elements()); err != nil {
		return nil, err
	}
	defer b.Give(8 * a.Elements())
	v, err := a.Ints()
	if err != nil {
		return nil, err
	}
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w, nil
}

const chunkEdges = 1 << 18

// setEdges makes the entries of the adjacency matrix the graph's edges, row -> column.
func (a *archive) setEdges(g *source.Graph, m *matrix) error {
	g.Edges = source.Edges{
		Count: int64(len(m.indices)),
		Each:  m.each,
		Where: func(edge int64) string { return fmt.Sprintf("%s: %sindices: entry %d", a.path, m.prefix, edge) },
	}
	if m.data == nil {
		return nil
	}
	c := source.EdgeColumn{Column: graph.Column{Name: "weight", DType: unified.Float32}}
	if m.dtype == unified.Float64 {
		c.DType, c.Data = unified.Float64, unified.FromSlice(m.data).Bytes()
	} else {
		if err := a.budget.Take(4 * int64(len(m.data))); err != nil {
			return a.fail(m.prefix+"data", -1, "%w", err)
		}
		narrow := make([]float32, len(m.data))
		for i, x := range m.data {
			narrow[i] = float32(x)
		}
		c.Data = unified.FromSlice(narrow).Bytes()
	}
	if slices.ContainsFunc(m.data, func(x float64) bool { return x < 0 }) {
		c.Name = "value" // a weight is not negative
	}
	if c.DType == unified.Float32 {
		a.budget.Give(8 * int64(len(m.data)))
		m.data = nil
	}
	g.Edges.Columns = []source.EdgeColumn{c}
	g.Note("entries of the adjacency matrix other than 1 are stored as the edge column %q", c.Name)
	return nil
}

func (m *matrix) each(yield func(src, dst []int64) error) error {
	var src []int64
	row := int64(0)
	for lo := 0; lo < len(m.indices); lo += chunkEdges {
		hi := min(lo+chunkEdges, len(m.indices))
		src = src[:0]
		for i := lo; i < hi; i++ {
			for m.indptr[row+1] <= int64(i) {
				row++
			}
			src = append(src, row)
		}
		if err := yield(src, m.indices[lo:hi]); err != nil {
			return err
		}
	}
	return nil
}

// addSparseFeatures adds the matrix as dense rows of float32, made as they are written. Entries of one place are added
// up.
func (a *archive) addSparseFeatures(g *source.Graph, m *matrix) error {
	if m.cols > maxWidth {
		return a.fail(m.prefix+"shape", -1, "%d features a node are too many: at most %d", m.cols, maxWidth)
	}
	if m.cols == 0 {
		g.Note("%s has no columns and is not stored", m.prefix)
		return nil
	}
	if err := a.budget.Take(4 * m.cols); err != nil {
		return a.fail(m.prefix+"shape", -1, "%w", err)
	}
	c := graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{m.cols}}
	g.Columns = append(g.Columns, source.Column{Column: c, Write: func(ctx context.Context, w writer) error {
		return source.WriteRows(ctx, w, m.rows, m.cols, func(i int64, row []float32) {
			for k := m.indptr[i]; k < m.indptr[i+1]; k++ {
				x := float32(1)
				if m.data != nil {
					x = float32(m.data[k])
				}
				row[m.indices[k]] += x
			}
		})
	}})
	return nil
}
