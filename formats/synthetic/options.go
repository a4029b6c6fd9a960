package synthetic

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/machine"
)

// ErrOptions is returned for options that make no graph.
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
		{SBM, "stochastic block model: classes that prefer themselves, with features and labels that can be learned"},
		{RMAT, "R-MAT (Graph500): skewed degrees, no features unless asked for"},
		{Products, "the size and degrees of ogbn-products: undirected, power law, 47 classes, 100 features"},
		{Typed, "papers, authors and institutions, with four edge types"},
	}
}

// None, in Options, is "0 of it" where 0 would be the kind's default.
const None = -1

// maxClasses and maxFeatures are the greatest number of classes and the greatest width of a feature row.
const maxClasses, maxFeatures = 1 << 20, 1 << 20

// maxCount bounds nodes and edges, so that no size in bytes overflows and every count is exact as a float64.
const maxCount = 1 << 50

// Options says what to generate. The zero value is the kind's default of everything.
type Options struct {
	// Nodes of all types. 0 is the kind's default, None none.
	Nodes int64
	// Edges, directed, of all types. 0 is the kind's default, or its average degree times Nodes where Nodes was given.
	Edges int64
	// Features is the width of the float32 feature column. 0 is the kind's default, None no such column.
	Features int
	// Classes is the number of labels. 0 is the kind's default (but not more than there are nodes of the labelled
	// type), None no label column.
	Classes int
	// Seed keys all randomness: equal options make equal files, on every machine.
	Seed uint64
	// Force replaces an existing dataset, when the new one is complete.
	Force bool
	// Workers is the number of goroutines that compute. 0 is one a CPU. It changes nothing that is written.
	Workers int
	// Progress, if not nil, is told of the bytes written.
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
	if err := o.checkRanges(); err != nil {
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

func (o Options) checkRanges() error {
	checks := []struct {
		name       string
		value, max int64
	}{
		{"nodes", o.Nodes, maxCount}, {"edges", o.Edges, maxCount}, {"features", int64(o.Features), maxFeatures},
		{"classes", int64(o.Classes), maxClasses}, {"workers", int64(o.Workers), math.MaxInt16},
	}
	for _, c := range checks {
		if c.value > c.max || c.value < None || c.name == "workers" && c.value < 0 {
			return fmt.Errorf("%w: %d %s: not within 0 .. %d", ErrOptions, c.value, c.name, c.max)
		}
	}
	return nil
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
