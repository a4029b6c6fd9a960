package planetoid

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/lines"
	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Reader reads citation graphs of Planetoid.
var Reader = source.Reader{Name: "planetoid",
	Title:   "a citation graph of Planetoid: ind.NAME.graph and others",
	Options: []string{"tables"}, Find: findGraphs, Read: readGraph}

var parts = []string{"x", "y", "tx", "ty", "allx", "ally", "test.index"}

func findGraphs(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		stem, ok := strings.CutSuffix(name, ".graph")
		if !ok || !strings.HasPrefix(path.Base(name), "ind.") {
			continue
		}
		if !slices.ContainsFunc(parts, func(p string) bool { return !t.Has(stem + "." + p) }) {
			found = append(found, name)
		}
	}
	return found
}

// valid is how many nodes behind those of training are for validation, by convention.
const valid = 500

// dataset is one being read.
type dataset struct {
	at   source.Place
	r    *source.Request
	g    *source.Graph
	test []int64
	all  int64 // rows of allx
	kept int64 // bytes that the ledger counts
}

// Close gives memory back.
func (d *dataset) Close() error {
	d.r.Budget.Ledger().Give(pinned.Sources, d.kept)
	d.kept = 0
	return nil
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	if !strings.HasSuffix(at.Name, ".graph") {
		return nil, source.Error(at.Path(), "", -1, "name the file ind.NAME.graph, or its folder",
			errors.New("is not a graph of Planetoid"))
	}
	d := &dataset{at: at, r: r, g: source.Plain()}
	d.g.Own(d)
	defer source.CloseOnError(&err, d.g)
	for _, step := range []func(context.Context) error{d.readTest, d.readFeatures, d.readLabels, d.readGraph} {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d.g, nil
}

func (d *dataset) part(name string) source.Place {
	return d.at.Beside(strings.TrimSuffix(path.Base(d.at.Name), "graph") + name)
}

func (d *dataset) fail(part string, row int64, err error) error {
	return source.Error(d.part(part).Path(), "", row, "", err)
}

// read reads a pickle.
func (d *dataset) read(part string) (any, error) {
	f, err := d.part(part).Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := d.r.Budget.Ledger()
	before := l.Used(pinned.Sources)
	v, err := pickle.Read(bufio.NewReaderSize(f, 1<<16), nil, l)
	d.kept += l.Used(pinned.Sources) - before
	if err != nil {
		return nil, d.fail(part, -1, err)
	}
	return v, nil
}

// readTest reads the test nodes.
func (d *dataset) readTest(ctx context.Context) error {
	return lines.Each(ctx, d.part("test.index"), d.r, "", func(_ int64, line []byte) error {
		text := strings.TrimSpace(string(line))
		if text == "" {
			return nil
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 || v > 1<<40 {
			return fmt.Errorf("%.40q is not the number of a node", text)
		}
		return source.Append(d.r.Budget.Ledger(), &d.test, v)
	})
}

// sparse is a matrix in rows.
type sparse struct {
	rows, cols      int64
	indptr, indices []int64
	data            []float64
}

// matrix reads a matrix of scipy.
func (d *dataset) matrix(part string) (*sparse, error) {
	v, err := d.read(part)
	if err != nil {
		return nil, err
	}
	m, err := d.asMatrix(v)
	if err != nil {
		return nil, d.fail(part, -1, err)
	}
	return m, nil
}

func (d *dataset) asMatrix(v any) (*sparse, error) {
	o, ok := v.(*pickle.Object)
	if !ok || o.State == nil {
		return nil, fmt.Errorf("it is %s, not a sparse matrix", pickle.Describe(v))
	}
	state, ok := o.State.(*pickle.Dict)
	if !ok {
		return nil, fmt.Errorf("it is %s, not a sparse matrix", pickle.Describe(v))
	}
	m := &sparse{}
	for i, to := range []*[]int64{&m.indptr, &m.indices} {
		name := []string{"indptr", "indices"}[i]
		x, _ := state.Get(name)
		a, err := pickle.AsArray(x)
		if err == nil {
			*to, err = d.ints(a)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	x, _ := state.Get("data")
	a, err := pickle.AsArray(x)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if m.data, err = d.floats(a); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	shape, ok := state.Get("_shape")
	if !ok {
		shape, _ = state.Get("shape")
	}
	t, _ := shape.(pickle.Tuple)
	if len(t) != 2 {
		return nil, errors.New("it has no shape")
	}
	m.rows, _ = t[0].(int64)
	m.cols, _ = t[1].(int64)
	return m, m.check()
}

// check compares the parts of a matrix with each other.
func (m *sparse) check() error {
	if m.rows < 0 || m.cols < 1 || m.cols > 1<<24 || int64(len(m.indptr)) != m.rows+1 || m.indptr[0] != 0 ||
		m.indptr[m.rows] != int64(len(m.indices)) || len(m.indices) != len(m.data) || !slices.IsSorted(m.indptr) {
		return fmt.Errorf("a matrix of %d x %d whose parts do not fit", m.rows, m.cols)
	}
	if i := slices.IndexFunc(m.indices, func(c int64) bool { return c < 0 || c >= m.cols }); i >= 0 {
		return fmt.Errorf("entry %d is in column %d of %d", i, m.indices[i], m.cols)
	}
	return nil
}

func (d *dataset) take(n int64) error {
	err := d.r.Budget.Ledger().Take(pinned.Sources, n)
	if err == nil {
		d.kept += n
	}
	return err
}

func (d *dataset) ints(a *array.Array) ([]int64, error) {
	v, err := pickle.Ints(a, d.r.Budget.Ledger())
	d.kept += 8 * int64(len(v))
	return v, err
}

func (d *dataset) floats(a *array.Array) ([]float64, error) {
	size := a.DType.Size()
	if err := d.take(8 * int64(len(a.Data)) / size); err != nil {
		return nil, err
	}
	if a.DType == unified.Float16 || a.Fortran && len(a.Shape) > 1 {
		return nil, fmt.Errorf("%v in an order that is not supported", a.DType)
	}
	v := make([]float64, 0, int64(len(a.Data))/size)
	for b := a.Data; int64(len(b)) >= size; b = b[size:] {
		v = append(v, a.DType.Float(b))
	}
	return v, nil
}

// readFeatures counts the nodes and adds their features.
func (d *dataset) readFeatures(context.Context) error {
	all, err := d.matrix("allx")
	if err != nil {
		return err
	}
	tx, err := d.matrix("tx")
	if err != nil {
		return err
	}
	d.all = all.rows
	node := d.g.Node()
	if node.Count = all.rows; tx.rows != int64(len(d.test)) || tx.cols != all.cols {
		return d.fail("tx", -1, fmt.Errorf("it is %d x %d: there are %d test nodes, and allx has %d columns", tx.rows,
			tx.cols, len(d.test), all.cols))
	}
	for _, v := range d.test {
		node.Count = max(node.Count, v+1)
	}
	if source.TooSparse(node.Count, all.rows+tx.rows) {
		return d.fail("test.index", -1, fmt.Errorf("it names node %d, but there are %d rows of features",
			node.Count-1, all.rows+tx.rows))
	}
	if err := d.take(8 * node.Count); err != nil {
		return err
	}
	row := make([]int64, node.Count) // of tx, from 1; 0: none
	for i, v := range d.test {
		if v < all.rows || row[v] != 0 {
			return d.fail("test.index", int64(i)+1, fmt.Errorf("node %d is there twice", v))
		}
		row[v] = int64(i) + 1
	}
	if holes := node.Count - all.rows - tx.rows; holes > 0 {
		d.g.Tell(source.Altered, "feature", holes, "%s no features and no label: features are then 0, the label -1",
			source.Counted(holes, "node has", "nodes have"))
	}
	d.g.NoteDense(node.Count, all.cols, int64(len(all.data)+len(tx.data)))
	c := graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{all.cols}}
	node.Columns = append(node.Columns, source.Column{Column: c, Write: func(ctx context.Context, w io.Writer) error {
		return source.WriteRows(ctx, w, node.Count, all.cols, func(i int64, to []float32) {
			m, k := all, i
			if i >= all.rows {
				if m, k = tx, row[i]-1; k < 0 {
					return
				}
			}
			for e := m.indptr[k]; e < m.indptr[k+1]; e++ {
				to[m.indices[e]] += float32(m.data[e])
			}
		})
	}})
	return nil
}

// classes reads one-hot labels.
func (d *dataset) classes(part string, rows int64) ([]int64, error) {
	v, err := d.read(part)
	if err != nil {
		return nil, err
	}
	a, err := pickle.AsArray(v)
	if err != nil {
		return nil, d.fail(part, -1, err)
	}
	if len(a.Shape) != 2 || a.Shape[1] < 1 || rows >= 0 && a.Shape[0] != rows {
		return nil, d.fail(part, -1, fmt.Errorf("its shape is %v, and there are %d nodes", a.Shape, rows))
	}
	x, err := d.floats(a)
	if err != nil {
		return nil, d.fail(part, -1, err)
	}
	list := make([]int64, a.Shape[0])
	for i := range list {
		one := x[int64(i)*a.Shape[1] : int64(i+1)*a.Shape[1]]
		list[i] = int64(slices.IndexFunc(one, func(v float64) bool { return v != 0 }))
	}
	return list, nil
}

// readLabels adds labels and splits.
func (d *dataset) readLabels(context.Context) error {
	all, err := d.classes("ally", d.all)
	if err != nil {
		return err
	}
	test, err := d.classes("ty", int64(len(d.test)))
	if err != nil {
		return err
	}
	train, err := d.classes("y", -1)
	if err != nil {
		return err
	}
	node := d.g.Node()
	if err := d.take(8 * node.Count); err != nil {
		return err
	}
	labels := append(make([]int64, 0, node.Count), all...)
	for int64(len(labels)) < node.Count {
		labels = append(labels, -1)
	}
	for i, v := range d.test {
		labels[v] = test[i]
	}
	node.SetLabels(labels)
	n := int64(len(train))
	if n > d.all {
		return d.fail("y", -1, fmt.Errorf("there are %d training nodes, and allx has %d rows", n, d.all))
	}
	ids := func(from, to int64) (list []int64) {
		for v := from; v < min(to, d.all); v++ {
			list = append(list, v)
		}
		return list
	}
	d.g.Splits = []source.Split{{Name: "train", IDs: ids(0, n)}, {Name: "val", IDs: ids(n, n+valid)},
		{Name: "test", IDs: slices.Sorted(slices.Values(d.test))}}
	return nil
}

// readGraph adds the edges.
func (d *dataset) readGraph(ctx context.Context) error {
	v, err := d.read("graph")
	if err != nil {
		return err
	}
	lists, ok := v.(*pickle.Dict)
	if !ok {
		return d.fail("graph", -1, fmt.Errorf("it is %s, not a dictionary", pickle.Describe(v)))
	}
	listed := source.NewListing(d.r.Budget, 0)
	d.g.Own(listed)
	twice, loops, count := 0, 0, d.g.Node().Count
	var ends []int64
	for i, k := range lists.Keys {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		from, isNode := k.(int64)
		to, isList := lists.Values[i].(*pickle.List)
		if !isNode || !isList || from < 0 || from >= count {
			return d.fail("graph", int64(i), fmt.Errorf("it is not one of %d nodes, with a list", count))
		}
		ends = ends[:0]
		for _, x := range to.Items {
			end, isNode := x.(int64)
			if !isNode || end < 0 || end >= count {
				return d.fail("graph", int64(i), fmt.Errorf("a neighbour of node %d is not one of %d nodes", from,
					count))
			}
			ends = append(ends, end)
		}
		slices.Sort(ends)
		for j, end := range ends {
			switch {
			case j > 0 && end == ends[j-1]:
				twice++
			case end == from:
				loops++
			default:
				listed.Add(from, end, 0)
			}
		}
		if listed.Full() {
			if err := listed.Flush(); err != nil {
				return err
			}
		}
	}
	if err := listed.Flush(); err != nil {
		return err
	}
	if twice+loops > 0 {
		d.g.Tell(source.LeftOut, "edges", int64(twice+loops),
			"of the neighbours that are listed, %d are there twice and %d "+
				"are the node itself: they are left out", twice, loops)
	}
	d.g.Edges.Count = listed.Len()
	d.g.Edges.Each, err = listed.Each()
	return err
}
