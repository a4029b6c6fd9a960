package graph

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// ErrEdge is returned for an edge whose source or destination is not a node, and for a weight that is not a number.
var ErrEdge = errors.New("invalid edge")

// Data describes a graph for New.
type Data struct {
	// Nodes are the node types. One without a name, if it is the only one, is called "node".
	Nodes []NodeData
	// Edges are the edge types. None, if there is one node type, means one type without edges.
	Edges []EdgeData
	// Splits are the named sets of seeds. They are kept, not copied.
	Splits []Split
}

// NodeData is a node type.
type NodeData struct {
	Name string
	// Count is the number of nodes; 0 takes it from the columns, if there are any.
	Count int64
	// Columns by name: [Count, ...], a row a node. They are kept, not copied.
	Columns map[string]unified.Tensor
}

// EdgeData is an edge type. Edge i goes from Src[i] to Dst[i]: Src[i] is an in-neighbour of Dst[i]. Self-loops and
// parallel edges are kept as they are.
type EdgeData struct {
	// Source and Target name node types; empty means the only one. Relation is "edge" if it is empty.
	Source, Relation, Target string
	// Src and Dst are own ids, of equal length. They are read, not kept.
	Src, Dst []int64
	// Columns by name: [edges, ...], a row an edge, in the order of Src. They are copied into the order of the graph. A
	// type that lacks a column that another type has gets rows of zeros. A column "weight" of floats must hold finite
	// numbers from 0 on.
	Columns map[string]unified.Tensor
	// IDs are the user's numbers of the edges; nil means no number is kept, and parallel edges stay in the order of
	// Src. If one type of several has them, those without are numbered from 0 in the order of Src.
	IDs []int64
}

// New builds a graph from slices in memory. Its topology and edge columns are new Go memory; its node columns and
// splits are the caller's, who must leave them unchanged while the graph is in use. The result and its ID, the XXH3 of
// 128 bits of schema, arrays, columns and splits, depend on the data alone.
//
// Errors: ErrSchema for names, shapes and lengths that do not fit each other, ErrEdge, with edge type and number, for
// edges whose ends are not nodes, ErrSeed for splits with seeds that are not nodes. A graph may have no nodes, no
// edges, or nodes without edges.
//
// Besides the result New takes 8 bytes an edge, 12 to 16 with edge columns or ids, and a few MB, until it returns.
func New(data Data) (*Graph, error) {
	a := Arrays{Splits: data.Splits}
	if err := schemaOf(&data, &a); err != nil {
		return nil, err
	}
	if err := checkData(&data, &a.Schema); err != nil {
		return nil, err
	}
	if err := buildTopology(&data, &a); err != nil {
		return nil, err
	}
	for _, s := range a.Splits {
		if err := s.Seeds.Check(&a.Schema); err != nil {
			return nil, fmt.Errorf("split %q (%d): %w", s.Name, s.Index, err)
		}
	}
	a.ID = contentID(&a)
	return FromArrays(a)
}

// schemaOf fills in names, counts and columns.
func schemaOf(data *Data, a *Arrays) error {
	if len(data.Nodes) == 0 {
		return fmt.Errorf("%w: there is no node type", ErrSchema)
	}
	s := &a.Schema
	for _, n := range data.Nodes {
		if n.Name == "" && len(data.Nodes) == 1 {
			n.Name = "node"
		}
		nt := NodeType{Name: n.Name, Count: n.Count}
		for _, name := range slices.Sorted(maps.Keys(n.Columns)) {
			t := n.Columns[name]
			if nt.Count == 0 {
				nt.Count = t.Len()
			}
			if t.Placement() == pinned.Device {
				return fmt.Errorf("%w: node type %q: column %q is in device memory", ErrSchema, n.Name, name)
			}
			nt.Columns = append(nt.Columns, columnOf(name, t))
		}
		s.Nodes = append(s.Nodes, nt)
		a.NodeColumns = append(a.NodeColumns, maps.Clone(n.Columns))
	}
	edges := data.Edges
	if len(edges) == 0 {
		edges = []EdgeData{{}}
	}
	columns := map[string]Column{}
	for i, e := range edges {
		et := EdgeType{Source: e.Source, Relation: e.Relation, Target: e.Target, Count: int64(len(e.Src))}
		if et.Relation == "" {
			et.Relation = "edge"
		}
		for _, end := range []*string{&et.Source, &et.Target} {
			if *end == "" && len(s.Nodes) == 1 {
				*end = s.Nodes[0].Name
			}
		}
		s.Edges = append(s.Edges, et)
		for name, t := range e.Columns {
			c := columnOf(name, t)
			if first, ok := columns[name]; ok && (first.DType != c.DType || !slices.Equal(first.Shape, c.Shape)) {
				return fmt.Errorf("%w: edge type %d: column %q is %v%v, but %v%v for another type", ErrSchema, i, name,
					c.DType, c.Shape, first.DType, first.Shape)
			}
			columns[name] = c
		}
	}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		s.EdgeColumns = append(s.EdgeColumns, columns[name])
	}
	return s.Init()
}

func columnOf(name string, t unified.Tensor) Column {
	c := Column{Name: name, DType: t.DType()}
	if t.Rank() > 1 {
		c.Shape = t.Shape()[1:]
	}
	return c
}

// checkData checks lengths, ids and weights, type by type, so that errors speak of the user's own numbers.
func checkData(data *Data, s *Schema) error {
	for i := range data.Edges {
		e, et := &data.Edges[i], &s.Edges[i]
		if len(e.Src) != len(e.Dst) {
			return fmt.Errorf("%w: edge type %v: %d sources, %d destinations", ErrSchema, et, len(e.Src), len(e.Dst))
		}
		if e.IDs != nil && len(e.IDs) != len(e.Src) {
			return fmt.Errorf("%w: edge type %v: %d ids for %d edges", ErrSchema, et, len(e.IDs), len(e.Src))
		}
		for _, name := range slices.Sorted(maps.Keys(e.Columns)) {
			t := e.Columns[name]
			if t.Len() != et.Count || t.Placement() == pinned.Device {
				return fmt.Errorf("%w: edge type %v: column %q is %v, but there are %d edges", ErrSchema, et, name, t,
					et.Count)
			}
			if row := badWeight(name, t); row >= 0 {
				return fmt.Errorf("%w: edge type %v: edge %d: its weight must be finite and not negative", ErrEdge, et,
					row)
			}
		}
		if err := checkEnds(e.Src, "source", et, &s.Nodes[et.Src]); err != nil {
			return err
		}
		if err := checkEnds(e.Dst, "destination", et, &s.Nodes[et.Dst]); err != nil {
			return err
		}
	}
	return nil
}

func checkEnds(ids []int64, what string, et *EdgeType, nt *NodeType) error {
	for i, v := range ids {
		if uint64(v) >= uint64(nt.Count) {
			return fmt.Errorf("%w: edge type %v: edge %d: %s %d is not below %d nodes of type %q", ErrEdge, et, i, what,
				v, nt.Count, nt.Name)
		}
	}
	return nil
}

// badWeight returns the first row of a weight column that is not finite or is negative, or -1.
func badWeight(name string, t unified.Tensor) int64 {
	if RoleOf(name) != Weight {
		return -1
	}
	bad := func(x float64) bool { return !(x >= 0) || math.IsInf(x, 0) }
	if v, err := unified.View[float32](t); err == nil {
		return int64(slices.IndexFunc(v, func(x float32) bool { return bad(float64(x)) }))
	}
	if v, err := unified.View[float64](t); err == nil {
		return int64(slices.IndexFunc(v, bad))
	}
	return -1
}

// buildTopology fills in Indptr, Indices, Types, EdgeIDs and the edge columns.
func buildTopology(data *Data, a *Arrays) error {
	s := &a.Schema
	keepIDs := slices.ContainsFunc(data.Edges, func(e EdgeData) bool { return e.IDs != nil })
	opt := csc.Options{
		Nodes: s.NumNodes(), Permutation: keepIDs || len(s.EdgeColumns) > 0,
		Alloc: func(n int64) ([]byte, func(), error) {
			r, err := pinned.Allocate(n, pinned.Options{})
			if err != nil {
				return nil, nil, err
			}
			return r.Bytes(), func() { _ = r.Close() }, nil
		},
	}
	built, free, err := csc.Build(fusedEdges(data, s), opt)
	if err != nil {
		return err
	}
	defer free()
	a.Indptr = unified.FromSlice(built.Indptr)
	if a.Indices, err = unified.New(s.IDType(), built.Indices, built.Edges); err != nil {
		return err
	}
	switch len(built.Types) {
	case 0:
		if len(s.Edges) > 1 {
			a.Types, err = unified.New(typeDType(len(s.Edges)), nil, 0)
		}
	default:
		a.Types, err = unified.New(typeDType(len(s.Edges)), built.Types, built.Edges)
	}
	if err != nil || !opt.Permutation {
		return err
	}
	p := newPermuted(data, a, built.Perm)
	if keepIDs {
		p.orderTies()
		a.EdgeIDs = p.ids()
	}
	a.EdgeColumns = make(map[string]unified.Tensor, len(s.EdgeColumns))
	for _, c := range s.EdgeColumns {
		if a.EdgeColumns[c.Name], err = p.column(c); err != nil {
			return err
		}
	}
	return nil
}

func typeDType(types int) unified.DType {
	if csc.TypeBytes(types) == 1 {
		return unified.Uint8
	}
	return unified.Uint16
}

// fusedEdges returns the edges of all types, with what makes their ids fused ids.
func fusedEdges(data *Data, s *Schema) []csc.Edges {
	offsets := make([]int64, len(s.Nodes))
	for i := range offsets[1:] {
		offsets[i+1] = offsets[i] + s.Nodes[i].Count
	}
	edges := make([]csc.Edges, len(data.Edges))
	for i, e := range data.Edges {
		edges[i] = csc.Edges{Src: e.Src, Dst: e.Dst, From: offsets[s.Edges[i].Src], To: offsets[s.Edges[i].Dst]}
	}
	return edges
}

// permuted gathers what belongs to edges into the order of positions.
type permuted struct {
	data  *Data
	a     *Arrays
	perm  csc.Perm
	bases []int64 // [edge type]: number of its first edge
	typ   func(pos int64) int
}

func newPermuted(data *Data, a *Arrays, perm csc.Perm) *permuted {
	p := &permuted{data: data, a: a, perm: perm, bases: make([]int64, len(a.Schema.Edges)),
		typ: func(int64) int { return 0 }}
	for i := range p.bases[1:] {
		p.bases[i+1] = p.bases[i] + a.Schema.Edges[i].Count
	}
	if v, err := unified.View[uint8](a.Types); err == nil {
		p.typ = func(pos int64) int { return int(v[pos]) }
	} else if v, err := unified.View[uint16](a.Types); err == nil {
		p.typ = func(pos int64) int { return int(v[pos]) }
	}
	return p
}

// row returns the type of the edge at a position and its row within the type.
func (p *permuted) row(pos int64) (typ int, row int64) {
	typ = p.typ(pos)
	return typ, p.perm.At(int(pos)) - p.bases[typ]
}

func (p *permuted) id(typ int, row int64) int64 {
	if ids := p.data.Edges[typ].IDs; ids != nil {
		return ids[row]
	}
	return row
}

// orderTies orders parallel edges by their ids: the builder left them in the order of the input.
func (p *permuted) orderTies() {
	indptr, _ := unified.View[int64](p.a.Indptr)
	same := func(i, j int64) bool {
		return p.typ(i) == p.typ(j) && idAt(p.a.Indices, i) == idAt(p.a.Indices, j)
	}
	for v := range len(indptr) - 1 {
		for lo := indptr[v]; lo < indptr[v+1]; {
			hi := lo + 1
			for hi < indptr[v+1] && same(lo, hi) {
				hi++
			}
			if hi-lo > 1 {
				typ := p.typ(lo)
				sortByID(p, typ, p.perm.Narrow, lo, hi)
				sortByID(p, typ, p.perm.Wide, lo, hi)
			}
			lo = hi
		}
	}
}

func sortByID[N uint32 | uint64](p *permuted, typ int, perm []N, lo, hi int64) {
	if perm == nil {
		return
	}
	slices.SortStableFunc(perm[lo:hi], func(x, y N) int {
		return cmp.Compare(p.id(typ, int64(x)-p.bases[typ]), p.id(typ, int64(y)-p.bases[typ]))
	})
}

func (p *permuted) ids() unified.Tensor {
	out := make([]int64, p.perm.Len())
	for i := range out {
		typ, row := p.row(int64(i))
		out[i] = p.id(typ, row)
	}
	return unified.FromSlice(out)
}

// column gathers a column of all types, on all cores.
func (p *permuted) column(c Column) (unified.Tensor, error) {
	m, width := p.a.Schema.NumEdges(), c.RowBytes()
	mem := make([]uint64, (m*width+7)/8) // words, for the alignment
	out := unified.FromSlice(mem).Bytes()
	from := make([][]byte, len(p.data.Edges))
	for i, e := range p.data.Edges {
		from[i] = e.Columns[c.Name].Bytes()
	}
	workers := int64(machine.Workers())
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for pos := m * w / workers; pos < m*(w+1)/workers; pos++ {
				if typ, row := p.row(pos); from[typ] != nil {
					copy(out[pos*width:(pos+1)*width], from[typ][row*width:])
				}
			}
		})
	}
	wg.Wait()
	return unified.New(c.DType, out, append([]int64{m}, c.Shape...)...)
}

// contentID hashes everything that a graph consists of, each thing after its length.
func contentID(a *Arrays) [16]byte {
	h := xxh3.New()
	var word [8]byte
	num := func(v int64) {
		binary.LittleEndian.PutUint64(word[:], uint64(v))
		_, _ = h.Write(word[:])
	}
	text := func(s string) { num(int64(len(s))); _, _ = h.WriteString(s) }
	tensor := func(t unified.Tensor) {
		text(t.DType().String())
		num(int64(t.Rank()))
		for _, d := range t.Shape() {
			num(d)
		}
		_, _ = h.Write(t.Bytes())
	}
	num(int64(len(a.Schema.Nodes)))
	for i := range a.Schema.Nodes {
		n := &a.Schema.Nodes[i]
		text(n.Name)
		num(n.Count)
		num(int64(len(n.Columns)))
		for _, c := range n.Columns {
			text(c.Name)
			tensor(a.NodeColumns[i][c.Name])
		}
	}
	num(int64(len(a.Schema.Edges)))
	for i := range a.Schema.Edges {
		text(a.Schema.Edges[i].String())
		num(int64(a.Schema.Edges[i].Order))
	}
	for _, t := range []unified.Tensor{a.Indptr, a.Indices, a.Types, a.EdgeIDs} {
		tensor(t)
	}
	num(int64(len(a.Schema.EdgeColumns)))
	for _, c := range a.Schema.EdgeColumns {
		text(c.Name)
		tensor(a.EdgeColumns[c.Name])
	}
	num(int64(len(a.Splits)))
	for _, s := range a.Splits {
		text(s.Name)
		num(int64(s.Index))
		hashSeeds(s.Seeds, num, tensor)
	}
	return h.Sum128().Bytes()
}

// hashSeeds goes on with the hash of a graph.
func hashSeeds(s Seeds, num func(int64), tensor func(unified.Tensor)) {
	num(int64(len(s.Sets)))
	for _, set := range s.Sets {
		num(int64(set.Type))
		num(set.Len())
		tensor(set.IDs)
		if set.Types != nil {
			tensor(unified.FromSlice(set.Types))
		}
	}
	for _, set := range s.Edges {
		num(-1) // no set of nodes has this type
		num(int64(set.Type))
		num(set.Len())
		for _, t := range []unified.Tensor{set.Sources, set.Targets, unified.FromSlice(set.Types),
			unified.FromSlice(set.Labels), unified.FromSlice(set.Times)} {
			num(t.Len())
			tensor(t)
		}
		if set.Offsets != nil {
			tensor(unified.FromSlice(set.Offsets))
		}
		if set.From != nil {
			tensor(unified.FromSlice(set.From))
		}
	}
}
