package synthetic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

// ErrOptions is returned for options that describe no graph.
var ErrOptions = errors.New("invalid options")

// The kinds of graphs that Generate makes.
const (
	SBM      = "sbm"
	RMAT     = "rmat"
	Products = "products"
	Typed    = "typed"
)

// Kinds returns the names of the kinds, with a line on each.
func Kinds() [][2]string {
	return [][2]string{
		{SBM, "stochastic block model, with features and labels that can be learned"},
		{RMAT, "R-MAT (Graph500): skewed degrees, no features unless asked for"},
		{Products, "the size and degrees of ogbn-products: 47 classes, 100 features"},
		{Typed, "papers, authors and institutions, with four edge types"},
	}
}

// None, in Options, means 0, where the value 0 means the kind's default.
const None = -1

// Options says what to generate. Zero values are the kind's defaults. Package internal/option reads the
// tags. Counts end at 2^50, so that no size in bytes overflows and every count is exact as a float64.
type Options struct {
	// Nodes of all types. None means no nodes.
	Nodes int64 `default:"0" range:"-1,1125899906842624" help:"Number of nodes; 0: the kind's default."`
	// Edges, directed, of all types. None means no edges.
	Edges int64 `default:"0" range:"-1,1125899906842624" help:"..."`
	// Features is the width of the float32 feature column. None means no such column.
	Features int `default:"0" range:"-1,1048576" help:"Width of float32 features; 0: the kind's default, -1: none."`
	// Classes is the number of labels, by default no more than there are nodes of the labelled type. None means no
	// label column.
	Classes int `default:"0" range:"-1,1048576" help:"Number of classes; 0: the kind's default, -1: no labels."`
	// Seed keys all randomness: equal options make equal files, on every machine.
	Seed uint64 `default:"0" help:"Key of every random choice."`
	// Workers is the number of goroutines that compute.
	Workers int `default:"0" range:"0,32767" help:"Goroutines; 0: one per core. They change no result."`
	// Force replaces an existing dataset, when the new one is complete.
	Force bool `help:"Replace a dataset that is there."`
	// Progress, if not nil, receives the bytes written.
	Progress formats.Progress
}

var defaults = map[string]Options{
	SBM:      {Nodes: 20_000, Edges: 400_000, Features: 64, Classes: 8},
	RMAT:     {Nodes: 1 << 20, Edges: 16 << 20},
	Products: {Nodes: 2_449_029, Edges: 123_718_280, Features: 100, Classes: 47},
	Typed:    {Nodes: 200_000, Edges: 2_000_000, Features: 128, Classes: 16},
}

// resolve replaces what was left at zero by the kind's defaults, and None by 0, and checks the result, which is not
// meant to be passed on to Generate.
func (o Options) resolve(kind string) (Options, error) {
	d, ok := defaults[kind]
	if !ok {
		return o, fmt.Errorf("%w: no kind of graph %q; there are: %s", ErrOptions, kind, kindNames())
	}
	if err := option.Check(ErrOptions, o); err != nil {
		return o, err
	}
	if o.Edges == 0 {
		o.Edges = d.Edges
		if o.Nodes != 0 {
			o.Edges = int64(float64(max(o.Nodes, 0)) * (float64(d.Edges) / float64(d.Nodes)))
		}
	}
	o.Edges = max(o.Edges, 0)
	o.Nodes = orDefault(o.Nodes, d.Nodes)
	o.Features = orDefault(o.Features, d.Features)
	labelled := o.Nodes
	if kind == Typed {
		labelled = min(typedCounts(o.Nodes).papers, typedCounts(o.Nodes).authors)
		if o.Edges > 0 && o.Nodes > 0 && o.Nodes < 3 {
			return o, fmt.Errorf("%w: %d edges among %d nodes: a typed graph with edges has 3 nodes at least, one of "+
				"each type", ErrOptions, o.Edges, o.Nodes)
		}
	}
	if int64(o.Classes) > labelled {
		return o, fmt.Errorf("%w: %d classes of %d labelled nodes: ask for at most as many classes as nodes",
			ErrOptions, o.Classes, labelled)
	}
	if o.Classes == 0 {
		o.Classes = int(min(int64(d.Classes), labelled))
	}
	o.Classes = max(o.Classes, 0)
	if o.Edges > 0 && o.Nodes == 0 {
		return o, fmt.Errorf("%w: %d edges without nodes: ask for nodes, or for no edges", ErrOptions, o.Edges)
	}
	if o.Workers == 0 {
		o.Workers = machine.Workers()
	}
	return o, nil
}

func orDefault[T int | int64](v, d T) T {
	switch v {
	case 0:
		return d
	case None:
		return 0
	}
	return v
}

func kindNames() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k[0])
	}
	return strings.Join(names, ", ")
}

// plan is a graph that can be computed piece by piece.
type plan struct {
	schema graph.Schema
	// edges fills a chunk with the in-edges of its nodes (fused ids).
	edges func(*chunk)
	// attributes by node type; nil for a type that has none.
	attributes []*attributes
	// splits of the nodes of type 0: sizes, and the key of their order.
	splits   []split
	splitKey uint64
}

type split struct {
	name string
	size int64
}

// What the streams of a graph are for. The numbers key them: they must never change.
const (
	partOrder = iota + 1
	partDegrees
	partSources
	partMatching
	partAttributes
	partSplit
	partAuthors
	partAuthorAttributes
	partInstitutions
	partAffiliations
)

// keys gives each part of a graph its streams.
type keys struct{ base uint64 }

func newKeys(kind string, seed uint64) keys {
	// a hash of the name; the only error is of a name that is not UTF-8
	k, _ := rng.NodeTypeKey("khop generate " + kind)
	return keys{rng.Stream(rng.Mix64(seed), k)}
}

func (k keys) part(p uint64) uint64 { return rng.Stream(k.base, p) }

func newPlan(kind string, o Options) *plan {
	k := newKeys(kind, o.Seed)
	switch kind {
	case SBM:
		return sbm(o, k)
	case RMAT:
		return rmat(o, k)
	case Products:
		return products(o, k)
	default:
		return typed(o, k)
	}
}

// plain returns the plan of a graph with one node and one edge type.
func plain(o Options, k keys, node, relation string) (*plan, *population) {
	nodes := newPopulation(k.part(partOrder), uint64(o.Nodes), uint64(o.Classes))
	p := &plan{splitKey: k.part(partSplit), splits: thirds(o.Nodes)}
	p.attributes = []*attributes{newAttributes(k.part(partAttributes), &nodes, o.Features, o.Classes)}
	p.schema = graph.Schema{
		Nodes: []graph.NodeType{{Name: node, Count: o.Nodes, Columns: p.attributes[0].columns()}},
		Edges: []graph.EdgeType{{Source: node, Relation: relation, Target: node, Count: o.Edges}},
	}
	return p, &nodes
}

// thirds returns splits of 60, 20 and 20 % of n nodes.
func thirds(n int64) []split {
	train, val := (n*3+4)/5, n/5
	return []split{{"train", train}, {"val", val}, {"test", n - train - val}}
}

func (a *attributes) columns() []graph.Column {
	var cols []graph.Column
	if a.width > 0 {
		cols = append(cols, graph.Column{Name: graph.Feature.String(), DType: unified.Float32,
			Shape: []int64{int64(a.width)}})
	}
	if a.labels {
		cols = append(cols, graph.Column{Name: graph.Label.String(), DType: unified.Int64})
	}
	return cols
}

// bytes returns the size of all arrays, without the heads of their files.
func (p *plan) bytes() int64 {
	s := &p.schema
	n := 8*(s.NumNodes()+1) + s.IDType().Size()*s.NumEdges()
	if len(s.Edges) > 1 {
		n += s.NumEdges()
	}
	for _, t := range s.Nodes {
		for _, c := range t.Columns {
			n += c.RowBytes() * t.Count
		}
	}
	for _, sp := range p.splits {
		n += s.IDType().Size() * sp.size
	}
	return n
}

// separation is the distance between the centroids of two classes, in standard deviations of a feature, on average. At
// 3 a node's own features tell its class often but not always, and those of its neighbours help.
const separation = 3

// attributes makes the features and labels of a node type: a centroid for each class, and noise about it that is nearly
// normal.
type attributes struct {
	nodes     *population
	labels    bool
	width     int
	centroids []float32 // [classes, width]
	noise     uint64
}

func newAttributes(key uint64, nodes *population, width, classes int) *attributes {
	a := &attributes{nodes: nodes, width: width, labels: classes > 0, noise: rng.Stream(key, 0)}
	a.centroids = make([]float32, int(nodes.classes)*width)
	if classes > 0 {
		scale := float32(separation / math.Sqrt(2*float64(width)))
		for i := range a.centroids {
			a.centroids[i] = scale * bell(rng.Draw(rng.Stream(key, 1), uint64(i)))
		}
	}
	return a
}

// bell turns a draw into a number of mean 0 and variance 1: the sum of four uniforms of 16 bits, within 3.47 of 0.
func bell(d uint64) float32 {
	sum := d&0xffff + d>>16&0xffff + d>>32&0xffff + d>>48
	return float32(int32(sum)-2*0xffff) * (1 / 37837.227) // sqrt(4·(2^32-1)/12)
}

// fill sets the chunk's bytes to feature rows and its other to labels.
func (a *attributes) fill(c *chunk) {
	for i := range uint64(c.n) {
		id := c.first + i
		_, class := a.nodes.of(id)
		if a.labels {
			c.other = binary.LittleEndian.AppendUint64(c.other, class)
		}
		stream := rng.Stream(a.noise, id)
		for j, centre := range a.centroids[int(class)*a.width : int(class+1)*a.width] {
			// converted, so that it is not fused with bell's product
			x := centre + float32(bell(rng.Draw(stream, uint64(j))))
			c.bytes = binary.LittleEndian.AppendUint32(c.bytes, math.Float32bits(x))
		}
	}
}
