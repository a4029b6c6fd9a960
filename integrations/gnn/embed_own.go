package gnn

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/embed"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/sparse"
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
				"or attend and a number of heads, a colon, and a width, such as mean:64; gcn and attend8:64 take a "+
				"graph with one type of nodes and edges, and attend sums rows before that end in two numbers a head",
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
	one := len(schema.Nodes) == 1 && len(schema.Edges) == 1
	reduce, known := reductions[name]
	if known || name == "rows" {
		r.alone = !known
		r.sums = func(t int, in [][]*embed.Table) (_ *embed.Step, sums []embed.Relation, _ []*embed.Table) {
			for e := range schema.Edges {
				if of := &schema.Edges[e]; of.Dst == t && known {
					sums = append(sums, embed.Relation{Edges: e, Reduce: reduce, Table: in[of.Src][0],
						Loops: reduce == embed.NormIn})
				}
			}
			return nil, sums, in[t][:1]
		}
		return one || reduce != embed.NormIn
	}
	text, attends := strings.CutPrefix(name, "attend")
	heads, err := strconv.Atoi(text)
	if !attends || err != nil || heads < 1 || width <= 2*heads || (width-2*heads)%heads != 0 {
		return false
	}
	r.names, r.widths = []string{"product", "score", "target"}, []int{width - 2*heads, heads, heads}
	r.sums = attending(heads)
	r.inputs = func(_ *sparse.Pool, x []float32, to [][]float32) error {
		for i := range len(x) / width {
			row := x[i*width : (i+1)*width]
			for k, w := range r.widths {
				row = row[copy(to[k][i*w:(i+1)*w], row):]
			}
		}
		return nil
	}
	return one
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
			return fmt.Errorf("layer %d: %w; mend it, and run the same again: what is finished is kept", number+1, err)
		}
		return nil
	}
}
