package loader

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// link is a seed that is an edge.
type link struct {
	edgeType       int
	source, target int64 // own ids
	label, time    int64
}

// linkRun is the items begin .. end-1: edges of one type, or of types.
type linkRun struct {
	begin, end       int64
	edgeType         int
	types            []int32
	sources, targets func(i int64) int64 // nil: edges of the graph
	labels, times    linkValues
	where            *edgeIndex
}

// linkValues are a number for each link: a list by place, a column by the position of the edge, or none.
type linkValues struct {
	list   []int64
	column func(pos int64) int64
}

func (v *linkValues) some() bool { return v.list != nil || v.column != nil }

func (v *linkValues) at(place, pos int64) int64 {
	if v.list != nil {
		return v.list[place]
	}
	return v.column(pos)
}

// edgeIndex finds the edges of a graph by number: all, or those of one type.
type edgeIndex struct {
	graph  *graph.Graph
	source func(pos int64) int64 // fused
	typeOf func(pos int64) int   // nil where there is one edge type
	// With only one type of several asked for: how many of it come before each stretch of typeStretch positions, once
	// count was called.
	only   int // else -1
	before []int64
}

const typeStretch = 512

func newEdgeIndex(g *graph.Graph, every bool, edgeType int) (x *edgeIndex, err error) {
	x = &edgeIndex{graph: g, only: -1}
	if x.source, err = unified.Integers(g.Indices()); err != nil {
		return nil, err
	}
	if !g.Types().Valid() {
		return x, nil
	}
	types, err := unified.Integers(g.Types())
	if err != nil {
		return nil, err
	}
	x.typeOf = func(pos int64) int { return int(types(pos)) }
	if every {
		return x, nil
	}
	x.only = edgeType
	return x, nil
}

// bytes returns what count takes.
func (x *edgeIndex) bytes() int64 {
	if x == nil || x.only < 0 {
		return 0
	}
	return 8 * (x.graph.NumEdges()/typeStretch + 1)
}

// count goes over the types of all edges.
func (x *edgeIndex) count(ctx context.Context, progress func(done, total int64)) error {
	g, n := x.graph, int64(0)
	x.before = make([]int64, 0, x.bytes()/8)
	for pos := range g.NumEdges() {
		if pos%typeStretch == 0 {
			x.before = append(x.before, n)
		}
		if pos%(1<<20) == 0 {
			if progress(pos, g.NumEdges()); ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if x.typeOf(pos) == x.only {
			n++
		}
	}
	if want := g.Schema().Edges[x.only].Count; n != want {
		return fmt.Errorf("%w: %d edges of type %v, where the schema has %d", sampling.ErrGraph, n,
			&g.Schema().Edges[x.only], want)
	}
	return nil
}

// indexBytes returns what countLinks takes.
func (l *seedList) indexBytes() (bytes int64) {
	for i := range l.links {
		bytes += l.links[i].where.bytes()
	}
	return bytes
}

// countLinks finds where the edges of the types lie whose edges are seeds, if there are others.
func (l *seedList) countLinks(ctx context.Context, progress func(done, total int64)) error {
	for i := range l.links {
		if x := l.links[i].where; x.bytes() > 0 {
			if err := x.count(ctx, progress); err != nil {
				return err
			}
		}
	}
	return nil
}

// position returns where edge i lies.
func (x *edgeIndex) position(i int64) int64 {
	if x.only < 0 {
		return i
	}
	k := sort.Search(len(x.before), func(k int) bool { return x.before[k] > i }) - 1
	pos, left := int64(k)*typeStretch, i-x.before[k]
	for ; ; pos++ {
		if x.typeOf(pos) == x.only {
			if left == 0 {
				return pos
			}
			left--
		}
	}
}

// at returns the edge at a position. ErrGraph for one that is damaged.
func (x *edgeIndex) at(pos int64) (l link, err error) {
	g := x.graph
	s, indptr := g.Schema(), g.Indptr()
	if x.typeOf != nil {
		l.edgeType = x.typeOf(pos)
	}
	if l.edgeType >= len(s.Edges) {
		return l, fmt.Errorf("%w: edge %d: edge type %d of %d", sampling.ErrGraph, pos, l.edgeType, len(s.Edges))
	}
	et := &s.Edges[l.edgeType]
	v := int64(sort.Search(len(indptr), func(v int) bool { return indptr[v] > pos })) - 1
	l.source, l.target = x.source(pos)-g.Offset(et.Src), v-g.Offset(et.Dst)
	if uint64(l.source) >= uint64(s.Nodes[et.Src].Count) || uint64(l.target) >= uint64(s.Nodes[et.Dst].Count) {
		return l, fmt.Errorf("%w: edge %d: from node %d to %d, which type %v does not join", sampling.ErrGraph, pos,
			x.source(pos), v, et)
	}
	return l, nil
}

// addLinks lays out sets of edges.
func (l *seedList) addLinks(sets []graph.EdgeSet, g *graph.Graph, opt *Options) error {
	s := g.Schema()
	l.byEdge = make([]int64, len(s.Edges))
	for k := range sets {
		set := &sets[k]
		n := set.Len()
		if n == 0 {
			continue
		}
		r := linkRun{edgeType: set.Type, types: set.Types, begin: l.n, end: l.n + n,
			labels: linkValues{list: set.Labels}, times: linkValues{list: set.Times}}
		var err error
		if set.OfGraph() {
			err = r.ofGraph(g, set, opt)
		} else if r.sources, err = unified.Integers(set.Sources); err == nil {
			r.targets, err = unified.Integers(set.Targets)
		}
		if err != nil {
			return err
		}
		switch {
		case set.Every:
			for e := range s.Edges {
				l.byEdge[e] += s.Edges[e].Count
			}
		case set.Types == nil:
			l.byEdge[set.Type] += n
		}
		for _, e := range set.Types {
			l.byEdge[e]++
		}
		l.links, l.n = append(l.links, r), r.end
		l.timed = l.timed && r.times.some()
		l.labelled = l.labelled || r.labels.some()
	}
	if e := slices.Index(l.byEdge, l.n); e >= 0 && l.n > 0 { // all are of one type
		l.key = s.Edges[e].Key
	}
	for e, n := range l.byEdge {
		l.byType[s.Edges[e].Src] += n
		l.byType[s.Edges[e].Dst] += n
	}
	return nil
}

// ofGraph finds the edges of the graph, and the columns with their labels and times.
func (r *linkRun) ofGraph(g *graph.Graph, set *graph.EdgeSet, opt *Options) (err error) {
	if r.where, err = newEdgeIndex(g, set.Every, set.Type); err != nil {
		return err
	}
	for _, c := range []struct {
		option, name string
		to           *linkValues
	}{{"LinkLabel", opt.Links.Label, &r.labels}, {"LinkTime", opt.Links.Time, &r.times}} {
		if c.name == "" || c.to.some() {
			continue
		}
		t, ok := g.EdgeColumn(c.name)
		if !ok {
			return fmt.Errorf("%w: %s: the edges have no column %q; they have: %s", ErrOptions, c.option, c.name,
				listOf(g.Schema().EdgeColumns))
		}
		if c.to.column, err = unified.Integers(t); err != nil {
			return fmt.Errorf("%w: %s: column %q: %w", ErrOptions, c.option, c.name, err)
		}
	}
	return nil
}

// linkAt returns item i, which is an edge.
func (l *seedList) linkAt(i int64) (x link, err error) {
	r := &l.links[sort.Search(len(l.links), func(k int) bool { return l.links[k].end > i })]
	i -= r.begin
	pos := i
	if r.where != nil {
		pos = r.where.position(i)
		if x, err = r.where.at(pos); err != nil {
			return x, err
		}
	} else {
		x = link{edgeType: r.edgeType, source: r.sources(i), target: r.targets(i)}
		if r.types != nil {
			x.edgeType = int(r.types[i])
		}
	}
	if x.label = 1; r.labels.some() {
		x.label = r.labels.at(i, pos)
	}
	if r.times.some() {
		x.time = r.times.at(i, pos)
	}
	return x, nil
}

// hashLinks goes on with the hash of a list of seeds.
func (l *seedList) hashLinks(d *digester, e *Array) {
	for k := range l.links {
		r := &l.links[k]
		ofGraph := int64(0)
		if r.where != nil {
			ofGraph = 1 + int64(r.where.only+1)
		}
		d.wide[0], d.wide[1], d.wide[2] = -1, r.end-r.begin, ofGraph
		d.int64s(e, 3)
		if r.where != nil {
			d.array(e, unified.FromSlice(r.labels.list))
			d.array(e, unified.FromSlice(r.times.list))
		}
		for i := r.begin; r.where == nil && i < r.end; i++ {
			x, _ := l.linkAt(i) // edges that are listed are sound
			d.wide[0], d.wide[1], d.wide[2], d.wide[3], d.wide[4] = int64(x.edgeType), x.source, x.target, x.label,
				x.time
			d.int64s(e, 5)
		}
	}
}

// Exclusion says which edges batches leave out because they are seeds.
type Exclusion uint8

const (
	// ExcludeNone leaves out none.
	ExcludeNone Exclusion = iota
	// ExcludeSeeds leaves out the batch's seeds that are edges, as if the graph did not have them: of their type,
	// between the same ends, all parallel ones.
	ExcludeSeeds
	// ExcludeReverse leaves out their reverses as well: of the same type, if that leads from a node type to itself, and
	// of the type with relation "rev_" and theirs between the ends exchanged, where there is one.
	ExcludeReverse
)

var exclusions = []string{"none", "seeds", "reverse"}

// String returns the name on the command line.
func (x Exclusion) String() string { return enum.Name(exclusions, x) }

// UnmarshalText is the inverse of String.
func (x *Exclusion) UnmarshalText(text []byte) error {
	return enum.Parse(ErrOptions, "exclusion", exclusions, text, x)
}

// reverses returns the edge types that hold the reverses of each, as ExcludeReverse names them.
func reverses(s *graph.Schema) [][]int {
	names := make(map[string]int, len(s.Edges))
	for e := range s.Edges {
		names[s.Edges[e].String()] = e
	}
	list := make([][]int, len(s.Edges))
	for e := range s.Edges {
		et := s.Edges[e]
		if et.Src == et.Dst {
			list[e] = append(list[e], e)
		}
		back := graph.EdgeType{Source: et.Target, Relation: "rev_" + et.Relation, Target: et.Source}
		if r, ok := names[back.String()]; ok {
			list[e] = append(list[e], r)
		}
	}
	return list
}

// checkLinks refuses options that make no sense for these seeds.
func (r *recipe) checkLinks() error {
	o, l := &r.opt, &r.seeds
	if err := o.Links.Negatives.Validate(r.graph.Schema()); err != nil {
		return err
	}
	ofLinks := o.Links.Negatives.Any() || o.Links.ExcludeSeeds != ExcludeNone || o.Links.Label != "" ||
		o.Links.Time != ""
	if ofLinks && l.byEdge == nil {
		return fmt.Errorf("%w: Negatives, ExcludeSeeds, LinkLabel and LinkTime are for seeds that are edges: %v are "+
			"not", ErrOptions, o.Seeds)
	}
	if o.Links.Label+o.Links.Time != "" && len(l.links) > 0 &&
		!slices.ContainsFunc(l.links, func(x linkRun) bool { return x.where != nil }) {
		return fmt.Errorf("%w: LinkLabel and LinkTime are columns of the graph's edges, for AllEdges: %v have labels "+
			"and times of their own, or none", ErrOptions, o.Seeds)
	}
	if o.Links.Negatives.Time != "" && !l.timed {
		return fmt.Errorf("%w: Negatives.Time is %q, but %v have no times", ErrOptions, o.Links.Negatives.Time, o.Seeds)
	}
	if r.mostLinks() > 1<<29 {
		return fmt.Errorf("%w: BatchSize %d with %v negatives an edge: a batch has more than 2^29 edges", ErrOptions,
			o.BatchSize, o.Links.Negatives.Ratio)
	}
	if x, ok := sampling.As[sampling.Excluder](o.Sampler); o.Links.ExcludeSeeds != ExcludeNone && (!ok ||
		!x.CanExclude()) {
		return fmt.Errorf("%w: ExcludeSeeds is %v, but the sampler cannot leave edges out: %s", ErrOptions,
			o.Links.ExcludeSeeds, o.Sampler.Fingerprint())
	}
	if o.Links.ExcludeSeeds == ExcludeReverse {
		r.reverses = reverses(r.graph.Schema())
	}
	return nil
}

// mostLinks returns the most edges that are seeds or negatives in a batch; 0 where seeds are nodes.
func (r *recipe) mostLinks() int64 {
	if r.seeds.byEdge == nil {
		return 0
	}
	return sat.Add(r.askedLinks(), r.opt.Links.Negatives.Of(r.askedLinks()))
}

// seededTypes marks the edge types that have seeds.
func (r *recipe) seededTypes() []bool {
	types := make([]bool, len(r.seeds.byEdge))
	for e, n := range r.seeds.byEdge {
		types[e] = n > 0
	}
	return types
}

// takeLinks looks up the batch's seeds that are edges, and draws their negatives.
func (s *slot) takeLinks(m sampler, j job, lo, hi int64) error {
	r := s.recipe
	clear(s.linkCounts)
	found, items := s.linkMemory.found[:hi-lo], s.linkMemory.items[:hi-lo]
	for i := range found {
		if items[i] = lo + int64(i); j.order != nil {
			items[i] = int64(j.order.At(uint64(items[i])))
		}
		var err error
		if found[i], err = r.seeds.linkAt(items[i]); err != nil {
			return err
		}
		s.linkCounts[found[i].edgeType][0]++
	}
	s.linkMemory.carve(r, s.links, s.linkCounts, s.request.Exclude)
	for i, x := range found {
		l := &s.links[x.edgeType]
		l.Sources, l.Targets = append(l.Sources, x.source), append(l.Targets, x.target)
		l.Labels, l.Group = append(l.Labels, x.label), append(l.Group, int32(len(l.Items)))
		if l.Items = append(l.Items, items[i]); r.seeds.timed {
			l.Times = append(l.Times, x.time)
		}
	}
	s.exclude()
	if err := m.negatives(s.request.Rand, s.links); err != nil {
		return err
	}
	for e := range s.links {
		l := &s.links[e]
		if s.request.Edges[e] = l.SeedEdges; !r.seeds.timed {
			s.request.Edges[e].Times = nil
		}
		s.linkCounts[e] = [3]int64{int64(len(l.Items)), int64(len(l.Sources) - len(l.Items)), l.Missed}
	}
	return nil
}

// exclude notes which edges the batch leaves out.
func (s *slot) exclude() {
	r := s.recipe
	if r.opt.Links.ExcludeSeeds == ExcludeNone {
		return
	}
	for e := range s.request.Exclude {
		x := &s.request.Exclude[e]
		l := &s.links[e]
		x.Sources, x.Targets = append(x.Sources, l.Sources...), append(x.Targets, l.Targets...)
	}
	for e, back := range r.reverses {
		for _, b := range back {
			x := &s.request.Exclude[b]
			x.Sources, x.Targets = append(x.Sources, s.links[e].Targets...), append(x.Targets, s.links[e].Sources...)
		}
	}
}
