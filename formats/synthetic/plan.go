package synthetic

import (
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/unified"
)

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
