package arrays

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/unified"
)

// The names of arrays, and what they become.
var (
	edgeNames = []string{"edge_index", "edges", "edge_list", "edgelist"}
	srcNames  = []string{"src", "source", "row"}
	dstNames  = []string{"dst", "target", "destination", "col"}
	ofNodes   = map[string]string{"node_feat": "feature", "node_features": "feature", "node_feature": "feature",
		"features": "feature", "attr_matrix": "feature", "feature": "feature", "feat": "feature", "x": "feature",
		"node_label":  "label",
		"node_labels": "label", "labels": "label", "label": "label", "y": "label", "node_time": "time",
		"node_year": "year", "node_weight": "weight"}
	ofEdges = map[string]string{"edge_weight": "weight", "edge_weights": "weight", "weight": "weight",
		"weights": "weight", "edge_time": "time", "edge_times": "time", "time": "time", "timestamp": "time",
		"timestamps": "time", "t": "time", "ts": "time", "edge_attr": "feature", "edge_feat": "feature",
		"edge_features": "feature", "edge_label": "label", "edge_labels": "label", "edge_type": "relation",
		"edge_types": "relation"}
)

// Describer describes the arrays of a set, one after the other.
type Describer struct {
	Set   array.Set
	Graph *source.Graph
	R     *source.Request
	// Used are the arrays that are a part of the graph already, or are left out for a reason that a note gives.
	Used map[string]bool

	declared bool // the source says what its arrays are called
	of       int  // what the set holds: of both, of nodes alone, of edges alone
	headers  map[string]array.Header
	columns  []string // of edges, by their order
	ends     ends
}

// Describe describes a set that has edges under one of the names; ok is false where it has none.
func Describe(ctx context.Context, set array.Set, r *source.Request) (g *source.Graph, ok bool, err error) {
	d := &Describer{Set: set, Graph: source.Plain(), R: r, Used: map[string]bool{}}
	if ok, err := d.Edges(ctx); !ok || err != nil {
		return nil, ok, err
	}
	return d.Graph, true, d.Others(ctx)
}

// header returns the header of an array, with Elements known.
func (d *Describer) header(name string) (array.Header, error) {
	if h, ok := d.headers[name]; ok {
		return h, nil
	}
	r, c, err := d.Set[name].Open()
	if err != nil {
		return array.Header{}, err
	}
	if d.headers == nil {
		d.headers = map[string]array.Header{}
	}
	d.headers[name] = r.Header
	if err := c.Close(); err != nil {
		return r.Header, d.fail(name, -1, "%w", err)
	}
	return r.Header, nil
}

func (d *Describer) fail(name string, row int64, format string, args ...any) error {
	return source.Error(d.Set[name].Path, d.Set[name].Column, row, "", fmt.Errorf(format, args...))
}

// find returns the first of the names that the set has; "" for none.
func (d *Describer) find(names []string) string {
	have := d.Set.Names()
	for _, n := range names {
		if slices.Contains(have, n) {
			return n
		}
	}
	return ""
}

// chunkEdges is how many edges are handed on at a time.
const chunkEdges = 1 << 18

// ends says where the sources and targets of edges lie.
type ends struct {
	src, dst string // arrays; the same for one of two dimensions
	m        int64
	byEdge   bool // of one array: both ends of an edge lie together
}

// Edges finds the edges and counts the nodes. It reports whether there are edges under one of the names.
func (d *Describer) Edges(ctx context.Context) (bool, error) {
	if ok, err := d.findEnds(); !ok || err != nil {
		return ok, err
	}
	return true, d.countNodes(ctx)
}

// findEnds finds the edges.
func (d *Describer) findEnds() (bool, error) {
	if name := d.find(edgeNames); name != "" {
		return true, d.setEdges(name)
	}
	e := ends{src: d.find(srcNames), dst: d.find(dstNames)}
	if e.src == "" || e.dst == "" {
		return false, nil
	}
	src, err := d.header(e.src)
	if err != nil {
		return true, err
	}
	dst, err := d.header(e.dst)
	if err != nil {
		return true, err
	}
	if e.m = src.Elements(); len(src.Shape) != 1 || !slices.Equal(src.Shape, dst.Shape) {
		return true, d.fail(e.dst, -1, "has the shape %v, and %s %v: both list as many ids", dst.Shape, e.src,
			src.Shape)
	}
	d.set(e)
	return true, nil
}

// setEdges makes an array of the shape (edges, 2) or (2, edges) the graph's edges.
func (d *Describer) setEdges(name string) error {
	h, err := d.header(name)
	if err != nil {
		return err
	}
	switch s := h.Shape; {
	case len(s) == 2 && s[0] == 2 && (s[1] != 2 || name == "edge_index"): // that name means (2, edges)
		d.set(ends{name, name, s[1], h.Fortran})
	case len(s) == 2 && s[1] == 2:
		if s[0] == 2 {
			d.Graph.Tell(source.Guessed, name, 1, "%s has the shape (2, 2): its rows are edges; name it edge_index if "+
				"they are sources and targets", name)
		}
		d.set(ends{name, name, s[0], !h.Fortran})
	default:
		return d.fail(name, -1, "has the shape %v, not (2, edges) or (edges, 2)", s)
	}
	return nil
}

// EdgeArrays returns the arrays that are columns of edges, in their order.
func (d *Describer) EdgeArrays() []string { return d.columns }

func (d *Describer) set(e ends) {
	d.ends = e
	d.Used[e.src], d.Used[e.dst] = true, true
	d.Graph.Edges.Count = e.m
	d.Graph.Edges.Where = func(edge int64) string { return fmt.Sprintf("%s: edge %d", d.Set[e.src], edge) }
	d.Graph.Edges.Each = func(yield func(source.Batch) error) error { return d.each(d.columns, yield) }
}

// each yields the edges with the given columns.
func (d *Describer) each(columns []string, yield func(source.Batch) error) error {
	open, e := &opened{set: d.Set}, &d.ends
	defer open.close()
	src := open.array(e.src)
	dst := src
	if e.src != e.dst || !e.byEdge {
		dst = open.array(e.dst)
	}
	var others []*array.Reader
	for _, name := range columns {
		others = append(others, open.array(name))
	}
	if open.err != nil {
		return open.err
	}
	if e.src == e.dst && !e.byEdge {
		if err := dst.Skip(e.m); err != nil {
			return d.fail(e.dst, -1, "%w", err)
		}
	}
	var b source.Batch
	for at := int64(0); at < e.m; at += chunkEdges {
		n := min(chunkEdges, e.m-at)
		if err := e.next(&b, src, dst, n); err != nil {
			return d.fail(e.src, -1, "%w", err)
		}
		b.Columns = b.Columns[:0]
		for i, r := range others {
			c, err := r.Next(n * r.RowWidth())
			if err != nil {
				return d.fail(columns[i], -1, "%w", err)
			}
			b.Columns = append(b.Columns, c)
		}
		if err := yield(b); err != nil {
			return err
		}
	}
	return nil
}

// next reads the ends of n edges.
func (e *ends) next(b *source.Batch, src, dst *array.Reader, n int64) (err error) {
	if e.src != e.dst || !e.byEdge {
		if b.Src, err = src.Ints(n); err == nil {
			b.Dst, err = dst.Ints(n)
		}
		return err
	}
	both, err := src.Ints(2 * n)
	if err != nil {
		return err
	}
	b.Src, b.Dst = slices.Grow(b.Src[:0], int(n))[:n], slices.Grow(b.Dst[:0], int(n))[:n]
	return inParts(int(n), func(_, lo, hi int) {
		src, dst, from := b.Src[lo:hi], b.Dst[lo:hi], both[2*lo:2*hi]
		for i := range src {
			src[i], dst[i] = from[2*i], from[2*i+1]
		}
	})
}

// inParts has all cores do a part each of n things, where these are many.
func inParts(n int, do func(worker, lo, hi int)) error {
	workers := min(machine.Workers(), n/4096+1)
	return csc.Parallel(workers, func(w int) error {
		do(w, n*w/workers, n*(w+1)/workers)
		return nil
	})
}

// opened is arrays that are open together. The first error stays.
type opened struct {
	set   array.Set
	files []io.Closer
	err   error
}

func (o *opened) array(name string) *array.Reader {
	if o.err != nil {
		return nil
	}
	r, c, err := o.set[name].Open()
	if err != nil {
		o.err = err
		return nil
	}
	o.files = append(o.files, c)
	return r
}

func (o *opened) close() {
	for _, c := range o.files {
		_ = c.Close()
	}
}

// countNodes takes the number of nodes from the arrays of nodes, from num_nodes, from the request, else from the edges.
func (d *Describer) countNodes(ctx context.Context) (err error) {
	node := d.Graph.Node()
	if d.R.Nodes > 0 {
		node.Count = d.R.Nodes
		return nil
	}
	if name := d.find([]string{"num_nodes"}); name != "" {
		d.Used[name] = true
		node.Count, err = d.number(name)
		return err
	}
	if n, ok := d.counted(); ok {
		node.Count = n
		return nil
	}
	for _, name := range d.Set.Names() {
		if ofNodes[strings.ToLower(name)] == "" {
			continue
		}
		h, err := d.header(name)
		if err != nil && !errors.Is(err, array.ErrObject) {
			return err
		}
		if len(h.Shape) > 0 && h.Elements() > 0 {
			node.Count = h.Shape[0]
			return nil
		}
	}
	count := func(ctx context.Context) error { return d.countEnds(ctx, d.greatestOf) }
	if d.R.LateCount == 0 || d.ends.m < d.R.LateCount || d.Set[d.ends.src].OpenPlaces == nil || !d.edgesAlone() {
		return count(ctx)
	}
	d.Graph.CountNodes = count
	return d.countEnds(ctx, d.sampleOf)
}

// countEnds counts the nodes by the greatest ids of the edges' ends.
func (d *Describer) countEnds(ctx context.Context,
	greatest func(ctx context.Context, name string) (int64, error)) error {
	most, e := int64(-1), &d.ends
	for _, name := range slices.Compact([]string{e.src, e.dst}) {
		v, err := greatest(ctx, name)
		if err != nil {
			return err
		}
		most = max(most, v)
	}
	if source.TooSparse(most, e.m) {
		return d.fail(e.src, -1, "ids reach %d, but there are only %s: say how many nodes there are by an array "+
			"num_nodes", most, source.Counted(e.m, "edge", "edges"))
	}
	d.Graph.Node().Count, d.Graph.Node().Counted = most+1, true
	return nil
}

// eachInt hands the numbers of an array on, n at a time, and where in it these begin.
func (d *Describer) eachInt(ctx context.Context, name string, n int64, take func(at int64, v []int64) error) error {
	return d.read(ctx, name, func(r *array.Reader, at int64) error {
		v, err := r.Ints(n)
		if err != nil {
			return d.fail(name, -1, "%w", err)
		}
		return take(at, v)
	})
}

// eachFloat is eachInt for numbers of any kind.
func (d *Describer) eachFloat(name string, take func(at int64, v []float64) error) error {
	return d.read(context.Background(), name, func(r *array.Reader, at int64) error {
		v, err := r.Floats(chunkEdges)
		if err != nil {
			return d.fail(name, -1, "%w", err)
		}
		return take(at, v)
	})
}

// read opens an array, and has some read until none are left.
func (d *Describer) read(ctx context.Context, name string, some func(r *array.Reader, at int64) error) error {
	r, c, err := d.Set[name].Open()
	if err != nil {
		return err
	}
	defer c.Close()
	for all := r.Left(); r.Left() > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := some(r, all-r.Left()); err != nil {
			return err
		}
	}
	return nil
}

// greatestOf returns the greatest number of an array, and at least -1.
func (d *Describer) greatestOf(ctx context.Context, name string) (int64, error) {
	most := make([]int64, machine.Workers())
	for w := range most {
		most[w] = -1
	}
	err := d.eachInt(ctx, name, 2*chunkEdges, func(_ int64, v []int64) error {
		return inParts(len(v), func(w, lo, hi int) {
			if lo < hi {
				most[w] = max(most[w], slices.Max(v[lo:hi]))
			}
		})
	})
	return slices.Max(most), err
}

// ints reads a whole array of integers. 8 bytes each stay counted.
func (d *Describer) ints(name string) ([]int64, error) {
	r, c, err := d.Set[name].Open()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	v, err := r.AllInts(d.R.Budget.Ledger())
	if err != nil {
		err = d.fail(name, -1, "%w", err)
	}
	return v, err
}

// number reads an array of one number of things.
func (d *Describer) number(name string) (int64, error) {
	v, err := d.ints(name)
	if err != nil {
		return 0, err
	}
	if len(v) != 1 || v[0] < 0 {
		return 0, d.fail(name, -1, "is %d, not one number", v[:min(len(v), 4)])
	}
	return v[0], nil
}

// labels reads labels, of which NaN is -1.
func (d *Describer) labels(name string, h *array.Header) (list []int64, err error) {
	if h.DType != unified.Float32 && h.DType != unified.Float64 {
		return d.ints(name)
	}
	list = []int64{}
	err = d.eachFloat(name, func(at int64, v []float64) (err error) {
		if list, err = source.Grow(d.R.Budget.Ledger(), list, len(v)); err != nil {
			return d.fail(name, -1, "%w", err)
		}
		for i, x := range v {
			switch {
			case math.IsNaN(x):
				list = append(list, -1)
			case x == math.Trunc(x) && math.Abs(x) < 1<<62:
				list = append(list, int64(x))
			default:
				return d.fail(name, at+int64(i), "%v is not a class", x)
			}
		}
		return nil
	})
	return list, err
}

// errNoWeight ends the reading of weights.
var errNoWeight = errors.New("not a weight")

// weights reports whether all numbers of an array are finite and none is negative.
func (d *Describer) weights(name string) (bool, error) {
	err := d.eachFloat(name, func(_ int64, v []float64) error {
		if slices.ContainsFunc(v, func(x float64) bool { return !(x >= 0) || math.IsInf(x, 0) }) {
			return errNoWeight
		}
		return nil
	})
	if err == errNoWeight {
		return false, nil
	}
	return err == nil, err
}
