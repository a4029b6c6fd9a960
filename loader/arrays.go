package loader

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/unified"
)

// ArrayKind says which of a batch's arrays an Array is. Those of columns come last.
type ArrayKind uint8

const (
	// ArrayNumNodes is Sample.NumNodes, as one array [hops+1, node types].
	ArrayNumNodes ArrayKind = iota
	// ArrayNodes is Sample.Nodes of a node type.
	ArrayNodes
	// ArraySeeds is Sample.SeedLocal of a node type.
	ArraySeeds
	// ArrayInputs is the ids of a node type's seeds as they were asked for, ArrayItems their numbers in the list of
	// seeds: see Batch.Seeds. They lie on the host always, and are in no digest.
	ArrayInputs
	ArrayItems
	// ArrayIndptr, ArrayIndices and ArrayEdgePos are a block's.
	ArrayIndptr
	ArrayIndices
	ArrayEdgePos
	// ArrayLinkLabels, ArrayLinkTimes and ArrayLinkGroup are of an edge type's seeds and negatives, ArrayLinkItems of
	// its seeds: see Batch.Links. ArrayLinkCounts is how many they are: seeds, negatives, and negatives that were not
	// found. They lie on the host always. Items are in no digest.
	ArrayLinkLabels
	ArrayLinkTimes
	ArrayLinkGroup
	ArrayLinkItems
	ArrayLinkCounts
	// ArrayOwn is one that the sampler adds of its own: Sample.Arrays[Type].
	ArrayOwn
	// ArrayNodeColumn, ArraySeedColumn and ArrayEdgeColumn are rows of a column: see Batch.Node, Seed and Edge.
	ArrayNodeColumn
	ArraySeedColumn
	ArrayEdgeColumn
)

// Array describes one of the arrays that every batch of a loader has. Batch.Array gives the array itself.
type Array struct {
	Name   string    // as docs/digest.md has it, and "input/T" and "item/T" besides; no two are the same
	Kind   ArrayKind // what it is
	Layer  int       // of a block and of its columns
	Type   int       // the node type, for a block and its columns the edge type, the place in Sample.Arrays
	Column string    // of which it has rows; empty where it has none
	// DType is the type of the elements in the batch. Digests widen ids to int64, and the feed may.
	DType unified.DType
	// Row is the shape of a row: all dimensions but the first. It must not be changed.
	Row []int64
	// Most is the most rows that a batch has memory of its own for. A view of its Base takes none.
	Most int64
	// Base is the number, in Loader.Arrays, of the array of layer 0 that is otherwise the same. Batch.IsView says
	// whether this one is the beginning of it. Of layer 0, and of what has no layer, Base is the array's own number.
	Base int
}

// IsColumn reports whether the array holds rows of a column.
func (a *Array) IsColumn() bool { return a.Kind >= ArrayNodeColumn }

// IsIDs reports whether the array holds ids, offsets or counts, which digests widen to int64.
func (a *Array) IsIDs() bool { return a.Kind < ArrayOwn }

// InFull reports whether the full digest covers the array.
func (a *Array) InFull() bool {
	return a.Kind != ArrayInputs && a.Kind != ArrayItems && a.Kind != ArrayLinkItems
}

// IsIndex reports whether the array holds ids or offsets, which the feed delivers in the width that a consumer asks
// for.
func (a *Array) IsIndex() bool {
	switch a.Kind {
	case ArrayNumNodes, ArrayItems, ArrayLinkLabels, ArrayLinkTimes, ArrayLinkItems, ArrayLinkCounts:
		return false
	}
	return a.IsIDs()
}

// OnHost reports whether the array lies on the host wherever batches are made.
func (a *Array) OnHost() bool {
	switch a.Kind {
	case ArrayNumNodes, ArrayInputs, ArrayItems:
		return true
	}
	return a.Kind >= ArrayLinkLabels && a.Kind <= ArrayLinkCounts
}

// InTopology reports whether the topology digest covers the array.
func (a *Array) InTopology() bool { return a.InFull() && !a.IsColumn() }

// Arrays returns the list of all arrays of every batch, in a fixed order: names, dtypes and shapes of a batch are taken
// from here alone. It must not be changed.
func (l *Loader) Arrays() []Array { return l.arrays }

// Find returns the number of the array of a name, such as "node/paper/year"; ErrOptions, with the names that there are,
// where batches do not have it.
func (l *Loader) Find(name string) (int, error) {
	var there []string
	for i := range l.arrays {
		if there = append(there, l.arrays[i].Name); l.arrays[i].Name == name {
			return i, nil
		}
	}
	return -1, fmt.Errorf("%w: batches have no array %q; they have %s", ErrOptions, name, strings.Join(there, ", "))
}

// Array returns array i of Loader.Arrays, valid as long as the batch is. A list without elements may be no tensor; so
// is every array of a released batch.
func (b *Batch) Array(i int) unified.Tensor {
	if b.slot == nil {
		return unified.Tensor{}
	}
	return b.slot.tensor(i)
}

// IsView reports whether array i is the beginning of its Base, in the same memory: layers may share blocks and columns
// (sampling.NewNodes).
func (b *Batch) IsView(i int) bool { return b.slot != nil && b.slot.isView(i) }

// listArrays lists what every batch has, of a schema, a sampler's bound and the options' columns.
func (r *recipe) listArrays() error {
	a, s := arrayLister{r: r, at: map[arrayKey]int{}}, r.graph.Schema()
	if err := r.checkColumns(s); err != nil {
		return err
	}
	a.add("num_nodes", Array{Kind: ArrayNumNodes, DType: unified.Int64, Row: []int64{int64(len(s.Nodes))},
		Most: int64(r.bound.Layers) + 1})
	for t := range s.Nodes {
		n, nodes, seeds := &s.Nodes[t], r.mostNodes(t), r.mostSeeds(t)
		inputs := seeds
		if r.seeds.ByEdge != nil {
			inputs = 0
		}
		a.add("nodes/"+n.Name, Array{Kind: ArrayNodes, Type: t, DType: s.IDType(), Most: nodes})
		a.add("seeds/"+n.Name, Array{Kind: ArraySeeds, Type: t, DType: unified.Int32, Most: seeds})
		a.add("input/"+n.Name, Array{Kind: ArrayInputs, Type: t, DType: unified.Int64, Most: inputs})
		a.add("item/"+n.Name, Array{Kind: ArrayItems, Type: t, DType: unified.Int64, Most: inputs})
		a.columns("node/"+n.Name, r.nodeColumns(), n.Columns, Array{Kind: ArrayNodeColumn, Type: t, Most: nodes})
		a.columns("seed/"+n.Name, r.seedColumns(), n.Columns,
			Array{Kind: ArraySeedColumn, Type: t, Most: min(nodes, seeds)})
	}
	a.links(s)
	for layer := range r.bound.Layers {
		for e := range s.Edges {
			a.block(s, layer, e)
		}
	}
	for i := range r.bound.Arrays {
		own := &r.bound.Arrays[i]
		a.add("sample/"+own.Name, Array{Kind: ArrayOwn, Type: i, DType: own.DType, Row: own.Shape, Most: max(own.Rows,
			0)})
	}
	r.arrays, r.arrayAt = a.list, a.at
	return nil
}

// arrayKey tells the arrays of a batch apart.
type arrayKey struct {
	kind     ArrayKind
	layer, t int
	column   string
}

// arrayLister makes a list of arrays.
type arrayLister struct {
	r    *recipe
	list []Array
	at   map[arrayKey]int
}

func (a *arrayLister) add(name string, array Array) {
	array.Name, array.Base = name, len(a.list)
	key := arrayKey{array.Kind, array.Layer, array.Type, array.Column}
	a.at[key] = len(a.list)
	if key.layer = 0; array.Layer > 0 {
		array.Base = a.at[key]
	}
	a.list = append(a.list, array)
}

// columns adds those of the columns that are there.
func (a *arrayLister) columns(prefix string, names []string, there []graph.Column, array Array) {
	for _, name := range names {
		if c := slices.IndexFunc(there, func(c graph.Column) bool { return c.Name == name }); c >= 0 {
			array.Column, array.DType, array.Row = name, there[c].DType, there[c].Shape
			if a.r.opt.Columns.Widen && tiers.Widens(there, name) {
				array.DType = unified.Float32
			}
			a.add(prefix+"/"+name, array)
		}
	}
}

// links adds the arrays of seeds that are edges, for the edge types that have some.
func (a *arrayLister) links(s *graph.Schema) {
	most := a.r.mostLinks()
	for e, n := range a.r.seeds.ByEdge {
		if n == 0 {
			continue
		}
		name := "link/" + s.Edges[e].String()
		a.add(name+"/counts", Array{Kind: ArrayLinkCounts, Type: e, DType: unified.Int64, Most: 3})
		a.add(name+"/label", Array{Kind: ArrayLinkLabels, Type: e, DType: unified.Int64, Most: most})
		a.add(name+"/group", Array{Kind: ArrayLinkGroup, Type: e, DType: unified.Int32, Most: most})
		if a.r.seeds.Timed {
			a.add(name+"/time", Array{Kind: ArrayLinkTimes, Type: e, DType: unified.Int64, Most: most})
		}
		a.add(name+"/item", Array{Kind: ArrayLinkItems, Type: e, DType: unified.Int64,
			Most: min(int64(a.r.opt.BatchSize), n)})
	}
}

func (a *arrayLister) block(s *graph.Schema, layer, e int) {
	r, edges, name := a.r, a.r.mostEdges(layer, e), fmt.Sprintf("%d/%s", layer, s.Edges[e].String())
	part := func(kind ArrayKind, dtype unified.DType, most int64) Array {
		return Array{Kind: kind, Layer: layer, Type: e, DType: dtype, Most: most}
	}
	a.add("block/"+name+"/indptr", part(ArrayIndptr, unified.Int32, r.mostNodes(s.Edges[e].Dst)+1))
	a.add("block/"+name+"/indices", part(ArrayIndices, unified.Int32, edges))
	if r.edgePos() {
		a.add("block/"+name+"/edge_pos", part(ArrayEdgePos, s.PosType(), edges))
	}
	a.columns("edge/"+name, r.opt.Columns.Edges, s.EdgeColumns, part(ArrayEdgeColumn, unified.Invalid, edges))
}

// nodeColumns and seedColumns return the names of the options, or the default ones. This is where those stand.
func (r *recipe) nodeColumns() []string { return orDefault(r.opt.Columns.Nodes, defaultNodeColumn) }

func (r *recipe) seedColumns() []string { return orDefault(r.opt.Columns.Seeds, defaultSeedColumn) }

// The columns of a batch where the options name none. X and Y are of these.
var defaultNodeColumn, defaultSeedColumn = graph.Feature.String(), graph.Label.String()

func orDefault(names []string, byDefault string) []string {
	if names == nil {
		return []string{byDefault}
	}
	return names
}

// edgePos reports whether batches have edge positions.
func (r *recipe) edgePos() bool { return r.opt.Columns.EdgePos || len(r.opt.Columns.Edges) > 0 }

// checkColumns returns ErrOptions for a column that is asked for and not there, or asked for twice.
func (r *recipe) checkColumns(s *graph.Schema) error {
	var ofNodes []graph.Column
	for t := range s.Nodes {
		ofNodes = append(ofNodes, s.Nodes[t].Columns...)
	}
	for _, o := range []struct {
		option, byDefault string
		names             []string
		there             []graph.Column
	}{
		{"Columns.Nodes", defaultNodeColumn, r.opt.Columns.Nodes, ofNodes},
		{"Columns.Seeds", defaultSeedColumn, r.opt.Columns.Seeds, ofNodes},
		{"Columns.Edges", "", r.opt.Columns.Edges, s.EdgeColumns},
	} {
		there := map[string]bool{}
		for _, c := range o.there {
			there[c.Name] = true
		}
		if o.names == nil && o.byDefault != "" && !there[o.byDefault] {
			r.opt.log().Info("batches have no "+o.byDefault, "reason", o.option+" names none, and the dataset has no "+
				"such column")
		}
		named := map[string]bool{}
		for _, name := range o.names {
			if named[name] {
				return option.Errorf(ErrOptions, &r.opt, o.option, " names column %q twice", name)
			}
			if named[name] = true; !there[name] {
				return option.Errorf(ErrOptions, &r.opt, o.option, ": no column %q; there are: %s", name,
					seedlist.ColumnNames(o.there))
			}
		}
	}
	return nil
}

// tensor returns an array of the batch in the slot.
func (s *slot) tensor(i int) unified.Tensor {
	a, p := &s.recipe.arrays[i], &s.sample
	switch a.Kind {
	case ArrayNumNodes:
		t, _ := unified.FromSlice(s.counts).Reshape(int64(len(p.NumNodes)), a.Row[0])
		return t
	case ArrayNodes:
		return p.Nodes[a.Type]
	case ArraySeeds:
		return p.SeedLocal[a.Type]
	case ArrayInputs:
		return unified.FromSlice(s.request.Seeds[a.Type])
	case ArrayItems:
		return unified.FromSlice(s.items[a.Type])
	case ArrayLinkLabels:
		return unified.FromSlice(s.links[a.Type].Labels)
	case ArrayLinkTimes:
		return unified.FromSlice(s.links[a.Type].Times)
	case ArrayLinkGroup:
		return unified.FromSlice(s.links[a.Type].Group)
	case ArrayLinkItems:
		return unified.FromSlice(s.links[a.Type].Items)
	case ArrayLinkCounts:
		return unified.FromSlice(s.linkCounts[a.Type][:])
	case ArrayIndptr:
		return p.Blocks[a.Layer][a.Type].Indptr
	case ArrayIndices:
		return p.Blocks[a.Layer][a.Type].Indices
	case ArrayEdgePos:
		return p.Blocks[a.Layer][a.Type].EdgePos
	case ArrayOwn:
		return p.Arrays[a.Type].Rows
	default:
		return s.rows[i].tensor
	}
}

// hasMemory reports whether an array has memory outside the Go heap.
func (a *Array) hasMemory() bool { return !a.OnHost() || a.Kind == ArrayInputs }

// buffer returns the memory behind an array that has some.
func (s *slot) buffer(i int) *unified.Buffer {
	a, p := &s.recipe.arrays[i], &s.sample
	switch a.Kind {
	case ArrayNodes:
		return p.NodeBuffer(a.Type)
	case ArraySeeds:
		return p.SeedBuffer(a.Type)
	case ArrayInputs:
		return &s.seedIDs[a.Type]
	case ArrayIndptr:
		return p.IndptrBuffer(a.Layer, a.Type)
	case ArrayIndices:
		return p.IndicesBuffer(a.Layer, a.Type)
	case ArrayEdgePos:
		return p.EdgePosBuffer(a.Layer, a.Type)
	case ArrayOwn:
		return p.ArrayBuffer(a.Type)
	default:
		return &s.rows[i].buf
	}
}

// isView reports whether an array is the beginning of its Base, in the same memory.
func (s *slot) isView(i int) bool {
	base := s.recipe.arrays[i].Base
	if base == i {
		return false
	}
	mine, its := s.tensor(i).Bytes(), s.tensor(base).Bytes()
	return len(mine) > 0 && len(mine) <= len(its) && unsafe.SliceData(mine) == unsafe.SliceData(its)
}

// find returns the number of the array of a column; -1 where the batch has none.
func (r *recipe) find(kind ArrayKind, layer, t int, column string) int {
	if i, ok := r.arrayAt[arrayKey{kind, layer, t, column}]; ok {
		return i
	}
	return -1
}
