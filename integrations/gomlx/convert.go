package gomlx

import (
	"fmt"
	"strings"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/gomlx/gomlx/pkg/core/shapes"
	"github.com/gomlx/gomlx/pkg/core/tensors"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// converter turns batches into tensors. One goroutine at a time uses it.
type converter struct {
	spec   Spec
	arrays []layout.Array
	// Numbers of arrays, in the order of the loader's options; of the edges those of layer 0.
	node, seed, edge []int
	idType           dtypes.DType
	pad              Pad
	size             sizes   // of the batch before; they only grow
	nodes, edges     []int64 // scratch: real lengths, as in sizes
}

func newConverter(ld *loader.Loader, pad Pad) (*converter, error) {
	schema := ld.Schema()
	if n, e := len(schema.Nodes), len(schema.Edges); n != 1 || e != 1 {
		return nil, fmt.Errorf("%w: it has %d node types and %d edge types: train on it from package loader, or on a "+
			"graph without types", ErrGraph, n, e)
	}
	c := &converter{pad: pad, idType: dtypeOf(schema.IDType()), arrays: ld.Arrays()}
	for i, a := range c.arrays {
		switch {
		case !a.IsColumn():
		case dtypeOf(a.DType) == dtypes.InvalidDType:
			return nil, fmt.Errorf("%w: column %q is %v, which GoMLX does not have", ErrOptions, a.Column, a.DType)
		case a.Kind == layout.NodeColumn:
			c.node = append(c.node, i)
		case a.Kind == layout.SeedColumn:
			c.seed = append(c.seed, i)
		case a.Layer == 0:
			c.edge = append(c.edge, i)
		}
	}
	seeds := fullSeeds(ld)
	said, err := ld.Answer().Sampler.Describe(schema, int(seeds))
	if err != nil {
		return nil, err
	}
	bound := said.Bound
	c.spec = Spec{layers: bound.Layers, node: c.names(c.node), edge: c.names(c.edge), seed: c.names(c.seed)}
	c.nodes, c.edges = make([]int64, bound.Layers+1), make([]int64, bound.Layers)
	c.size = leastSizes(bound.Layers, seeds)
	if pad == Maximum {
		if c.size, err = maximumSizes(bound, seeds, schema.Nodes[0].Count); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *converter) names(numbers []int) string {
	list := make([]string, len(numbers))
	for i, n := range numbers {
		list[i] = c.arrays[n].Column
	}
	return strings.Join(list, ",") // no name has a comma in it
}

// convert makes the tensors of a batch, in the order that Unpack reads.
func (c *converter) convert(b *loader.Batch) item {
	if err := c.measure(b.Sample); err != nil {
		return item{err: fmt.Errorf("epoch %d, batch %d: %w", b.Epoch, b.Number, err)}
	}
	w := writer{}
	all, seeds := c.size.nodes[0], c.size.nodes[c.spec.layers]
	w.rows(c.idType, all, nil, b.Sample.Nodes[0])
	for _, i := range c.node {
		w.column(&c.arrays[i], all, b.Array(i))
	}
	w.mask(all, c.nodes[0])
	for l := range c.spec.layers {
		block := &b.Sample.Blocks[l][0]
		w.sources(block, c.size.edges[l], c.size.nodes[l])
		w.targets(block, c.size.edges[l], c.size.nodes[l+1])
		w.mask(c.size.nodes[l+1], c.nodes[l+1])
		for _, i := range c.edge {
			w.column(&c.arrays[i], c.size.edges[l], b.Edge(l, 0, c.arrays[i].Column))
		}
	}
	for _, i := range c.seed[min(1, len(c.seed)):] {
		w.column(&c.arrays[i], seeds, b.Array(i))
	}
	inputs := w.out
	w.out = nil
	if len(c.seed) > 0 {
		w.column(&c.arrays[c.seed[0]], seeds, b.Array(c.seed[0]))
		w.mask(seeds, c.nodes[c.spec.layers])
	}
	it := item{inputs: inputs, labels: w.out, state: b.State()}
	if w.err != nil {
		it.free()
		return item{err: fmt.Errorf("epoch %d, batch %d: %w", b.Epoch, b.Number, w.err)}
	}
	return it
}

// measure sets the real lengths and the padded ones. Samplers may be anybody's: it checks what the rest relies on.
func (c *converter) measure(s *graph.Sample) error {
	if len(s.Blocks) != c.spec.layers {
		return fmt.Errorf("%w: the sample has %d layers, the sampler's Bound %d", ErrBatch, len(s.Blocks),
			c.spec.layers)
	}
	c.nodes[0] = s.Nodes[0].Len()
	for l := range s.Blocks {
		block := &s.Blocks[l][0]
		if block.NumSrc > c.nodes[l] || block.NumDst > block.NumSrc {
			return fmt.Errorf("%w: layer %d has %d sources and %d destinations, of %d nodes", ErrBatch, l, block.NumSrc,
				block.NumDst, c.nodes[l])
		}
		c.nodes[l+1], c.edges[l] = block.NumDst, block.NumEdges()
	}
	if seeds := s.NumNodes[0][0]; c.nodes[c.spec.layers] != seeds {
		return fmt.Errorf("%w: the last layer has %d destinations for %d seeds", ErrBatch, c.nodes[c.spec.layers],
			seeds)
	}
	if c.pad == PowerOfTwo {
		c.size.grow(c.nodes, c.edges)
	}
	return c.size.fits(c.nodes, c.edges)
}

// writer makes tensors in local memory, one after another. The first error stays.
type writer struct {
	out []*tensors.Tensor
	err error
}

// column adds a column of n rows, which are vectors at least.
func (w *writer) column(col *layout.Array, n int, t unified.Tensor) {
	row := col.Row
	if len(row) == 0 {
		row = []int64{1}
	}
	w.rows(dtypeOf(col.DType), n, row, t)
}

// rows adds a tensor [n, row...] that begins with the bytes of t and is zero from there on.
func (w *writer) rows(dtype dtypes.DType, n int, row []int64, t unified.Tensor) {
	dims := make([]int, 0, 1+len(row))
	dims = append(dims, n)
	for _, d := range row {
		dims = append(dims, int(d))
	}
	w.add(dtype, dims, func(out *tensors.Tensor) error {
		if t.Placement() == pinned.Device {
			return fmt.Errorf("%w: it lies in device memory: set the loader's Options.Device.Name to \"cpu\"", ErrBatch)
		}
		if t.Valid() && (dtypeOf(t.DType()) != dtype || uintptr(len(t.Bytes())) > out.Memory()) {
			return fmt.Errorf("%w: a column is %v, but %s was expected", ErrBatch, t, out.Shape())
		}
		return out.MutableBytes(func(to []byte) { copy(to, t.Bytes()) })
	})
}

// mask adds a mask [n] of which the first real are true.
func (w *writer) mask(n int, real int64) {
	w.add(dtypes.Bool, []int{n}, func(out *tensors.Tensor) error {
		return tensors.MutableFlatData(out, func(to []bool) {
			for i := range to[:real] {
				to[i] = true
			}
		})
	})
}

// sources adds the local ids of the edges' sources, of which there are levelSize with the dump row.
func (w *writer) sources(block *graph.Block, n, levelSize int) {
	w.ids(n, func(to []int32) error {
		from, err := hostIDs(block.Indices)
		if err != nil {
			return err
		}
		least, most := int32(0), int32(-1)
		for i, v := range from {
			to[i] = v
			least, most = min(least, v), max(most, v)
		}
		if least < 0 || int64(most) >= block.NumSrc {
			return fmt.Errorf("%w: an edge's source is %d or %d, but there are %d", ErrBatch, least, most, block.NumSrc)
		}
		fill(to[len(from):], levelSize-1)
		return nil
	})
}

// targets adds the local ids of the edges' destinations, ascending, of which there are levelSize with the dump row.
func (w *writer) targets(block *graph.Block, n, levelSize int) {
	w.ids(n, func(to []int32) error {
		indptr, err := hostIDs(block.Indptr)
		if err != nil {
			return err
		}
		at, edges := int32(0), int32(block.NumEdges())
		for v, end := range indptr[1:] {
			if end < at || end > edges || indptr[0] != 0 {
				return fmt.Errorf("%w: the edges of destination %d are %d to %d of %d", ErrBatch, v, at, end, edges)
			}
			fill(to[at:end], v)
			at = end
		}
		if at != edges {
			return fmt.Errorf("%w: %d of %d edges belong to no destination", ErrBatch, edges-at, edges)
		}
		fill(to[edges:], levelSize-1)
		return nil
	})
}

func fill(to []int32, v int) {
	for i := range to {
		to[i] = int32(v)
	}
}

func (w *writer) ids(n int, write func([]int32) error) {
	w.add(dtypes.Int32, []int{n}, func(out *tensors.Tensor) (err error) {
		access := tensors.MutableFlatData(out, func(to []int32) { err = write(to) })
		if access != nil {
			return access
		}
		return err
	})
}

func (w *writer) add(dtype dtypes.DType, dims []int, write func(*tensors.Tensor) error) {
	if w.err != nil {
		return
	}
	t := tensors.FromShape(shapes.Make(dtype, dims...))
	w.out = append(w.out, t)
	w.err = write(t)
}

// hostIDs returns local ids; none for no tensor.
func hostIDs(t unified.Tensor) ([]int32, error) {
	if !t.Valid() {
		return nil, nil
	}
	ids, err := unified.View[int32](t)
	if err != nil {
		return nil, fmt.Errorf("%w: ids are %v: int32 in host memory were expected (the loader's Options.Device "+
			"\"cpu\")", ErrBatch, t)
	}
	return ids, nil
}

// dtypeOf returns GoMLX's name of an element type, which it spells as khop does; InvalidDType where it has none.
func dtypeOf(d unified.DType) dtypes.DType { return dtypes.MapOfNames[d.String()] }
