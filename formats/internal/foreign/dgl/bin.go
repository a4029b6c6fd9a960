package dgl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/unified"
)

// ErrFormat is returned for bytes that dgl.save_graphs has not written.
var ErrFormat = errors.New("not a file of dgl.save_graphs, or a damaged one")

// The numbers that parts of a file begin with.
const (
	magicFile   = 0xDD2E4FF046B4A13F
	magicArray  = 0xDD5E40F096B4A13F
	magicHetero = 0xDD589FBE35224ABF
	magicPlain  = 0xDD3C5FFE20046ABF
	magicCSR    = 0xDD6CD31205DFF127
	magicCOO    = 0xDD61FFD305DFF127
	magicUnit   = 0xDD2E60F0F6B4A127
)

// headBytes is what precedes the graphs.
const headBytes = 4096

// The formats that a relation is stored in, as bits.
const (
	storedCOO = 1 << iota
	storedCSR
	storedCSC
)

// named is an array with its name.
type named struct {
	name string
	*array.Array
}

// sparse is the edges of a relation. Of an edge list and a CSR, rows are sources and columns targets; of a CSC, rows
// are targets.
type sparse struct {
	format     int
	rows, cols int64
	ptr        *array.Array // of a CSR or CSC
	row        *array.Array // of an edge list
	col        *array.Array
	ids        *array.Array // of the edges, by which their columns are ordered; nil: as they are listed
}

// file is a file of one graph.
type file struct {
	labels               []named
	ends                 [][2]int64 // of each relation: the number of its source type and of its target type
	relations            []sparse
	counts               []int64
	nodes, edges         [][]named
	nodeNames, edgeNames []string
}

// cursor reads a file from front to back. The first error stays; later reads return zero.
type cursor struct {
	mem []byte
	at  int
	err error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: at byte %d: %s", ErrFormat, c.at, fmt.Sprintf(format, args...))
	}
}

// take returns the next n bytes.
func (c *cursor) take(n uint64) []byte {
	if left := uint64(len(c.mem) - c.at); c.err == nil && n > left {
		c.fail("%d bytes are said to follow, and %d do: it is cut short", n, left)
	}
	if c.err != nil {
		return nil
	}
	c.at += int(n)
	return c.mem[c.at-int(n) : c.at : c.at]
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// count reads how many things follow, each of which takes some bytes.
func (c *cursor) count(bytes int) int {
	n := c.u64()
	if left := len(c.mem) - c.at; c.err == nil && n > uint64(left/bytes) {
		c.fail("%d things are said to follow in %d bytes", n, left)
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

// size reads a number that is not negative.
func (c *cursor) size() int64 {
	n := c.u64()
	if n > math.MaxInt64 {
		c.fail("the number %d is not a count", int64(n))
		return 0
	}
	return int64(n)
}

func (c *cursor) magic(want uint64, what string) {
	if got := c.u64(); c.err == nil && got != want {
		c.at -= 8
		c.fail("%s does not begin here", what)
	}
}

func (c *cursor) text() string { return string(c.take(uint64(c.count(1)))) }

func (c *cursor) texts() (list []string) {
	for n := c.count(8); len(list) < n && c.err == nil; {
		list = append(list, c.text())
	}
	return list
}

// array reads an array, whose elements stay where they are.
func (c *cursor) array() *array.Array {
	c.magic(magicArray, "an array")
	c.take(8 + 8) // reserved, the device
	dims := c.u32()
	kind := c.take(4)
	if dims > 16 {
		c.fail("an array of %d dimensions", dims)
	}
	a, elements := &array.Array{}, int64(1)
	for range dims {
		n := c.size()
		if n > 0 && elements > math.MaxInt64/8/n {
			c.fail("an array of the shape %d", append(a.Shape, n))
		}
		if c.err != nil {
			return a
		}
		elements *= n
		a.Shape = append(a.Shape, n)
	}
	bytes := c.u64()
	if a.Data = c.take(bytes); c.err != nil {
		return a
	}
	a.DType = dtypeOf(kind[0], kind[1])
	lanes := binary.LittleEndian.Uint16(kind[2:])
	if a.DType == unified.Invalid || lanes != 1 {
		c.fail("an array of the type %d with %d bits, %d times", kind[0], kind[1], lanes)
	} else if uint64(elements*a.DType.Size()) != bytes {
		c.fail("an array %v of %v in %d bytes", a.Shape, a.DType, bytes)
	}
	return a
}

// dtypeOf returns the type of elements by DLPack's numbers: kind and bits.
func dtypeOf(kind, bits byte) unified.DType {
	if kind == byte(unified.Unsigned) && bits == 1 {
		return unified.Uint8
	}
	return unified.OfKind(unified.Kind(kind), int64(bits))
}

// ids reads a list of ids; nil for an empty one.
func (c *cursor) ids() *array.Array {
	a := c.array()
	if c.err == nil && (len(a.Shape) != 1 || a.DType != unified.Int32 && a.DType != unified.Int64) {
		c.fail("ids are an array %v of %v", a.Shape, a.DType)
	}
	if c.err != nil || a.Shape[0] == 0 {
		return nil
	}
	return a
}

// length returns how many ids there are.
func length(ids *array.Array) int64 {
	if ids == nil {
		return 0
	}
	return ids.Shape[0]
}

// id returns one of them.
func id(ids *array.Array, i int64) int64 {
	if ids.DType == unified.Int32 {
		return int64(int32(binary.LittleEndian.Uint32(ids.Data[4*i:])))
	}
	return int64(binary.LittleEndian.Uint64(ids.Data[8*i:]))
}

// csr reads a sparse matrix by rows.
func (c *cursor) csr(format int) sparse {
	c.magic(magicCSR, "a matrix by rows")
	s := sparse{format: format, cols: c.size(), rows: c.size()}
	s.ptr, s.col, s.ids = c.ids(), c.ids(), c.ids()
	c.take(1) // whether it is sorted
	if c.err == nil && (s.rows == math.MaxInt64 || length(s.ptr) != s.rows+1) {
		c.fail("a matrix of %d rows has %d pointers to them", s.rows, length(s.ptr))
	}
	s.check(c)
	return s
}

// coo reads a sparse matrix by entries.
func (c *cursor) coo() sparse {
	c.magic(magicCOO, "a list of edges")
	s := sparse{format: storedCOO, cols: c.size(), rows: c.size()}
	s.row, s.col, s.ids = c.ids(), c.ids(), c.ids()
	c.take(2) // whether it is sorted by rows, by columns
	if c.err == nil && length(s.row) != length(s.col) {
		c.fail("%d edges have sources, %d targets", length(s.row), length(s.col))
	}
	s.check(c)
	return s
}

func (s *sparse) check(c *cursor) {
	if c.err == nil && s.ids != nil && length(s.ids) != length(s.col) {
		c.fail("%d edges have %d ids", length(s.col), length(s.ids))
	}
}

// plain reads a graph without types: that of the types of another, whose edges are its relations.
func (c *cursor) plain() sparse {
	c.magic(magicPlain, "a graph of types")
	return c.csr(storedCSR)
}

// unit reads the edges of a relation, in one of the formats that they are stored in.
func (c *cursor) unit() (s sparse) {
	c.magic(magicUnit, "a relation")
	stored := c.u64()
	c.u64() // what may be made of it
	if stored>>32 == 0 && stored >= 1 && stored <= 3 {
		stored = 1 << (stored - 1) // by DGL before 0.7
	}
	if stored &= math.MaxUint32; c.err == nil && (stored == 0 || stored > storedCOO|storedCSR|storedCSC) {
		c.fail("a relation in the format %d", stored)
	}
	for _, format := range []int{storedCOO, storedCSR, storedCSC} {
		if stored&uint64(format) == 0 || c.err != nil {
			continue
		}
		c.plain()
		var x sparse
		if format == storedCOO {
			x = c.coo()
		} else {
			x = c.csr(format)
		}
		if s.format == 0 {
			s = x
		}
	}
	return s
}

// tensors reads arrays by names, for each of several types.
func (c *cursor) tensors() (all [][]named) {
	for n := c.count(8); len(all) < n && c.err == nil; {
		all = append(all, c.dict())
	}
	return all
}

func (c *cursor) dict() (list []named) {
	for n := c.count(8); len(list) < n && c.err == nil; {
		name := c.text()
		list = append(list, named{name, c.array()})
	}
	return list
}

// parse reads a file of one graph.
func parse(mem []byte) (*file, error) {
	c := &cursor{mem: mem}
	c.magic(magicFile, "a file of graphs")
	version, kind, n := c.u64(), c.u64(), c.u64()
	switch {
	case c.err != nil:
		return nil, c.err
	case version != 2 || kind > 2:
		return nil, fmt.Errorf("%w: version %d of the format is not supported: 2 is, which DGL writes since 0.5",
			ErrFormat, version)
	case n != 1:
		return nil, fmt.Errorf("it holds %d graphs: one is wanted, so save it by dgl.save_graphs(path, [graph])", n)
	}
	c.take(headBytes - 32)
	start := c.u64()
	f := &file{}
	f.labels = c.dict()
	if c.err == nil && start != uint64(c.at) {
		c.fail("the graph is said to begin at %d", start)
	}
	c.magic(magicHetero, "a graph")
	types := c.plain()
	for n := c.count(8); len(f.relations) < n && c.err == nil; {
		f.relations = append(f.relations, c.unit())
	}
	for n := c.count(8); len(f.counts) < n && c.err == nil; {
		f.counts = append(f.counts, c.size())
	}
	f.nodes, f.edges = c.tensors(), c.tensors()
	f.nodeNames, f.edgeNames = c.texts(), c.texts()
	if c.err == nil {
		f.match(c, &types)
	}
	return f, c.err
}

// match sees that the parts of a file are of the same types.
func (f *file) match(c *cursor, types *sparse) {
	n, m := int64(len(f.counts)), int64(len(f.relations))
	if len(f.nodeNames) != len(f.counts) || len(f.nodes) != len(f.counts) || types.rows != n || types.cols != n {
		c.fail("%d types of nodes have %d names and %d lists of arrays", n, len(f.nodeNames), len(f.nodes))
		return
	}
	if len(f.edgeNames) != len(f.relations) || len(f.edges) != len(f.relations) || length(types.col) != m {
		c.fail("%d relations have %d names, %d lists of arrays and %d pairs of types", m, len(f.edgeNames),
			len(f.edges), length(types.col))
		return
	}
	f.ends = make([][2]int64, m)
	seen := make([]bool, m)
	at := int64(0)
	err := types.each(func(rows, cols []int64) error {
		for i, row := range rows {
			col, edge := cols[i], at
			if types.ids != nil {
				edge = id(types.ids, at)
			}
			if edge < 0 || edge >= m || seen[edge] || col < 0 || col >= n {
				return fmt.Errorf("relation %d is between the types %d and %d", edge, row, col)
			}
			f.ends[edge], seen[edge] = [2]int64{row, col}, true
			at++
		}
		return nil
	})
	if err != nil {
		c.fail("%v", err)
	}
}
