package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// ErrSchema is returned for a schema that contradicts itself, ErrText for a name that is not text.
var ErrSchema, ErrText = names.ErrSchema, names.ErrText

// MaxEdgeTypes is the greatest number of edge types: a type is stored in 16 bits.
const MaxEdgeTypes = 1 << 16

// Order says how the edges of one type are ordered within a destination.
type Order uint8

const (
	// BySource orders by (source, edge id).
	BySource Order = iota
	// ByTime orders by (time, source, edge id).
	ByTime
)

// String returns the order's name in manifests: "source" or "time".
func (o Order) String() string { return [...]string{"source", "time"}[o&1] }

// Column describes an array with a row for each node of a type, or for each edge.
type Column struct {
	Name  string
	DType unified.DType
	Shape []int64 // of one row; nil for a number
	// Unit is the unit of times, which count from 1970 in UTC: "s", "ms", "us" or "ns"; "" if it is not known, or if
	// the column has no times.
	Unit string
	// Fields says what the elements of a row are, as JSON (docs/format.md, "What elements mean"); nil: not known.
	Fields []byte
	// Code says how rows of bytes encode numbers; nil: they do not.
	Code *Code
	// Ascending says that no row is less than the one before it. The column is of nodes, with one integer a row.
	// Samplers then find the nodes of a time by bisection.
	Ascending bool
}

// Width returns the elements of a row.
func (c Column) Width() int64 {
	w := int64(1)
	for _, d := range c.Shape {
		w *= d
	}
	return w
}

// RowBytes returns the bytes of a row.
func (c Column) RowBytes() int64 { return c.Width() * c.DType.Size() }

// NodeType is a kind of node.
type NodeType struct {
	Name    string
	Count   int64
	Columns []Column
	Key     uint64 // keys random draws (docs/sampling.md); set by Schema.Init
}

// EdgeType is a kind of edge: source type, relation, destination type.
type EdgeType struct {
	Source, Relation, Target string
	Count                    int64
	Order                    Order
	Src, Dst                 int    // indices of the two types in Schema.Nodes; set by Schema.Init
	Key                      uint64 // keys random draws (docs/sampling.md); set by Schema.Init
}

// String returns "source:relation:target".
func (e EdgeType) String() string { return e.Source + ":" + e.Relation + ":" + e.Target }

// Schema names what a graph has. It is read-only once Init has returned.
type Schema struct {
	Nodes       []NodeType
	Edges       []EdgeType
	EdgeColumns []Column
}

// Init checks the schema and sets the keys and indices of the types. Names must be unique and valid; counts must not be
// negative. ErrSchema otherwise.
func (s *Schema) Init() error {
	if len(s.Nodes) == 0 || len(s.Edges) == 0 {
		return fmt.Errorf("%w: there must be at least one node type and one edge type", ErrSchema)
	}
	if len(s.Edges) > MaxEdgeTypes {
		return fmt.Errorf("%w: %d edge types, at most %d are possible", ErrSchema, len(s.Edges), MaxEdgeTypes)
	}
	index, known := make(map[string]int, len(s.Nodes)), names.Set{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if err := known.Add("node type", n.Name); err != nil {
			return err
		}
		if _, twice := index[n.Name]; twice || n.Count < 0 {
			return fmt.Errorf("%w: node type %q: there twice, or count %d negative", ErrSchema, n.Name, n.Count)
		}
		index[n.Name] = i
		if err := checkColumns("node type "+n.Name, n.Columns); err != nil {
			return err
		}
		n.Key = 0
		if len(s.Nodes) > 1 {
			k, err := rng.NodeTypeKey(n.Name)
			if err != nil {
				return fmt.Errorf("%w: %v", ErrSchema, err)
			}
			n.Key = k
		}
	}
	seen, relations := make(map[string]bool, len(s.Edges)), names.Set{}
	for i := range s.Edges {
		if err := relations.Add("relation", s.Edges[i].Relation); err != nil {
			return err
		}
		if err := s.initEdge(&s.Edges[i], index, seen); err != nil {
			return err
		}
	}
	return checkColumns("edges", s.EdgeColumns)
}

func (s *Schema) initEdge(e *EdgeType, index map[string]int, seen map[string]bool) error {
	src, okSrc := index[e.Source]
	dst, okDst := index[e.Target]
	if !okSrc || !okDst {
		return fmt.Errorf("%w: edge type %.300v names a node type that does not exist", ErrSchema, e)
	}
	if seen[e.String()] || e.Count < 0 || e.Order > ByTime {
		return fmt.Errorf("%w: edge type %.300v: there twice, count %d negative, or order unknown", ErrSchema, e,
			e.Count)
	}
	seen[e.String()] = true
	e.Src, e.Dst, e.Key = src, dst, 0
	if len(s.Edges) > 1 {
		k, err := rng.EdgeTypeKey(e.Source, e.Relation, e.Target)
		if err != nil {
			return fmt.Errorf("%w: %v", ErrSchema, err)
		}
		e.Key = k
	}
	return nil
}

func checkColumns(owner string, cols []Column) error {
	seen, known := make(map[string]bool, len(cols)), names.Set{}
	for _, c := range cols {
		if err := known.Add("column of "+owner, c.Name); err != nil {
			return err
		}
		if seen[c.Name] || c.DType.Size() == 0 || len(c.Shape) >= unified.MaxRank {
			return fmt.Errorf("%w: %s: column %q: there twice, of an unknown type, or of too many dimensions",
				ErrSchema, owner, c.Name)
		}
		seen[c.Name] = true
		width := int64(1)
		for _, d := range c.Shape {
			if d <= 0 || width > (1<<40)/d {
				return fmt.Errorf("%w: %s: column %q: row shape %v", ErrSchema, owner, c.Name, c.Shape)
			}
			width *= d
		}
		if err := c.checkCode(); err != nil {
			return err
		}
	}
	return nil
}

// NodeType returns the index of a node type, or -1.
func (s *Schema) NodeType(name string) int {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return i
		}
	}
	return -1
}

// EdgeType returns the index of an edge type by "source:relation:target", or by its relation alone if only one type has
// it. The error lists the edge types. For many names use EdgeTypes.
func (s *Schema) EdgeType(name string) (int, error) { return s.EdgeTypes()(name) }

// EdgeTypes returns EdgeType as a function that looks names up in a table.
func (s *Schema) EdgeTypes() func(name string) (int, error) {
	whole, relations := make(map[string]int, len(s.Edges)), make(map[string]int, len(s.Edges))
	for i := range s.Edges {
		e := &s.Edges[i]
		whole[e.String()] = i
		if _, twice := relations[e.Relation]; twice {
			i = -1
		}
		relations[e.Relation] = i
	}
	return func(name string) (int, error) {
		if i, ok := whole[name]; ok {
			return i, nil
		}
		i, ok := relations[name]
		switch {
		case !ok:
			return -1, fmt.Errorf("%w: no edge type %q; there are: %s", ErrSchema, name, s.edgeNames())
		case i < 0:
			return -1, fmt.Errorf("%w: several edge types have the relation %q: write source:relation:target",
				ErrSchema, name)
		}
		return i, nil
	}
}

func (s *Schema) edgeNames() string {
	var names []string
	for i := range s.Edges {
		if i == 20 {
			names = append(names, "...")
			break
		}
		names = append(names, s.Edges[i].String())
	}
	return strings.Join(names, ", ")
}

// NumNodes returns the nodes of all types.
func (s *Schema) NumNodes() int64 {
	n := int64(0)
	for i := range s.Nodes {
		n += s.Nodes[i].Count
	}
	return n
}

// NumEdges returns the edges of all types.
func (s *Schema) NumEdges() int64 {
	n := int64(0)
	for i := range s.Edges {
		n += s.Edges[i].Count
	}
	return n
}

// IDType returns the dtype of node ids: Int32 while all nodes number below 2^31, else Int64.
func (s *Schema) IDType() unified.DType { return idType(s.NumNodes()) }

// PosType returns the dtype of edge positions: Int32 while all edges number below 2^31, else Int64.
func (s *Schema) PosType() unified.DType { return idType(s.NumEdges()) }

func idType(n int64) unified.DType {
	if n < 1<<31 {
		return unified.Int32
	}
	return unified.Int64
}

// Role is what a column means to khop. The column's name decides its role, and only this file says which. Readers of
// foreign formats, and users who add a column, choose the role by the name.
type Role uint8

// The roles.
const (
	NoRole  Role = iota // numbers like any others
	Feature             // of nodes or edges: what a model reads
	Label               // of nodes: what a model predicts
	Time                // of nodes or edges: when they begin to exist, one number
	Weight              // of edges: how likely they are drawn; finite and not negative
)

var roles = []string{"", "feature", "label", "time", "weight"}

// String returns the name of the column that has the role; "" for NoRole.
func (r Role) String() string { return roles[r] }

// RoleOf returns the role of a column of that name.
func RoleOf(name string) Role { return Role(max(0, slices.Index(roles, name))) }

// Role returns the column's role.
func (c Column) Role() Role { return RoleOf(c.Name) }

// ScaleOf returns the name of the float32 column with the scales of an int8 column's rows.
func ScaleOf(name string) string { return name + "_scale" }

// NodeRole returns the column of node type t that has a role; ok is false if none has.
func (g *Graph) NodeRole(t int, r Role) (column unified.Tensor, ok bool) {
	return g.NodeColumn(t, r.String())
}
