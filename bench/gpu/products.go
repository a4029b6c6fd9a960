package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

type productsOptions struct {
	dataset   string
	fanouts   string
	batchSize int
	widths    []int64
	save      string
}

type productsResult struct {
	machineResult
	CopyGBPerS float64        `json:"copy_gb_per_s"` // of device memory, read and written
	Cells      []productsCell `json:"cells"`
}

// productsCell is one operation of package sparse, on the graph's in-edges or on the outermost block of a batch.
type productsCell struct {
	Graph     string     `json:"graph"` // whole, block
	Operation string     `json:"operation"`
	Rows      int64      `json:"rows"`
	Edges     int64      `json:"edges"`
	Width     int64      `json:"width"`
	Seconds   [3]float64 `json:"seconds"`  // quartiles
	NoReuse   float64    `json:"no_reuse"` // GB/s: bytes without reuse of rows, over the median
	AtLeast   float64    `json:"at_least"` // GB/s: bytes that must be moved
}

// products measures the operations of package sparse on a dataset's graph and on a block of it, and compares the first
// rows of each result with the CPU's. With an error it returns the cells before it.
func (r *rig) products(o productsOptions) (result *productsResult, err error) {
	if len(o.widths) == 0 || slices.Min(o.widths) < 1 || o.batchSize < 1 {
		return nil, errors.New("-widths and -batch-size must be 1 or more")
	}
	ds, err := formats.Open(o.dataset)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	kernels, err := sparse.OpenDevice(r.dev)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, kernels.Close()) }()
	result = &productsResult{machineResult: r.machine()}
	if result.CopyGBPerS, err = r.copyRate(); err != nil {
		return nil, err
	}
	g := ds.Graph()
	whole := sparse.DeviceMatrix{Cols: g.NumNodes(), Indptr: unified.FromSlice(g.Indptr()), Indices: g.Indices()}
	m := &multiplying{rig: r, kernels: kernels, pool: sparse.Open(sparse.Options{}), result: result}
	defer func() { err = errors.Join(err, m.pool.Close()) }()
	if err := r.block(ds, o, func(block sparse.DeviceMatrix) error {
		return errors.Join(save(o.save, block), m.all("block", block, o.widths))
	}); err != nil {
		return result, err
	}
	return result, m.all("whole", whole, o.widths)
}

// copyRate returns GB/s of a copy within device memory.
func (r *rig) copyRate() (float64, error) {
	n := int64(1 << 28)
	if r.machine().Simulated {
		n = 1 << 16
	}
	room, err := pinned.Allocate(2*n, pinned.Options{Device: r.dev})
	if err != nil {
		return 0, err
	}
	took, err := r.time(func() error { return r.stream.Copy(room.Address()+device.Address(n), room.Address(), n) })
	return float64(2*n) / took / 1e9, errors.Join(err, room.Close())
}

// block calls f with the outermost block of a batch, valid until f returns.
func (r *rig) block(ds *formats.Dataset, o productsOptions, f func(sparse.DeviceMatrix) error) (err error) {
	ld, err := r.loader(ds, o.fanouts, o.batchSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ld.Close()) }()
	for batch, err := range ld.Epoch(r.ctx, 0) {
		if err != nil {
			return err
		}
		b := &batch.Sample.Blocks[0][0]
		return f(sparse.DeviceMatrix{Cols: b.NumSrc, Indptr: b.Indptr, Indices: b.Indices})
	}
	return errors.New("the dataset has no seeds")
}

// save writes a block to a folder, for other programs; "" means no folder.
func save(folder string, a sparse.DeviceMatrix) error {
	if folder == "" {
		return nil
	}
	columns := unified.FromSlice([]int32{int32(a.Cols)})
	for name, t := range map[string]unified.Tensor{"indptr": a.Indptr, "indices": a.Indices, "columns": columns} {
		if err := os.WriteFile(filepath.Join(folder, "block."+name), t.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// multiplying measures operations of one matrix after another.
type multiplying struct {
	*rig
	kernels *sparse.DeviceKernels
	pool    *sparse.Pool
	result  *productsResult

	name     string
	matrix   sparse.DeviceMatrix // on the device
	distinct int64               // columns
	first    *sparse.Matrix      // the first rows, on the host
	values   operand             // of the edges
	undo     undo
}

// operand is a tensor on the device, with the host's elements.
type operand struct {
	unified.Tensor
	host []float32
}

// checkedEdges are about those of the rows that are compared.
const checkedEdges = 1 << 18

// all measures every operation at every width.
func (m *multiplying) all(name string, a sparse.DeviceMatrix, widths []int64) (err error) {
	m.name, m.undo = name, nil
	defer func() { err = m.undo.run(err) }()
	if err := m.prepare(a); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := m.softmax(); err != nil {
		return fmt.Errorf("%s: softmax: %w", name, err)
	}
	for _, width := range widths {
		if err := m.at(width); err != nil {
			return fmt.Errorf("%s, %d columns: %w", name, width, err)
		}
	}
	return nil
}

func (m *multiplying) prepare(a sparse.DeviceMatrix) (err error) {
	if m.distinct, err = distinct(a.Indices, a.Cols); err != nil {
		return err
	}
	ends, err := unified.Integers(a.Indptr)
	if err != nil {
		return err
	}
	rows, last := int64(0), int64(0)
	for rows < a.Rows() && last < checkedEdges {
		rows++
		last = ends(rows)
	}
	indptr, err := a.Indptr.Rows(0, rows+1)
	if err != nil {
		return err
	}
	indices, err := a.Indices.Rows(0, last)
	if err != nil {
		return err
	}
	if m.first, err = sparse.New(a.Cols, indptr, indices); err != nil {
		return err
	}
	m.matrix = sparse.DeviceMatrix{Cols: a.Cols}
	if m.matrix.Indptr, err = m.put(&m.undo, a.Indptr); err != nil {
		return err
	}
	if m.matrix.Indices, err = m.put(&m.undo, a.Indices); err != nil {
		return err
	}
	m.values, err = m.numbers(a.Indices.Len(), 0)
	return err
}

// numbers returns n numbers from -1 to 1, or with a width n rows.
func (m *multiplying) numbers(n, width int64) (o operand, err error) {
	o.host = make([]float32, n*max(width, 1))
	state := uint32(7)
	for i := range o.host {
		state = state*1664525 + 1013904223
		o.host[i] = float32(int32(state)) / math.MaxInt32
	}
	t := unified.FromSlice(o.host)
	if width > 0 {
		t, err = t.Reshape(n, width)
	}
	if err == nil {
		o.Tensor, err = m.put(&m.undo, t)
	}
	return o, err
}

// at measures the operations that have a width.
func (m *multiplying) at(width int64) (err error) {
	before := m.undo
	m.undo = nil
	defer func() { err, m.undo = m.undo.run(err), before }()
	x, err := m.numbers(m.matrix.Cols, width)
	if err != nil {
		return err
	}
	y, err := m.place(&m.undo, unified.Float32, m.matrix.Rows(), width)
	if err != nil {
		return err
	}
	edges, rows := m.matrix.Indices.Len(), m.matrix.Rows()
	rest := edges*m.matrix.Indices.DType().Size() + rows*m.matrix.Indptr.DType().Size()
	for _, way := range []struct {
		name   string
		reduce sparse.Reduce
		values operand
	}{{"sum", sparse.Sum, operand{}}, {"weighted sum", sparse.Sum, m.values}, {"mean", sparse.Mean, operand{}}} {
		bytes := rest + int64(len(way.values.Bytes()))
		err := m.measure(way.name, width, 4*width*(edges+rows)+bytes, 4*width*(m.distinct+rows)+bytes, y,
			func() error { return m.kernels.SpMM(m.stream, y, way.reduce, m.matrix, way.values.Tensor, x.Tensor) },
			func(want unified.Tensor) error {
				values := unified.Tensor{}
				if way.values.host != nil {
					values = unified.FromSlice(way.values.host[:m.first.Edges()])
				}
				return m.pool.SpMM(want, way.reduce, m.first, values, onHost(x.host, width))
			})
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	if rows > m.matrix.Cols {
		return nil
	}
	u, err := x.Rows(0, rows) // destinations are the first sources
	if err != nil {
		return err
	}
	out, err := m.place(&m.undo, unified.Float32, edges)
	if err != nil {
		return err
	}
	return m.measure("dot", width, 4*width*(edges+rows)+rest+4*edges, 4*width*max(m.distinct, rows)+rest+4*edges, out,
		func() error { return m.kernels.SDDMM(m.stream, out, m.matrix, u, x.Tensor) },
		func(want unified.Tensor) error {
			return m.pool.SDDMM(want, m.first, onHost(x.host[:m.first.Rows()*width], width), onHost(x.host, width))
		})
}

func (m *multiplying) softmax() error {
	edges := m.matrix.Indices.Len()
	out, err := m.place(&m.undo, unified.Float32, edges)
	if err != nil {
		return err
	}
	rest := m.matrix.Rows() * m.matrix.Indptr.DType().Size()
	return m.measure("softmax", 0, 8*edges+rest, 8*edges+rest, out,
		func() error { return m.kernels.Softmax(m.stream, out, m.matrix, m.values.Tensor) },
		func(want unified.Tensor) error {
			return m.pool.Softmax(want, m.first, unified.FromSlice(m.values.host[:m.first.Edges()]))
		})
}

// measure times an operation that writes out, and compares its first rows with those that the CPU computes.
func (m *multiplying) measure(operation string, width, noReuse, atLeast int64, out unified.Tensor, run func() error,
	onCPU func(want unified.Tensor) error) error {
	quartiles, err := m.quartiles(run)
	if err != nil {
		return err
	}
	n := m.first.Edges()
	if out.Rank() == 2 {
		n = m.first.Rows() * width
	}
	numbers, got := make([]float32, n), make([]byte, 4*n)
	want := unified.FromSlice(numbers)
	if out.Rank() == 2 {
		want = onHost(numbers, width)
	}
	if err := errors.Join(onCPU(want), m.stream.CopyToHost(got, out.Address()), m.stream.Synchronize()); err != nil {
		return err
	}
	if !bytes.Equal(got, want.Bytes()) {
		return errors.New("the device's result is not the CPU's")
	}
	m.result.Cells = append(m.result.Cells, productsCell{Graph: m.name, Operation: operation, Rows: m.matrix.Rows(),
		Edges: m.matrix.Indices.Len(), Width: width, Seconds: quartiles, NoReuse: float64(noReuse) / quartiles[1] / 1e9,
		AtLeast: float64(atLeast) / quartiles[1] / 1e9})
	return nil
}

// onHost views rows of numbers.
func onHost(numbers []float32, width int64) unified.Tensor {
	t, _ := unified.FromSlice(numbers).Reshape(int64(len(numbers))/width, width)
	return t
}

// distinct counts the numbers below n that are met.
func distinct(t unified.Tensor, n int64) (count int64, err error) {
	at, err := unified.Integers(t)
	if err != nil {
		return 0, err
	}
	seen := make([]bool, n)
	for i := range t.Len() {
		j := at(i)
		if j < 0 || j >= n {
			return 0, fmt.Errorf("column %d is not one of %d", j, n)
		}
		if !seen[j] {
			seen[j] = true
			count++
		}
	}
	return count, nil
}
