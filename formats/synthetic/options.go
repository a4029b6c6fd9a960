package synthetic

import (
	"errors"
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
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
