package gnn

import (
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// attends is attention over edges of some types. It reads rows that have for each of these, one behind the other, a
// product, a score a head of the node as a source, and one as a target.
type attends struct {
	edges        []graph.EdgeType
	heads, width int  // of a product
	loops, once  bool // edges from each node to itself, of edges within a type; each node has one, as in PyG
}

// attended is what edges of a type read of a row.
type attended struct {
	edges int
	name  string
}

// parts returns what is read of rows of nodes of type t, for rows of types of nodes that are to be made.
func (a *attends) parts(t int, makes []bool) (all []attended) {
	for e, of := range a.edges {
		if of.Src == t && makes[of.Dst] {
			all = append(all, attended{e, "product"}, attended{e, "score"})
		}
		if of.Dst == t && makes[t] {
			all = append(all, attended{e, "target"})
		}
	}
	return all
}

// at returns where a part is in a row, and its width.
func (a *attends) at(p attended) (at, width int) {
	at = p.edges * (a.width + 2*a.heads)
	switch p.name {
	case "product":
		return at, a.width
	case "score":
		return at + a.width, a.heads
	}
	return at + a.width + a.heads, a.heads
}

// cut returns the inputs of a layer whose rows before are what attention reads.
func (r *rowsLayer) cut(a *attends, t int) (in inputs) {
	parts, width := a.parts(t, r.makes), len(a.edges)*(a.width+2*a.heads)
	for _, p := range parts {
		_, w := a.at(p)
		if in.widths = append(in.widths, w); len(a.edges) > 1 {
			p.name += fmt.Sprintf("-%d", p.edges)
		}
		in.names = append(in.names, p.name)
	}
	in.of = func(_ *sparse.Pool, x []float32, to [][]float32) error {
		for i := range len(x) / width {
			for k, p := range parts {
				from, w := a.at(p)
				copy(to[k][i*w:(i+1)*w], x[i*width+from:])
			}
		}
		return nil
	}
	return in
}

// attend has the layer sum by attention. The step before finds the greatest score of each node's sources.
func (r *rowsLayer) attend(a *attends) {
	r.attends = true
	r.sums = func(t int, in [][]*embed.Table) (_ *embed.Step, sums []embed.Relation, _ []*embed.Table) {
		before := &embed.Step{Type: t, Apply: func(b *embed.Block) error {
			for i, to := range b.To {
				copy(to, b.Sums[i])
			}
			return nil
		}}
		for e, of := range a.edges {
			if of.Dst != t {
				continue
			}
			table := func(t int, name string) *embed.Table {
				return in[t][slices.Index(a.parts(t, r.makes), attended{e, name})]
			}
			score, target, loops := table(of.Src, "score"), table(t, "target"), a.loops && of.Src == t
			once := a.once && loops
			greatest := &embed.Table{Name: score.Name + "-greatest", Rows: target.Rows, Width: a.heads,
				DType: unified.Float32}
			before.Sums = append(before.Sums, embed.Relation{Edges: e, Reduce: embed.Max, Table: score, Loops: loops,
				Once: once})
			before.To = append(before.To, greatest)
			sums = append(sums, embed.Relation{Edges: e, Reduce: embed.Attend, Table: table(of.Src, "product"),
				Score: score, Target: target, Greatest: greatest, Heads: a.heads, Loops: loops, Once: once})
		}
		if sums == nil {
			return nil, nil, nil
		}
		return before, sums, nil
	}
}
