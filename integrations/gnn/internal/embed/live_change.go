package embed

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// ErrChange is returned for changes that cannot be made.
var ErrChange = errors.New("the changes cannot be made")

// Change is what changes of a graph and its features at once: edges that are taken away, and then edges that are added,
// beside rows of features. Ids are own ids.
type Change struct {
	Rows        []ChangedRows
	Remove, Add []ChangedEdges
}

// ChangedRows are rows of features of nodes of a type. Ids from the number of its nodes on are new nodes.
type ChangedRows struct {
	Type int
	IDs  []int64
	Rows []float32 // [len(IDs), width]
}

// ChangedEdges are edges of a type.
type ChangedEdges struct {
	Edges    int
	Src, Dst []int64
}

// Input is the features of a type of nodes, as they are stored, and the table that a program reads of them.
type Input struct {
	Width     int           // of rows; 0: there are no features
	Stored    unified.DType // float32 or floats of 16 bits, to which rows that change must be equal
	Fixed     string        // how features are stored whose rows cannot change; "": they can
	Table     *Table        // nil: no step reads them
	Normalise bool          // the table has rows divided by their sums
}

// edits are changes of edges of a type, as the lists of targets and of sources take them.
type edits struct{ inLess, inMore, outLess, outMore []link }

// checked is a change that may be made, but that edges to be taken away may be missing.
type checked struct {
	*Change
	nodes []int64 // how many there are then
	edits []edits // [edge type]
}

// check refuses changes that name what is not there, and says what they come to.
func (c *Change) check(schema *graph.Schema, nodes []int64, inputs []Input) (*checked, error) {
	to := &checked{Change: c, nodes: slices.Clone(nodes), edits: make([]edits, len(schema.Edges))}
	ids := make([][]int64, len(nodes))
	for i := range c.Rows {
		one := &c.Rows[i]
		if one.Type < 0 || one.Type >= len(nodes) {
			return nil, fmt.Errorf("%w: there is no node type %d", ErrChange, one.Type)
		}
		if err := one.check(schema.Nodes[one.Type].Name, &inputs[one.Type]); err != nil {
			return nil, err
		}
		ids[one.Type] = append(ids[one.Type], one.IDs...)
	}
	for t, all := range ids {
		slices.Sort(all)
		for i, v := range all {
			name := schema.Nodes[t].Name
			switch {
			case v < 0:
				return nil, fmt.Errorf("%w: features of node type %q: id %d; ids begin at 0", ErrChange, name, v)
			case i > 0 && all[i-1] == v:
				return nil, fmt.Errorf("%w: features of node type %q: id %d is there twice; give each row once",
					ErrChange, name, v)
			case v > to.nodes[t]:
				return nil, fmt.Errorf("%w: features of node type %q: id %d, and there are %d nodes; new ones have "+
					"the ids from there on, without holes: give %d, too", ErrChange, name, v, nodes[t], to.nodes[t])
			case v == to.nodes[t]:
				to.nodes[t]++
			}
		}
		if to.nodes[t] > math.MaxInt32 {
			return nil, fmt.Errorf("%w: %d nodes of type %q; there may be %d", ErrChange, to.nodes[t],
				schema.Nodes[t].Name, math.MaxInt32)
		}
	}
	return to, errors.Join(to.take("remove", c.Remove, schema), to.take("add", c.Add, schema))
}

// check refuses rows that features of a type cannot have.
func (c *ChangedRows) check(name string, in *Input) error {
	if len(c.IDs) > 0 && in.Fixed != "" {
		return fmt.Errorf("%w: features of node type %q are stored as %s, whose rows cannot change; store them as "+
			"float32 or in 16 bits (khop add --feature-dtype)", ErrChange, name, in.Fixed)
	}
	if len(c.Rows) != len(c.IDs)*in.Width {
		return fmt.Errorf("%w: features of node type %q: %d numbers for %d rows; a row has %d", ErrChange, name,
			len(c.Rows), len(c.IDs), in.Width)
	}
	for i, v := range c.Rows {
		if math.Float32bits(v)&infinite == infinite {
			return fmt.Errorf("%w: features of node type %q: id %d has %v in column %d; give finite numbers", ErrChange,
				name, c.IDs[i/in.Width], v, i%in.Width)
		}
	}
	if !in.Stored.IsHalf() {
		return nil
	}
	raw, back := make([]byte, in.Stored.Size()*int64(in.Width)), make([]float32, in.Width)
	for i, id := range c.IDs {
		row := c.Rows[i*in.Width : (i+1)*in.Width]
		_ = in.Stored.PutFloats(raw, row)
		in.Stored.Floats(back, raw)
		for k, v := range row {
			if back[k] != v {
				return fmt.Errorf("%w: features of node type %q: id %d has %v in column %d, which %v rounds; round it "+
					"to that first", ErrChange, name, id, v, k, in.Stored)
			}
		}
	}
	return nil
}

// take checks the ends of edges, and adds the edges to the edits of their types.
func (c *checked) take(what string, all []ChangedEdges, schema *graph.Schema) error {
	for i := range all {
		one := &all[i]
		if one.Edges < 0 || one.Edges >= len(schema.Edges) {
			return fmt.Errorf("%w: %s: there is no edge type %d", ErrChange, what, one.Edges)
		}
		e := &schema.Edges[one.Edges]
		if len(one.Src) != len(one.Dst) {
			return fmt.Errorf("%w: %s %v: %d sources and %d destinations", ErrChange, what, e, len(one.Src),
				len(one.Dst))
		}
		to := &c.edits[one.Edges]
		in, out := &to.inMore, &to.outMore
		if what == "remove" {
			in, out = &to.inLess, &to.outLess
		}
		*in, *out = slices.Grow(*in, len(one.Src)), slices.Grow(*out, len(one.Src))
		for k, j := range one.Src {
			v := one.Dst[k]
			if j < 0 || j >= c.nodes[e.Src] || v < 0 || v >= c.nodes[e.Dst] {
				return fmt.Errorf("%w: %s %v: edge %d, from %d to %d, and there are %d nodes of type %q and %d of "+
					"type %q; new nodes come with rows of features", ErrChange, what, e, k, j, v, c.nodes[e.Src],
					e.Source, c.nodes[e.Dst], e.Target)
			}
			*in, *out = append(*in, link{int32(v), int32(j)}), append(*out, link{int32(j), int32(v)})
		}
		slices.SortFunc(*in, byNode)
		slices.SortFunc(*out, byNode)
	}
	return nil
}

// counts returns how many rows and edges a change has.
func (c *Change) counts() (rows, edges int64) {
	for i := range c.Rows {
		rows += int64(len(c.Rows[i].IDs))
	}
	for _, all := range [][]ChangedEdges{c.Remove, c.Add} {
		for i := range all {
			edges += int64(len(all[i].Src))
		}
	}
	return rows, edges
}
