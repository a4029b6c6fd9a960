package gomlx

import (
	"fmt"
	"strings"

	ml "github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/shapes"
)

// Spec says what a batch's inputs are. Specs can be compared: GoMLX compiles a model once for equal specs and shapes,
// so that datasets of the same columns and layers share it.
type Spec struct {
	layers           int
	node, edge, seed string // names of columns, separated by commas
}

// String describes the spec.
func (s Spec) String() string {
	return fmt.Sprintf("khop layers=%d node=%s edge=%s seed=%s", s.layers, s.node, s.edge, s.seed)
}

// Batch is a batch in the graph of a model. Lists of nodes begin with the batch's, in the sample's order (seeds first),
// and end with padding, the last of which is the dump row; lists of edges likewise. Rows of padding are zero.
type Batch struct {
	// IDs are the nodes' ids in the dataset, int32 or int64 [nodes]; 0 for padding.
	IDs *ml.Node
	// Mask is true for nodes and false for padding: bool [nodes].
	Mask *ml.Node
	// Layers are the sample's layers, outermost first: the order in which a model computes them.
	Layers []Layer

	spec       Spec
	node, seed map[string]*ml.Node
}

// Layer is one layer of the sample. Its sources are the nodes of the batch (the first layer) or the destinations of the
// layer before; its destinations are the first of its sources; those of the last layer are the seeds.
type Layer struct {
	// Source and Target are the edges' ends, int32 [edges]: rows among the layer's sources and destinations. Targets
	// are ascending. Padded edges lead from the sources' dump row to the destinations'.
	Source, Target *ml.Node
	// Mask is true for destinations and false for padding: bool [destinations].
	Mask *ml.Node

	edge map[string]*ml.Node
}

// Unpack names the inputs that a Dataset yielded. Call it in the model function, with its arguments.
//
// It and the methods of Batch and Layer panic with an error if they are misused, as GoMLX's graph functions do; the
// trainer returns it.
func Unpack(spec any, inputs []*ml.Node) Batch {
	s, ok := spec.(Spec)
	if !ok {
		panic(fmt.Errorf("gomlx.Unpack: spec is %T, not that of a gomlx.Dataset", spec))
	}
	node, edge, seed := split(s.node), split(s.edge), split(s.seed)
	moreSeed := seed[min(1, len(seed)):] // the first is the labels
	if want := 2 + len(node) + s.layers*(3+len(edge)) + len(moreSeed); len(inputs) != want {
		panic(fmt.Errorf("gomlx.Unpack: %d inputs, but %v has %d: pass all that the model was given", len(inputs), s,
			want))
	}
	take := func() *ml.Node {
		n := inputs[0]
		inputs = inputs[1:]
		return n
	}
	takeNamed := func(names []string) map[string]*ml.Node {
		m := make(map[string]*ml.Node, len(names))
		for _, name := range names {
			m[name] = take()
		}
		return m
	}
	b := Batch{spec: s, IDs: take(), node: takeNamed(node), Mask: take()}
	for range s.layers {
		b.Layers = append(b.Layers, Layer{Source: take(), Target: take(), Mask: take(), edge: takeNamed(edge)})
	}
	b.seed = takeNamed(moreSeed)
	return b
}

func split(names string) []string {
	if names == "" {
		return nil
	}
	return strings.Split(names, ",")
}

// X returns the nodes' features: Node("feature").
func (b Batch) X() *ml.Node { return b.Node("feature") }

// Node returns a column of the loader's NodeColumns: [nodes, row...], where the row of a column of numbers is [1].
func (b Batch) Node(column string) *ml.Node { return named(b.node, column, "NodeColumns") }

// Seed returns a column of the loader's SeedColumns but the first, which is the labels: [seeds, row...].
func (b Batch) Seed(column string) *ml.Node {
	return named(b.seed, column, "SeedColumns after the first, which is the labels")
}

// Edge returns a column of the loader's EdgeColumns: [edges, row...].
func (l Layer) Edge(column string) *ml.Node { return named(l.edge, column, "EdgeColumns") }

func named(columns map[string]*ml.Node, name, option string) *ml.Node {
	n, ok := columns[name]
	if !ok {
		panic(fmt.Errorf("gomlx: no column %q among the loader's %s", name, option))
	}
	return n
}

// EdgeMask is true for edges and false for padding: bool [edges].
func (l Layer) EdgeMask() *ml.Node {
	dump := l.Mask.Shape().Dimensions[0] - 1
	return ml.LessThan(l.Target, ml.Scalar(l.Target.Graph(), l.Target.DType(), dump))
}

// Destinations returns, from h [sources, ...], the rows of the layer's destinations, which are the first:
// [destinations, ...].
func (l Layer) Destinations(h *ml.Node) *ml.Node {
	// Not a slice: its gradient is a Pad, which the Go backend lacks.
	first := shapes.Make(l.Source.DType(), l.Mask.Shape().Dimensions[0], 1)
	return ml.Gather(h, ml.Iota(h.Graph(), first, 0), true)
}

// Messages returns, from h [sources, ...], the row of each edge's source: [edges, ...].
func (l Layer) Messages(h *ml.Node) *ml.Node { return ml.Gather(h, ml.InsertAxes(l.Source, -1)) }

// Sum adds up the messages [edges, ...] that each destination gets: [destinations, ...]; zero for destinations without
// messages.
func (l Layer) Sum(messages *ml.Node) *ml.Node {
	shape := messages.Shape().Clone()
	shape.Dimensions[0] = l.Mask.Shape().Dimensions[0]
	return ml.ScatterSum(ml.Zeros(messages.Graph(), shape), ml.InsertAxes(l.Target, -1), messages, true, false)
}

// Mean is Sum divided by Degree; zero for destinations without messages.
func (l Layer) Mean(messages *ml.Node) *ml.Node {
	degree := ml.ConvertDType(ml.MaxScalar(l.Degree(), 1), messages.DType())
	for degree.Rank() < messages.Rank() {
		degree = ml.InsertAxes(degree, -1)
	}
	return ml.Div(l.Sum(messages), degree)
}

// Degree returns the number of edges of each destination: int32 [destinations]. That of the dump row is undefined.
func (l Layer) Degree() *ml.Node {
	g := l.Target.Graph()
	return l.Sum(ml.Ones(g, shapes.Make(l.Target.DType(), l.Target.Shape().Dimensions[0])))
}
