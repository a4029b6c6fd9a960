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
	"github.com/khop-gnn/khop/pinned"
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

// parts returns the names of a matrix's members.
func parts(prefix string) []string {
	return []string{prefix + "indptr", prefix + "indices", prefix + "data", prefix + "shape"}
}

// rowsOf compares the lengths of the members of a matrix, and returns its rows. It expands none of them.
func (a *archive) rowsOf(prefix string, sized bool) (int64, error) {
	ends, err := a.vector(prefix + "indptr")
	if err != nil {
		return 0, err
	}
	if ends == 0 {
		return 0, a.fail(prefix+"indptr", -1, "is empty: it has one entry more than there are rows")
	}
	entries, err := a.vector(prefix + "indices")
	if err != nil {
		return 0, err
	}
	if a.has(prefix + "data") {
		switch h, err := a.header(prefix + "data"); {
		case err != nil:
			return 0, err
		case len(h.Shape) != 1 || h.Elements() != entries:
			return 0, a.fail(prefix+"data", -1, "is %v, but there are %d indices", &h, entries)
		}
	}
	if !a.has(prefix+"shape") && !sized {
		return ends - 1, nil
	}
	if n, err := a.vector(prefix + "shape"); err != nil {
		return 0, err
	} else if n != 2 {
		return 0, a.fail(prefix+"shape", -1, "has %d numbers, a matrix has rows and columns", n)
	}
	return ends - 1, nil
}

// matrix reads the members prefix + indptr, indices, data and shape, whose lengths rowsOf has compared. Values are read
// in any case if they are wanted.
func (a *archive) matrix(prefix string, values bool) (*matrix, error) {
	m := &matrix{prefix: prefix, cols: 1 << 62}
	var err error
	if m.indptr, err = a.ints(prefix + "indptr"); err != nil {
		return nil, err
	}
	m.rows = int64(len(m.indptr)) - 1
	if a.has(prefix + "shape") {
		shape, err := a.ints(prefix + "shape")
		if err != nil {
			return nil, err
		}
		if shape[0] != m.rows || shape[1] < 0 {
			return nil, a.fail(prefix+"shape", -1, "is %v, but indptr has %d entries", shape, len(m.indptr))
		}
		m.cols = shape[1]
	}
	if m.indices, err = a.ints(prefix + "indices"); err != nil {
		return nil, err
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
	var values []float64
	err := a.elements(name, func(r io.Reader, h npy.Header) (err error) {
		if h.Elements() != int64(len(m.indices)) {
			return fmt.Errorf("is %v, but there are %d indices", &h, len(m.indices))
		}
		m.dtype = h.DType
		values, err = npy.ReadFloats(r, h, a.ledger)
		return err
	})
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(values, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }); i >= 0 {
		return a.fail(name, int64(i), "the value is %v", values[i])
	}
	if wanted || slices.ContainsFunc(values, func(x float64) bool { return x != 1 }) {
		m.data = values
	} else {
		a.ledger.Give(pinned.Sources, 8*int64(len(values)))
	}
	return nil
}

const chunkEdges = 1 << 18

// setEdges makes the entries of the adjacency matrix the graph's edges, row -> column.
func (a *archive) setEdges(g *source.Graph, m *matrix) error {
	g.Edges = source.Edges{
		Count: int64(len(m.indices)),
		Each:  source.Pairs(m.each, nil, nil),
		Where: func(edge int64) string { return fmt.Sprintf("%s: %sindices: entry %d", a.path, m.prefix, edge) },
	}
	if m.data == nil {
		return nil
	}
	c, data := graph.Column{Name: "weight", DType: unified.Float32}, []byte(nil)
	if m.dtype == unified.Float64 {
		c.DType, data = unified.Float64, unified.FromSlice(m.data).Bytes()
	} else {
		if err := a.ledger.Take(pinned.Sources, 4*int64(len(m.data))); err != nil {
			return a.fail(m.prefix+"data", -1, "%w", err)
		}
		narrow := make([]float32, len(m.data))
		for i, x := range m.data {
			narrow[i] = float32(x)
		}
		data = unified.FromSlice(narrow).Bytes()
	}
	if slices.ContainsFunc(m.data, func(x float64) bool { return x < 0 }) {
		c.Name = "value" // a weight is not negative
	}
	if c.DType == unified.Float32 {
		a.ledger.Give(pinned.Sources, 8*int64(len(m.data)))
		m.data = nil
	}
	g.Edges.Columns = []graph.Column{c}
	g.Edges.Each = source.Pairs(m.each, [][]byte{data}, []int64{c.RowBytes()})
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
	if err := a.ledger.Take(pinned.Sources, 4*m.cols); err != nil {
		return a.fail(m.prefix+"shape", -1, "%w", err)
	}
	c := graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{m.cols}}
	g.Node().Columns = append(g.Node().Columns, source.Column{Column: c, Write: func(ctx context.Context,
		w writer) error {
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
