package gnn

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/internal/embed"
	"github.com/khop-gnn/khop/internal/option"
)

// mostWidth bounds what a layer's width takes of memory.
const mostWidth = 1 << 20

// ownRows is how many nodes a function of one's own has at a time, from a multiple of it on: what it makes of a row may
// depend on how many there are.
const ownRows = 4096

// ownLayers returns the layers that options describe: what each sums of the rows before, and how wide its own are.
func (o *EmbedOptions) ownLayers(width int) (all []*rowsLayer, err error) {
	if o.Rows == nil {
		return nil, option.Errorf(ErrOptions, *o, "Layers", ": nobody computes their rows")
	}
	reductions := map[string]embed.Reduce{"sum": embed.Sum, "mean": embed.Mean, "max": embed.Max}
	for i, word := range strings.Split(o.Layers, ",") {
		name, text, _ := strings.Cut(word, ":")
		reduce, known := reductions[name]
		to, err := strconv.Atoi(text)
		if !known || err != nil || to < 1 || to > mostWidth {
			return nil, option.Errorf(ErrOptions, *o, "Layers", ": number %d, %.40q, is not sum, mean or max, "+
				"a colon, and a width, such as mean:64", i+1, word)
		}
		all = append(all, o.ownLayer(i, reduce, width, to))
		width = to
	}
	return all, nil
}

// ownLayer is a layer whose rows a function of one's own makes.
func (o *EmbedOptions) ownLayer(number int, reduce embed.Reduce, from, to int) *rowsLayer {
	return &rowsLayer{width: to, at: ownRows,
		sums: func(in []*embed.Table) (*embed.Step, []embed.Relation, []*embed.Table) {
			return nil, []embed.Relation{{Reduce: reduce, Table: in[0]}}, in[:1]
		},
		finish: func(b *embed.Block, y []float32) error {
			if err := o.Rows(number, b.Own[0], b.Sums[0], y); err != nil {
				return fmt.Errorf("layer %d: %w; mend it, and run the same again: what is finished is kept", number+1,
					err)
			}
			return nil
		}}
}
