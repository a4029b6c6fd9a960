package gnn

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/option"
)

// mostWidth bounds what a layer's width takes of memory.
const mostWidth = 1 << 20

// ownRows is how many nodes a function of one's own has at a time, from a multiple of it on: what it makes of a row may
// depend on how many there are.
const ownRows = 4096

// ownLayers returns the layers that options describe: what each sums of the rows before, and how wide its own are.
func (o *EmbedOptions) ownLayers(schema *graph.Schema, width int) (all []*rowsLayer, err error) {
	if o.Rows == nil {
		return nil, option.Errorf(ErrOptions, *o, "Layers", ": nobody computes their rows")
	}
	for i, word := range strings.Split(o.Layers, ",") {
		name, text, _ := strings.Cut(word, ":")
		l := &rowsLayer{at: ownRows, finish: o.ownRows(schema, i)}
		l.width, err = strconv.Atoi(text)
		if !l.reduce(schema, name, width) || err != nil || l.width < 1 || l.width > mostWidth {
			return nil, option.Errorf(ErrOptions, *o, "Layers", ": number %d, %.40q, is not rows, sum, mean, max, gcn "+
				"or attend and a number of heads, a colon, and a width, such as mean:64; attend8 and attend8bare sum "+
				"rows of a layer before that have a product and two numbers a head for each type of edges",
				i+1, word)
		}
		all, width = append(all, l), l.width
	}
	return all, nil
}

// reductions are those of layers of one's own, by name.
var reductions = map[string]embed.Reduce{"sum": embed.Sum, "mean": embed.Mean, "max": embed.Max, "gcn": embed.NormIn}

// reduce says by name what a layer sums of rows before of some width, and reports whether there is such a sum.
func (r *rowsLayer) reduce(schema *graph.Schema, name string, width int) bool {
	reduce, known := reductions[name]
	if known || name == "rows" {
		r.alone = !known
		r.sums = func(t int, in [][]*embed.Table) (_ *embed.Step, sums []embed.Relation, _ []*embed.Table) {
			for e := range schema.Edges {
				if of := &schema.Edges[e]; of.Dst == t && known {
					sums = append(sums, relation(e, of, reduce, in[of.Src][0]))
				}
			}
			return nil, sums, in[t][:1]
		}
		return true
	}
	text, attending := strings.CutPrefix(name, "attend")
	text, bare := strings.CutSuffix(text, "bare")
	heads, err := strconv.Atoi(text)
	product := width/len(schema.Edges) - 2*heads
	if !attending || err != nil || heads < 1 || width%len(schema.Edges) > 0 || product < 1 || product%heads > 0 {
		return false
	}
	a := &attends{edges: schema.Edges, heads: heads, width: product, loops: !bare, once: true}
	r.inputs = func(t int) inputs { return r.cut(a, t) }
	r.attend(a)
	return true
}

// relation is a reduction over edges of a type. GCN has one loop a node within a type, as PyG has; between two types
// a source has no in-edges of that type, but out-edges.
func relation(e int, of *graph.EdgeType, reduce embed.Reduce, x *embed.Table) embed.Relation {
	within := of.Src == of.Dst
	if reduce == embed.NormIn && !within {
		reduce = embed.Norm
	}
	loops := reduce == embed.NormIn
	return embed.Relation{Edges: e, Reduce: reduce, Table: x, Loops: loops, Once: loops}
}

// ownRows returns what makes the rows of a layer by a function of one's own.
func (o *EmbedOptions) ownRows(schema *graph.Schema, number int) func(b *embed.Block, y []float32) error {
	return func(b *embed.Block, y []float32) error {
		var own []float32
		if len(b.Own) > 0 {
			own = b.Own[0]
		}
		sums, next := map[string][]float32{}, 0
		for e := range schema.Edges {
			if schema.Edges[e].Dst == b.Type && next < len(b.Sums) {
				sums[schema.Edges[e].String()] = b.Sums[next]
				next++
			}
		}
		if err := o.Rows(number, schema.Nodes[b.Type].Name, own, sums, y); err != nil {
			return fmt.Errorf("layer %d: %w; mend it, and do the same again", number+1, err)
		}
		return nil
	}
}
