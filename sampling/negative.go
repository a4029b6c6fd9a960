package sampling

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// Law says with what probability a node replaces an end of an edge.
type Law uint8

const (
	// Uniform takes every node of the type with equal probability.
	Uniform Law = iota
	// ByDegree takes a node in proportion to d^Alpha, where d is its degree in the edge type at that end: out-degree as
	// a source, in-degree as a target (Mikolov et al., "Distributed representations of words and phrases and their
	// compositionality", NeurIPS 2013).
	ByDegree
	// ByWeight takes a node in proportion to a column of its type.
	ByWeight
	// InBatch takes the end of one of the batch's edges of the type, each with equal probability.
	InBatch
	// Historical takes the other end of an edge of before that the end that stays has, each with equal probability, and
	// refuses what is an edge at the time of the seed (Poursafaei et al., "Towards better evaluation for dynamic link
	// prediction", NeurIPS 2022).
	Historical
)

var laws = []string{"uniform", "degree", "weight", "batch", "historical"}

// String returns the name on the command line.
func (l Law) String() string { return enum.Name(laws, l) }

// End says which end of an edge a negative replaces.
type End uint8

const (
	// TargetEnd replaces the target.
	TargetEnd End = iota
	// SourceEnd replaces the source.
	SourceEnd
	// EitherEnd replaces one of the two, each with probability 1/2.
	EitherEnd
	// BothEnds replaces both.
	BothEnds
)

var ends = []string{"target", "source", "either", "both"}

// String returns the name on the command line.
func (e End) String() string { return enum.Name(ends, e) }

// Negatives says which false edges a batch gets with its seed edges: each is a seed edge with one end or both replaced.
// The zero value adds none. docs/sampling.md, "Negatives", states the result in full.
//
// Cost: O(1) a negative if the law is uniform or in-batch, O(log nodes) if it has weights, O(log degree) if it is
// historical. With Strict each try takes O(log degree), or O(degree) for edge types ordered by time.
type Negatives struct {
	// Ratio is how many negatives each edge gets. It may be a fraction: the first i edges of a type have floor(i *
	// Ratio) together.
	Ratio float64 `name:"negative-ratio" id:"ratio" default:"1" zero:"0" with:"negatives" help:"..."`
	// Law says which nodes replace an end, Replace which end.
	Law     Law `name:"negatives" id:"law" default:"none" empty:"none" help:"..."`
	Replace End `name:"corrupt" id:"replace" default:"target" with:"negatives" help:"..."`
	// Weight names a column of the nodes, for ByWeight: a number that is finite and not negative.
	Weight string `name:"negative-weight" key:"weight" with:"negatives" empty:"none" value:"COLUMN" help:"..."`
	// Time names a column of the nodes, integers: only nodes whose time is not after that of the edge are drawn. Nodes
	// of types without it always exist. The edges must have times.
	Time string `name:"negative-time" key:"time" with:"negatives" empty:"none" value:"COLUMN" help:"..."`
	// Type names a column of the nodes, integers: a node replaces only ends that have the same number in it. Node types
	// without it are not divided.
	Type string `name:"negative-type" key:"type" with:"negatives" empty:"none" value:"COLUMN" help:"..."`
	// Alpha is the exponent of degrees, above 0 and at most 1, in steps of 2^-32; 0 means 0.75.
	Alpha float64 `name:"negative-alpha" key:"alpha" default:"0.75" zero:"0" with:"negatives" help:"..."`
	// History names a column of the edges, integers: their times, for Historical. The seeds must have times.
	History string `name:"negative-history" key:"history" with:"negatives" empty:"none" value:"COLUMN" help:"..."`
	// Fill draws a historical negative whose tries were all refused as often again, uniformly.
	Fill bool `name:"negative-fill" key:"fill" with:"negatives" help:"..."`
	// Strict draws again if a negative is an edge of the graph, the edge itself or a self-loop.
	Strict bool `with:"negatives" help:"Draw a negative again if it is an edge, a self-loop or its seed."`
	// Tries is the most draws for a negative, if draws can be refused; 0 means 16. A negative whose draws were all
	// refused is left out (with Triplets it becomes the edge itself), and is counted.
	Tries int `name:"negative-tries" key:"tries" default:"16" zero:"0" with:"negatives" help:"..."`
	// Triplets keeps all negatives of an edge, so that they form rows: source, target and Ratio other targets (or
	// sources). Ratio must be whole, and Replace one end.
	Triplets bool `with:"negatives" help:"..."`
}

const (
	mostRatio  = 1 << 20 // the greatest Ratio
	usualAlpha = 0.75
)

// Validate returns an error that wraps ErrOptions if the options are invalid for graphs of this schema.
func (n Negatives) Validate(s *graph.Schema) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: negatives: "+format, append([]any{ErrOptions}, args...)...)
	}
	switch {
	case !(n.Ratio >= 0 && n.Ratio <= mostRatio):
		return refuse("ratio %v: must be 0 to %d", n.Ratio, mostRatio)
	case n.Law > Historical || n.Replace > BothEnds:
		return refuse("no law %v of end %v", n.Law, n.Replace)
	case n.Tries < 0 || n.Tries > 1<<16:
		return refuse("%d tries: must be 1 to 65,536, or 0 for the default", n.Tries)
	case n.Ratio == 0 && n != (Negatives{}):
		return refuse("options of negatives without a ratio: say how many an edge gets")
	case n.Triplets && (n.Ratio != math.Trunc(n.Ratio) || n.Replace > SourceEnd):
		return refuse("triplets need a whole ratio and replace the target or the source, not ratio %v and end %v",
			n.Ratio, n.Replace)
	case (n.Law == ByWeight) != (n.Weight != ""):
		return refuse("law %v with weights %q: weights belong to law %v, which needs them", n.Law, n.Weight, ByWeight)
	case (n.Law == Historical) != (n.History != ""):
		return refuse("law %v with edges' times %q: they belong to law %v, which needs them", n.Law, n.History,
			Historical)
	case n.Law == Historical && (n.Strict || n.Replace == BothEnds):
		return refuse("law %v takes one end of an edge: it replaces the target, the source or either, and is not "+
			"strict", n.Law)
	case n.Fill && n.Law != Historical:
		return refuse("law %v with a fill: it belongs to law %v", n.Law, Historical)
	case n.Type+n.Time != "" && n.Law == Historical && !n.Fill || n.Type != "" && n.Law == InBatch:
		return refuse("law %v with types %q and times %q of nodes: it takes ends of edges as they are", n.Law, n.Type,
			n.Time)
	case !(n.alpha() >= 0x1p-32 && n.alpha() <= 1) || n.Law != ByDegree && n.alpha() != usualAlpha:
		return refuse("law %v with exponent %v: must be above 0 and at most 1, for law %v", n.Law, n.Alpha, ByDegree)
	}
	for _, name := range []string{n.Time, n.Type} {
		if name != "" && !slices.ContainsFunc(s.Nodes, func(t graph.NodeType) bool { return isIn(t.Columns, name) }) {
			return refuse("no node type has a column %q", name)
		}
	}
	if n.History != "" && !isIn(s.EdgeColumns, n.History) {
		return refuse("the edges have no column %q", n.History)
	}
	return nil
}

func isIn(columns []graph.Column, name string) bool {
	return slices.ContainsFunc(columns, func(c graph.Column) bool { return c.Name == name })
}

// Fingerprint names the options in a stable text; "" without negatives.
func (n Negatives) Fingerprint() string {
	if n.Ratio == 0 {
		return ""
	}
	if n.Tries = n.tries(false); n.Tries == 1 {
		n.Tries = 0
	}
	if n.Alpha == usualAlpha {
		n.Alpha = 0
	}
	return option.Fingerprint("negatives", n)
}

// tries returns how often a negative is drawn at most, perhaps with those that fill up: once where nothing is refused.
func (n Negatives) tries(fill bool) int {
	switch {
	case !n.Strict && (n.Time == "" || n.Law != InBatch) && n.Law != Historical:
		return 1
	case n.Fill && fill:
		return 2 * n.tries(false)
	case n.Tries == 0:
		return option.Default(n, "Tries")
	}
	return n.Tries
}

// alpha returns the exponent of degrees.
func (n Negatives) alpha() float64 { return cmp.Or(n.Alpha, usualAlpha) }

// Timed reports whether the edges that negatives are made of need times.
func (n Negatives) Timed() bool { return n.Time+n.History != "" }

// Of returns how many negatives the first count edges of a type have together.
func (n Negatives) Of(count int64) int64 { return int64(float64(count) * n.Ratio) }

// LinkSeeds are the seeds of one edge type in a batch: the requested edges, then their negatives.
type LinkSeeds struct {
	// SeedEdges are all edges. Labels are 0 for negatives. Times and From, if any, are for a negative those of the edge
	// that it was made from.
	SeedEdges
	// Items are the numbers of the requested edges in the list of seeds; they key the draws.
	Items []int64
	// Group says which requested edge each edge is, or was made from.
	Group []int32
	// Missed counts the negatives that every try refused.
	Missed int64
}

// Drawer draws negatives of one graph. It is read-only: any number of goroutines may use it. Close it before the graph.
type Drawer struct {
	opt    Negatives
	finder edgeFinder
	ends   [][2]*negativeNodes // [edge type][source, target]; shared where they are the same
	past   [][2]pastEdges      // the edges, by the end that stays, where the law is historical
	memory scratch
}

// Draw appends the negatives of the edges of a type. l must have only the requested edges.
func (d *Drawer) Draw(r Rand, edgeType int, l *LinkSeeds) error {
	if err := d.check(l); err != nil {
		return err
	}
	n := len(l.Items)
	stage := r.Stage(d.finder.schema.Edges[edgeType].Key, purposeNegative, 0)
	tries := uint64(d.opt.tries(true))
	for i := range n {
		s := stage.Stream(uint64(l.Items[i]))
		count := d.opt.Of(int64(i)+1) - d.opt.Of(int64(i))
		for j := range uint64(count) {
			found := false
			var source, target int64
			for try := uint64(0); try < tries && !found; try++ {
				var err error
				law := d.opt.Law
				if d.opt.Fill && try >= tries/2 {
					law = Uniform
				}
				source, target, found, err = d.one(s, 3*(j*tries+try), law, edgeType, l, i, n)
				if err != nil {
					return err
				}
			}
			l.add(i, source, target, found, d.opt.Triplets)
		}
	}
	return nil
}

// check refuses edges without the times that negatives need.
func (d *Drawer) check(l *LinkSeeds) error {
	if n := len(l.Items); d.opt.Timed() && len(l.Times) != n {
		return fmt.Errorf("%w: negatives by time %q of %d edges that have %d times", ErrOptions,
			cmp.Or(d.opt.Time, d.opt.History), n, len(l.Times))
	}
	return nil
}

// add appends a negative of edge i. One that was not found is left out, with triplets the edge itself takes its place.
func (l *LinkSeeds) add(i int, source, target int64, found, triplets bool) {
	if !found {
		l.Missed++
		if !triplets {
			return
		}
		source, target = l.Sources[i], l.Targets[i]
	}
	l.Add(i, source, target)
}

// Add appends a negative of edge i, own ids, with label 0 and the times of the edge.
func (l *LinkSeeds) Add(i int, source, target int64) {
	l.Sources, l.Targets = append(l.Sources, source), append(l.Targets, target)
	l.Labels, l.Group = append(l.Labels, 0), append(l.Group, int32(i))
	if len(l.Times) > 0 {
		l.Times = append(l.Times, l.Times[i])
	}
	if len(l.From) > 0 {
		l.From = append(l.From, l.From[i])
	}
}

// one makes a negative of edge i of n by a law, with three draws from number first on. found is false where it is
// refused.
func (d *Drawer) one(s Stream, first uint64, law Law, e int, l *LinkSeeds, i, n int) (source, target int64, found bool,
	err error) {
	end := d.opt.Replace
	if end == EitherEnd {
		end = [...]End{SourceEnd, TargetEnd}[s.IntN(first, 2)]
	}
	source, target, found = l.Sources[i], l.Targets[i], true
	if end != TargetEnd {
		source, found = d.drawEnd(s.Draw(first+1), law, e, 0, l.Sources[:n], l, i)
	}
	if end != SourceEnd && found {
		target, found = d.drawEnd(s.Draw(first+2), law, e, 1, l.Targets[:n], l, i)
	}
	if found && d.opt.Law == Historical && end == TargetEnd {
		found = target != l.Targets[i] && !d.past[e][0].has(source, l.Times[i], target)
	} else if found && d.opt.Law == Historical {
		found = source != l.Sources[i] && !d.past[e][1].has(target, l.Times[i], source)
	}
	if !found || !d.opt.Strict {
		return source, target, found, nil
	}
	et := &d.finder.schema.Edges[e]
	if source == target && et.Src == et.Dst || source == l.Sources[i] && target == l.Targets[i] {
		return 0, 0, false, nil
	}
	is, err := d.finder.has(e, source, target)
	return source, target, !is, err
}

// drawEnd returns the node that a draw puts in place of an end of edge i; batch has that end of all edges.
func (d *Drawer) drawEnd(draw uint64, law Law, e, end int, batch []int64, l *LinkSeeds, i int) (id int64, found bool) {
	in := d.ends[e][end]
	time := int64(0)
	if d.opt.Timed() {
		time = l.Times[i]
	}
	switch law {
	case Historical:
		stays := 1 - end
		return d.past[e][stays].draw(draw, [...][]int64{l.Sources, l.Targets}[stays][i], time)
	case InBatch:
		id = batch[bounded(draw, uint64(len(batch)))]
		return id, in.times == nil || in.times(id) <= time
	}
	from, to := in.alike(batch[i])
	return in.at(draw, from, to, time)
}

// errIntegers refuses a column of nodes that are not integers.
func errIntegers(nodeType, column string, t unified.Tensor) error {
	return fmt.Errorf("%w: negatives: column %q of node type %q is %v; it must have one integer a node", ErrOptions,
		column, nodeType, t)
}
