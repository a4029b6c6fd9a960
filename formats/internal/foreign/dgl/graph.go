package dgl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/foreign/rows"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// BinReader reads what dgl.save_graphs writes.
var BinReader = source.Reader{Name: "dgl", Title: "a graph of dgl.save_graphs (.bin)",
	ByName: true, Read: readBin, Find: func(t *source.Tree) []string {
		return t.Beginning(func(head []byte) bool {
			return len(head) >= 8 && binary.LittleEndian.Uint64(head) == magicFile
		})
	}}

func readBin(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	raw, err := at.Raw()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(source.Error(raw.Path, "", -1, "write it by dgl.save_graphs", err), raw.Close())
		}
	}()
	mem, err := raw.Whole(r.Budget)
	if err != nil {
		return nil, err
	}
	f, err := parse(mem)
	if err != nil {
		return nil, err
	}
	g, err := f.graph(ctx, raw.Path, r)
	if err != nil {
		return nil, err
	}
	g.Own(raw)
	return g, nil
}

// takeLabels gives the labels of a file to the nodes, where there are as many: to those of the type that they are named
// by, or of the only one, as OGB saves them. It returns the names of the others.
func (f *file) takeLabels() (left []string) {
	for _, t := range f.labels {
		i, name := slices.Index(f.nodeNames, t.name), "label"
		if i < 0 && len(f.counts) == 1 {
			i, name = 0, t.name
		}
		if i < 0 || len(t.Shape) == 0 || t.Shape[0] != f.counts[i] ||
			slices.ContainsFunc(f.nodes[i], func(a named) bool { return a.name == name }) {
			left = append(left, t.name)
			continue
		}
		f.nodes[i] = append(f.nodes[i], named{name, t.Array})
	}
	return left
}

// graph describes the graph.
func (f *file) graph(ctx context.Context, path string, r *source.Request) (*source.Graph, error) {
	left := f.takeLabels()
	var nodes []arrays.Nodes
	for i, n := range f.counts {
		nodes = append(nodes, arrays.Nodes{Name: typeName(f.nodeNames[i]), Count: n,
			Set: newSet(path, "nodes", f.nodeNames[i], f.nodes[i], nil)})
	}
	var edges []arrays.Edges
	for i := range f.relations {
		s, ends := &f.relations[i], f.ends[i]
		from, to := s.rows, s.cols
		if s.format == storedCSC {
			from, to = to, from
		}
		if n, m := f.counts[ends[0]], f.counts[ends[1]]; from != n || to != m {
			return nil, fmt.Errorf("%w: relation %q is of %d by %d nodes, and its types have %d and %d", ErrFormat,
				f.edgeNames[i], from, to, n, m)
		}
		relation := f.edgeNames[i]
		if relation == "_E" {
			relation = "edge"
		}
		edges = append(edges, arrays.Edges{Source: nodes[ends[0]].Name, Relation: relation, Target: nodes[ends[1]].Name,
			Set: newSet(path, "edges", f.edgeNames[i], f.edges[i], s.ids),
			Listed: &source.Edges{Count: length(s.col), Each: func(yield func(source.Batch) error) error {
				return s.batches(ctx, path, yield)
			}}})
	}
	g, err := arrays.Typed(ctx, nodes, edges, r)
	if err == nil && len(left) > 0 {
		g.Tell(source.LeftOut, "graph", int64(len(left)), "not stored, since they are of the whole graph: %s",
			strings.Join(left, ", "))
	}
	return g, err
}

// typeName returns the name of a node type; DGL calls that of a plain graph _N.
func typeName(name string) string {
	if name == "_N" {
		return "node"
	}
	return node(name)
}

// chunk is how many edges are handed on at a time.
const chunk = 1 << 16

// each yields the rows and columns of the edges as they are listed, some at a time.
func (s *sparse) each(yield func(rows, cols []int64) error) error {
	if s.format != storedCOO {
		if err := s.checkRows(); err != nil {
			return err
		}
	}
	if s.col == nil {
		return nil
	}
	cols, err := s.col.Reader(false)
	if err != nil {
		return err
	}
	next, err := s.rowsOf()
	for at := int64(0); err == nil && cols.Left() > 0; {
		var row, col []int64
		if col, err = cols.Ints(chunk); err != nil {
			return err
		}
		if row, err = next(at, len(col)); err == nil {
			err = yield(row, col)
		}
		at += int64(len(col))
	}
	return err
}

// rowsOf returns what yields the rows of the next n edges, of which the first is number at.
func (s *sparse) rowsOf() (func(at int64, n int) ([]int64, error), error) {
	if s.format == storedCOO {
		list, err := s.row.Reader(false)
		return func(_ int64, n int) ([]int64, error) { return list.Ints(int64(n)) }, err
	}
	ptr, err := s.ptr.Reader(false)
	ends, buf := rows.Stream(ptr), []int64(nil)
	return func(at int64, n int) (_ []int64, err error) {
		buf, err = ends.Of(buf[:0], at, n)
		return buf, err
	}, err
}

// checkRows sees that rows begin and end in order.
func (s *sparse) checkRows() error {
	m, lo := length(s.col), int64(0)
	if id(s.ptr, 0) != 0 || id(s.ptr, s.rows) != m {
		return fmt.Errorf("rows begin at %d and end at %d of %d edges", id(s.ptr, 0), id(s.ptr, s.rows), m)
	}
	for row := range s.rows {
		hi := id(s.ptr, row+1)
		if hi < lo || hi > m {
			return fmt.Errorf("row %d ends at %d, and begins at %d of %d edges", row, hi, lo, m)
		}
		lo = hi
	}
	return nil
}

// batches yields the edges of the file at path.
func (s *sparse) batches(ctx context.Context, path string, yield func(source.Batch) error) error {
	var failed error
	err := s.each(func(rows, cols []int64) error {
		if s.format == storedCSC {
			rows, cols = cols, rows
		}
		if failed = context.Cause(ctx); failed == nil {
			failed = yield(source.Batch{Src: rows, Dst: cols})
		}
		return failed
	})
	if err == nil || err == failed {
		return err
	}
	return source.Error(path, "", -1, "write it by dgl.save_graphs", fmt.Errorf("%w: %w", ErrFormat, err))
}

// newSet returns the arrays of a type; of those with a row an edge the rows that ids name, in order.
func newSet(path, what, typ string, list []named, ids *array.Array) array.Set {
	set, prefix := array.Set{}, fmt.Sprintf("%s: %s %q ", path, what, typ)
	for _, a := range list {
		set.Add(a.name, prefix+a.name, a.Array, false)
		if ids == nil || len(a.Shape) == 0 || a.Shape[0] != length(ids) {
			continue
		}
		set[a.name] = array.Member{Path: prefix + a.name, Open: func() (*array.Reader, io.Closer, error) {
			h, err := array.New(a.DType, a.Shape, false, false)
			if err != nil {
				return nil, nil, err
			}
			r, err := array.NewReader(&gathered{rows: a.Data, width: int64(len(a.Data)) / a.Shape[0], ids: ids}, h)
			return r, io.NopCloser(nil), err
		}}
	}
	return set
}

// gathered yields rows in the order of ids.
type gathered struct {
	rows  []byte
	width int64
	ids   *array.Array
	at    int64 // the next id
	left  []byte
}

// Read implements io.Reader.
func (g *gathered) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(g.left) == 0 {
			if g.at == length(g.ids) {
				break
			}
			edge := id(g.ids, g.at)
			if edge < 0 || edge >= length(g.ids) {
				return n, fmt.Errorf("%w: edge %d of %d has the id %d", ErrFormat, g.at, length(g.ids), edge)
			}
			g.left = g.rows[edge*g.width : (edge+1)*g.width]
			g.at++
		}
		k := copy(p[n:], g.left)
		g.left = g.left[k:]
		n += k
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
