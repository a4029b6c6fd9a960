package npz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/rows"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// matrix is a CSR matrix whose members have been checked. They stay in the archive, and are streamed.
type matrix struct {
	a          *Archive
	prefix     string // of its members
	rows, cols int64
	entries    int64
	values     bool // not all are one
	negative   bool
	dtype      unified.DType
}

// rowsOf compares the lengths of the members of a matrix, and returns its rows. It expands none of them.
func (a *Archive) rowsOf(prefix string, sized bool) (int64, error) {
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

// matrix checks the members prefix + indptr, indices, data and shape, whose lengths rowsOf has compared.
func (a *Archive) matrix(prefix string) (*matrix, error) {
	m := &matrix{a: a, prefix: prefix, cols: 1 << 62}
	ends, err := a.vector(prefix + "indptr")
	if err == nil {
		m.rows = ends - 1
		m.entries, err = a.vector(prefix + "indices")
	}
	if err != nil {
		return nil, err
	}
	if a.has(prefix + "shape") {
		var shape []int64
		if err := a.scanInts(prefix+"shape", func(block []int64, _ int64) error {
			shape = append(shape, block...)
			return nil
		}); err != nil {
			return nil, err
		}
		if shape[0] != m.rows || shape[1] < 0 {
			return nil, a.fail(prefix+"shape", -1, "is %v, but indptr has %d entries", shape, ends)
		}
		m.cols = shape[1]
	}
	if err := m.checkRows(); err != nil {
		return nil, err
	}
	if err := m.checkColumns(); err != nil {
		return nil, err
	}
	return m, m.checkValues()
}

// scanInts hands the numbers of a member on, a block at a time, and compares its checksum.
func (a *Archive) scanInts(name string, take func(block []int64, at int64) error) error {
	return a.elements(name, func(r io.Reader, h array.Header) error { return array.EachInts(r, h, take) })
}

func (m *matrix) checkRows() error {
	name, last := m.prefix+"indptr", int64(0)
	ends := func() error {
		return m.a.fail(name, -1, "does not run from 0 to the %d indices", m.entries)
	}
	err := m.a.scanInts(name, func(block []int64, at int64) error {
		if at == 0 && block[0] != 0 {
			return ends()
		}
		for i, v := range block {
			if v < last {
				return m.a.fail(name, at+int64(i), "falls from %d to %d", last, v)
			}
			last = v
		}
		return nil
	})
	if err == nil && last != m.entries {
		err = ends()
	}
	return err
}

func (m *matrix) checkColumns() error {
	name := m.prefix + "indices"
	return m.a.scanInts(name, func(block []int64, at int64) error {
		if i := slices.IndexFunc(block, func(v int64) bool { return v < 0 || v >= m.cols }); i >= 0 {
			return m.a.fail(name, at+int64(i), "column %d is not in 0 .. %d", block[i], m.cols-1)
		}
		return nil
	})
}

// checkValues finds out what the values are.
func (m *matrix) checkValues() error {
	name := m.prefix + "data"
	if !m.a.has(name) {
		return nil
	}
	return m.a.elements(name, func(r io.Reader, h array.Header) error {
		if h.Elements() != m.entries {
			return fmt.Errorf("is %v, but there are %d indices", &h, m.entries)
		}
		m.dtype = h.DType
		v, err := array.NewReader(r, h)
		if err != nil {
			return err
		}
		for v.Left() > 0 {
			at := m.entries - v.Left()
			block, err := v.Floats(chunkEdges)
			if err != nil {
				return err
			}
			for i, x := range block {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					return m.a.fail(name, at+int64(i), "the value is %v", x)
				}
				m.values, m.negative = m.values || x != 1, m.negative || x < 0
			}
		}
		return nil
	})
}

// maxWidth is the greatest width of features that is taken.
const maxWidth = 1 << 24

const chunkEdges = 1 << 18

// reader opens a member for reading some elements at a time; nil if there is an error already, which stays.
func (a *Archive) reader(name string, open *[]io.Closer, err *error) *array.Reader {
	if *err != nil {
		return nil
	}
	r, h, e := a.open(name)
	if e != nil {
		*err = e
		return nil
	}
	*open = append(*open, r)
	v, e := array.NewReader(r, h)
	if e != nil {
		*err = a.fail(name, -1, "%w", e)
	}
	return v
}

// walk yields the entries in order, some at a time: the row, the column and, where values are wanted, the value of
// each. With them come the elements of others: members that have a row for each entry.
func (m *matrix) walk(values bool, others []string, yield func(rows, cols []int64, values []float64,
	others [][]byte) error) (err error) {
	var open []io.Closer
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.Close())
		}
	}()
	indptr, indices := m.a.reader(m.prefix+"indptr", &open, &err), m.a.reader(m.prefix+"indices", &open, &err)
	var data *array.Reader
	if values {
		data = m.a.reader(m.prefix+"data", &open, &err)
	}
	var columns []*array.Reader
	for _, name := range others {
		columns = append(columns, m.a.reader(name, &open, &err))
	}
	if err != nil {
		return err
	}
	ends := rows.Stream(indptr)
	var of []int64
	cut := make([][]byte, len(columns))
	for at := int64(0); at < m.entries; {
		cols, err := indices.Ints(chunkEdges)
		if err != nil {
			return m.a.fail(m.prefix+"indices", -1, "%w", err)
		}
		if of, err = ends.Of(of[:0], at, len(cols)); err != nil {
			return m.a.fail(m.prefix+"indptr", -1, "%w", err)
		}
		var v []float64
		if data != nil {
			if v, err = data.Floats(int64(len(cols))); err != nil {
				return m.a.fail(m.prefix+"data", -1, "%w", err)
			}
		}
		for i, c := range columns {
			if cut[i], err = c.Next(int64(len(cols)) * c.Elements() / max(m.entries, 1)); err != nil {
				return m.a.fail(others[i], -1, "%w", err)
			}
		}
		if err := yield(of, cols, v, cut); err != nil {
			return err
		}
		at += int64(len(cols))
	}
	return nil
}

// setEdges makes the entries of the adjacency matrix the graph's edges, row -> column.
func (a *Archive) setEdges(g *source.Graph, m *matrix) {
	g.Edges = source.Edges{
		Count: m.entries,
		Where: func(edge int64) string { return fmt.Sprintf("%s: %sindices: entry %d", a.Path, m.prefix, edge) },
	}
	c := graph.Column{Name: "weight", DType: unified.Float32}
	if m.dtype == unified.Float64 {
		c.DType = unified.Float64
	}
	if m.negative {
		c.Name = "value" // a weight is not negative
	}
	if m.values {
		g.Edges.Columns = []graph.Column{c}
		g.Note("entries of the adjacency matrix other than 1 are stored as the edge column %q", c.Name)
	}
	g.Edges.Each = func(yield func(source.Batch) error) error {
		var narrow []float32
		return m.walk(m.values, a.edgeColumns, func(rows, cols []int64, values []float64, others [][]byte) error {
			b := source.Batch{Src: rows, Dst: cols}
			switch {
			case values == nil:
			case c.DType == unified.Float64:
				b.Columns = append(b.Columns, unified.FromSlice(values).Bytes())
			default:
				narrow = narrow[:0]
				for _, x := range values {
					narrow = append(narrow, float32(x))
				}
				b.Columns = append(b.Columns, unified.FromSlice(narrow).Bytes())
			}
			b.Columns = append(b.Columns, others...)
			return yield(b)
		})
	}
}

// addSparseFeatures adds the matrix as dense rows of float32, made as they are written. Entries of one place are added
// up.
func (a *Archive) addSparseFeatures(g *source.Graph, m *matrix) error {
	if m.cols > maxWidth {
		return a.fail(m.prefix+"shape", -1, "%d features a node are too many: at most %d", m.cols, maxWidth)
	}
	if m.cols == 0 {
		g.Tell(source.LeftOut, m.prefix, 1, "%s has no columns and is not stored", m.prefix)
		return nil
	}
	g.NoteDense(m.rows, m.cols, m.entries)
	c := graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{m.cols}}
	node := g.Node()
	node.Columns = append(node.Columns, source.Column{Column: c, Write: func(ctx context.Context, w io.Writer) error {
		rows, err := source.NewRows(ctx, w, m.rows, m.cols, a.ledger)
		if err != nil {
			return a.fail(m.prefix+"shape", -1, "%w", err)
		}
		defer rows.Close()
		if err := m.walk(m.values, nil, func(at, cols []int64, values []float64, _ [][]byte) error {
			for i, row := range at {
				x := float32(1)
				if values != nil {
					x = float32(values[i])
				}
				if err := rows.Add(row, cols[i], x); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		return rows.End()
	}})
	return nil
}
