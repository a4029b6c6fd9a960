package sampling

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// TimeRule says which edges of a node may be followed, if it is sampled as of time t.
type TimeRule uint8

const (
	// NotAfter follows edges of that time and before: time <= t.
	NotAfter TimeRule = iota
	// Before follows edges before it: time < t.
	Before
	// AnyTime follows all edges.
	AnyTime
)

// timeRules are the names of the rules on the command line.
var timeRules = []string{"not-after", "before", "any"}

// String returns the rule's name on the command line.
func (r TimeRule) String() string { return enum.Name(timeRules, r) }

// Temporal lets Neighbor follow only edges of the past, as of the time of each seed: Request.Times and
// SeedEdges.Times; a node without one has the time of the column Node, or AsOf. A node is then in a list once for every
// time as of which it is sampled (and for every tree, with Disjoint), and draws independently for each. The sample has
// an array "time/T" for each node type T: int64, that time for each node of the list.
//
// Edges need not be sorted, and may have equal times. If the dataset keeps the edges of a type in order of time
// (graph.ByTime) and Edge is "time", bisection finds the edges that may be followed, and uniform and most recent picks
// cost O(fan-out + log degree); else they cost O(degree).
type Temporal struct {
	// Edge names the column of the edges' times, int32 or int64. If it is "time", Node is given and the edges have no
	// such column, edges have no times.
	Edge string `name:"time" id:"time" for:"temporal" default:"time" zero:"-" empty:"none" help:"..."`
	// Node names a column of the nodes' times, int32 or int64: the same rule applies to the time of a source. Nodes of
	// types without the column always exist.
	Node string `name:"node-time" id:"/" for:"temporal" empty:"none" value:"COLUMN" help:"..."`
	// Rules are the rule of each hop, Rules[0] for the hop out of the seeds; the last one applies to all further hops.
	// Without rules the rule is NotAfter.
	Rules []TimeRule `name:"time-rules" id:"rules" by:"RulesPerType" for:"temporal" default:"not-after" help:"..."`
	// RulesPerType overrides Rules for single edge types, named as those of Neighbor.PerType.
	RulesPerType map[string][]TimeRule
	// Window has the greatest age of an edge (or source) at each hop: w above 0 follows only time >= t - w, 0 any time.
	// The last one applies to all further hops.
	Window []int64 `id:"window" by:"WindowPerType" for:"temporal" default:"0" empty:"0" range:"0," help:"..."`
	// WindowPerType overrides Window for single edge types.
	WindowPerType map[string][]int64
	// Recent takes the most recent edges that may be followed, without a random choice: those with the greatest times,
	// among equal times those with the greatest positions. Not with Replace or Weight.
	Recent bool `id:"recent" for:"temporal" help:"Pick the most recent edges."`
	// HalfLife, above 0, weighs edges by recency: the weight (1 without Neighbor.Weight) halves with each HalfLife of
	// age. Not with Replace.
	HalfLife float64 `id:"half-life" for:"temporal" default:"0" range:"0," help:"..."`
	// Chain lets each edge bound the times beyond it: its source is sampled as of the edge's time (without Edge as of
	// the source's time), so that paths only go back in time. Without Chain all nodes of a tree are sampled as of the
	// seed's time.
	Chain bool `id:"chain" for:"temporal" help:"Let each edge limit the times beyond it: paths go back in time."`
	// AsOf is the time of seeds that have no time; nil for none.
	AsOf *int64 `for:"temporal" empty:"none" kind:"time" value:"TIME" help:"..."`
}

// of returns what it is for the graphs of a schema: without times of the edges where they have none.
func (t Temporal) of(s *graph.Schema) Temporal {
	if t.Node != "" && t.Edge == graph.Time.String() && !slices.ContainsFunc(s.EdgeColumns, func(c graph.Column) bool {
		return c.Name == t.Edge
	}) {
		t.Edge = ""
	}
	return t
}

// on reports whether times matter.
func (t *Temporal) on() bool { return t.Edge != "" || t.Node != "" }

// pastRule says which times may be followed at a hop over edges of a type.
type pastRule struct {
	TimeRule
	window int64 // the greatest age, 0 for any
}

// pastRules are rules and windows by edge type, of each hop: the last ones hold for all hops beyond.
type pastRules struct {
	rules   [][]TimeRule
	windows [][]int64
}

// past returns the rules for the edge types of a schema.
func (t *Temporal) past(s *graph.Schema) (p pastRules, err error) {
	if p.rules, err = listsFor("rule of time", len(s.Edges), t.Rules, t.RulesPerType, s.EdgeTypes()); err != nil {
		return p, err
	}
	p.windows, err = listsFor("window", len(s.Edges), t.Window, t.WindowPerType, s.EdgeTypes())
	return p, err
}

// at returns the rule of a hop over edges of a type.
func (p *pastRules) at(hop, edgeType int) (r pastRule) {
	if list := p.rules[edgeType]; len(list) > 0 {
		r.TimeRule = list[min(hop, len(list)-1)]
	}
	if list := p.windows[edgeType]; len(list) > 0 && r.TimeRule != AnyTime {
		r.window = list[min(hop, len(list)-1)]
	}
	return r
}

// ordered reports whether edges of a type lie in the order of the times that the sampler reads.
func (t *Temporal) ordered(et *graph.EdgeType) bool {
	return graph.RoleOf(t.Edge) == graph.Time && et.Order == graph.ByTime
}

// between returns the least and the greatest time that may be followed as of t; no time may if the first is greater.
func (r pastRule) between(asOf int64) (lo, hi int64) {
	if r.TimeRule == AnyTime {
		return math.MinInt64, math.MaxInt64
	}
	lo, hi = math.MinInt64, asOf
	if r.window > 0 && asOf >= math.MinInt64+r.window {
		lo = asOf - r.window
	}
	if r.TimeRule == Before {
		if hi == math.MinInt64 {
			return 0, -1
		}
		hi--
	}
	return lo, hi
}

// mostGroups returns how many trees and times a batch can have, given its seeds and the nodes in its lists.
func (n Neighbor) mostGroups(seeds, nodes int64) int64 {
	if n.Time.Chain {
		return max(nodes, 1)
	}
	return max(seeds, 1)
}

func (n Neighbor) checkTimes(s *graph.Schema) error {
	t := &n.Time
	if !t.on() {
		if len(t.Rules)+len(t.RulesPerType)+len(t.Window)+len(t.WindowPerType) > 0 || t.Recent || t.HalfLife != 0 ||
			t.Chain || t.AsOf != nil {
			return fmt.Errorf("%w: options of time without a column of times: name one of the edges or nodes",
				ErrOptions)
		}
		return nil
	}
	if err := t.checkPast(s); err != nil {
		return err
	}
	if !(t.HalfLife >= 0 && t.HalfLife <= math.MaxFloat64) {
		return fmt.Errorf("%w: half-life %v of time must not be negative, nor infinite", ErrOptions, t.HalfLife)
	}
	if t.Recent && (n.Replace || n.Weight != "" || t.HalfLife > 0) || t.HalfLife > 0 && n.Replace {
		return fmt.Errorf("%w: the most recent edges are not chosen by weight, and neither they nor edges by recency "+
			"with replacement", ErrOptions)
	}
	return t.checkColumns(s)
}

func (t *Temporal) checkPast(s *graph.Schema) error {
	p, err := t.past(s)
	if err != nil {
		return err
	}
	for e := range s.Edges {
		for _, r := range p.rules[e] {
			if r > AnyTime {
				return fmt.Errorf("%w: %v of time", ErrOptions, r)
			}
		}
		for _, w := range p.windows[e] {
			if w < 0 {
				return fmt.Errorf("%w: window %d of time must not be negative", ErrOptions, w)
			}
		}
	}
	return nil
}

func (t *Temporal) checkColumns(s *graph.Schema) error {
	check := func(what string, columns []graph.Column, name string) (found bool, err error) {
		for _, c := range columns {
			if c.Name != name {
				continue
			}
			if len(c.Shape) > 0 || c.DType != unified.Int32 && c.DType != unified.Int64 {
				return false, fmt.Errorf("%w: times %q of %s are %v%v; they must be one int32 or int64 each",
					ErrOptions, name, what, c.DType, c.Shape)
			}
			return true, nil
		}
		return false, nil
	}
	if _, err := check("edges", s.EdgeColumns, t.Edge); err != nil { // whether it is there the loader asks
		return err
	}
	if t.Node == "" {
		return nil
	}
	some := false
	for i := range s.Nodes {
		found, err := check(s.Nodes[i].Name, s.Nodes[i].Columns, t.Node)
		if err != nil {
			return err
		}
		some = some || found
	}
	if !some {
		return fmt.Errorf("%w: no node type has a column %q of times", ErrOptions, t.Node)
	}
	return nil
}

func (t *Temporal) fingerprint() string {
	if !t.on() {
		return ""
	}
	return option.Fingerprint("", *t)
}

// timeColumn is a column of times: of int64 or int32, or none.
type timeColumn struct {
	t64 []int64
	t32 []int32
}

func newTimeColumn(t unified.Tensor) (c timeColumn, err error) {
	if t.DType() == unified.Int64 {
		c.t64, err = unified.View[int64](t)
	} else {
		c.t32, err = unified.View[int32](t)
	}
	return c, err
}

func (c *timeColumn) valid() bool { return c.t64 != nil || c.t32 != nil }

func (c *timeColumn) at(i int64) int64 {
	if c.t64 != nil {
		return c.t64[i]
	}
	return int64(c.t32[i])
}

// between returns which of n things, whose times ascend, have a time of lo .. hi: the first, and how many.
func between(n, lo, hi int64, time func(i int) int64) (from, many int64) {
	a := 0
	if lo > math.MinInt64 {
		a = sort.Search(int(n), func(i int) bool { return time(i) >= lo })
	}
	b := a + sort.Search(int(n)-a, func(i int) bool { return time(a+i) > hi })
	return int64(a), int64(b - a)
}

// timesBy leaves the edges of a chunk whose time is lo .. hi.
func (c *edgeChunk) timesBy(times *timeColumn, lo, hi int64) {
	if times.t64 != nil {
		keepBetween(c.words[:], times.t64[c.from:c.from+c.n], lo, hi)
	} else {
		keepBetween(c.words[:], times.t32[c.from:c.from+c.n], lo, hi)
	}
}

func keepBetween[T int32 | int64](words []uint64, times []T, lo, hi int64) {
	span := uint64(hi - lo)
	for w := 0; len(times) > 0; w++ {
		some := times[:min(64, len(times))]
		times = times[len(some):]
		keep := uint64(0)
		for i, t := range some {
			bit := uint64(0)
			if uint64(int64(t)-lo) <= span {
				bit = 1
			}
			keep |= bit << (i & 63)
		}
		words[w] &= keep
	}
}

// itemTimes writes the time of each item of a request to times, in the order of their numbers. Nodes without one have
// that of their type's column of times; items without either have asOf.
func (r *Request) itemTimes(s *graph.Schema, nodes []timeColumn, asOf *int64, times []int64) error {
	for t, ids := range r.Seeds {
		switch {
		case len(ids) == 0:
		case r.Times != nil && r.Times[t] != nil:
			copy(times, r.Times[t])
		case nodes != nil && nodes[t].valid():
			for i, id := range ids {
				if uint64(id) >= uint64(s.Nodes[t].Count) {
					return s.SeedError(t, i, id)
				}
				times[i] = nodes[t].at(id)
			}
		case asOf != nil:
			for i := range ids {
				times[i] = *asOf
			}
		default:
			return noTimes(fmt.Sprintf("type %q", s.Nodes[t].Name))
		}
		times = times[len(ids):]
	}
	for e := range r.Edges {
		n := len(r.Edges[e].Sources)
		if asOf != nil && r.Edges[e].Times == nil {
			for i := range n {
				times[i] = *asOf
			}
		} else if n > 0 && r.Edges[e].Times == nil {
			return noTimes(fmt.Sprintf("edge type %v", &s.Edges[e]))
		}
		copy(times, r.Edges[e].Times)
		times = times[n:]
	}
	return nil
}

// bounded reports whether items of a request have first times, and fails if they do and trees are not apart.
func (r *Request) bounded(apart bool) (some bool, err error) {
	some = r.From != nil || slices.ContainsFunc(r.Edges, func(e SeedEdges) bool { return e.From != nil })
	if some && !apart {
		err = option.Textf("%w: seeds have first times, which hold in trees of their own: set %s, or leave them out",
			ErrOptions, option.Named("Disjoint"))
	}
	return some, err
}

// itemFrom writes the first time of each item of a request, of one without the least of all.
func (r *Request) itemFrom(from []int64) {
	for i := range from {
		from[i] = math.MinInt64
	}
	for t, ids := range r.Seeds {
		if r.From != nil {
			copy(from, r.From[t])
		}
		from = from[len(ids):]
	}
	for e := range r.Edges {
		copy(from, r.Edges[e].From)
		from = from[len(r.Edges[e].Sources):]
	}
}

func noTimes(seeds string) error {
	return option.Textf("%w: the sampler looks at time, but the seeds of %s have no times: give each one, or %s to all",
		ErrOptions, seeds, option.Named("AsOf"))
}

// numItems returns the items of a request.
func (r *Request) numItems() (n int64) {
	for _, ids := range r.Seeds {
		n += int64(len(ids))
	}
	for e := range r.Edges {
		n += int64(len(r.Edges[e].Sources))
	}
	return n
}
