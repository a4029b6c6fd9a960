package synthetic

import (
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/rng"
)

// Of the edges that stay within a class, where there are classes: citations, and authorships.
const (
	citesOwn  = 0.7
	writesOwn = 0.7
)

// The edge types of a typed graph, in the order of its schema.
const (
	typeCites = iota
	typeWrites
	typeRevWrites
	typeAffiliated
)

// counts are the nodes of each type.
type counts struct{ papers, authors, institutions int64 }

// typedCounts deals nodes to the types: half papers, a hundredth institutions, the others authors.
func typedCounts(nodes int64) counts {
	c := counts{papers: nodes / 2, institutions: nodes / 100}
	if nodes >= 3 {
		c.institutions = max(c.institutions, 1) // and one author or more is left
	}
	c.authors = nodes - c.papers - c.institutions
	return c
}

// typedGraph is what the edges of a typed graph are computed from.
type typedGraph struct {
	n                counts
	papers, authors  *population
	institutions     population
	cited            side      // stubs of cites at the cited papers
	written          *matching // stubs of writes: papers left, authors right
	affiliated       law       // stubs of affiliated_with at the institutions
	citing, employed uint64    // keys of the sources that are drawn
}

// typed plans papers, authors and institutions. Of the edges a fifth are authorships, a fifth the same reversed, a
// tenth affiliations, the others citations.
//
// Citations: power-law in-degrees, sources alike but for their class. Authorships: a bipartite configuration model
// between papers (light tail) and authors (heavy tail). Affiliations: heavy tail over institutions, authors alike.
func typed(o Options, k keys) *plan {
	n := typedCounts(o.Nodes)
	writes, affiliations := o.Edges/5, o.Edges/10
	papers := newPopulation(k.part(partOrder), uint64(n.papers), uint64(o.Classes))
	authors := newPopulation(k.part(partAuthors), uint64(n.authors), uint64(o.Classes))
	p := &plan{splitKey: k.part(partSplit), splits: thirds(n.papers)}
	p.attributes = []*attributes{
		newAttributes(k.part(partAttributes), &papers, o.Features, o.Classes),
		newAttributes(k.part(partAuthorAttributes), &authors, o.Features, o.Classes),
		nil,
	}
	p.attributes[1].labels = false // an author's class shows in features and edges alone
	p.schema = graph.Schema{
		Nodes: []graph.NodeType{
			{Name: "paper", Count: n.papers, Columns: p.attributes[0].columns()},
			{Name: "author", Count: n.authors, Columns: p.attributes[1].columns()},
			{Name: "institution", Count: n.institutions},
		},
		Edges: []graph.EdgeType{
			typeCites: {Source: "paper", Relation: "cites", Target: "paper",
				Count: o.Edges - 2*writes - affiliations},
			typeWrites:     {Source: "author", Relation: "writes", Target: "paper", Count: writes},
			typeRevWrites:  {Source: "paper", Relation: "rev_writes", Target: "author", Count: writes},
			typeAffiliated: {Source: "author", Relation: "affiliated_with", Target: "institution", Count: affiliations},
		},
	}
	if o.Edges == 0 {
		p.edges = noEdges
		return p
	}
	g := &typedGraph{n: n, papers: &papers, authors: &authors, citing: k.part(partSources),
		employed: k.part(partAffiliations)}
	g.institutions = newPopulation(k.part(partInstitutions), uint64(n.institutions), 1)
	g.cited = newSide(k.part(partDegrees), uint64(p.schema.Edges[typeCites].Count), 1, &papers, heavy)
	g.written = newMatching(k.part(partMatching), uint64(writes), writesOwn, &papers, &authors, light, heavy)
	g.affiliated = newLaw(uint64(n.institutions), uint64(affiliations), heavy)
	p.edges = g.fill
	return p
}

func noEdges(c *chunk) {
	for range c.n {
		c.endColumn()
	}
}

func (g *typedGraph) fill(c *chunk) {
	papers, authors := uint64(g.n.papers), uint64(g.n.authors)
	for i := range uint64(c.n) {
		switch id := c.first + i; {
		case id < papers:
			g.paper(c, id)
		case id < papers+authors:
			class, from, to := g.written.right.run(id - papers)
			for stub := from; stub < to; stub++ {
				c.push(g.written.leftOf(class, stub))
			}
			c.endRun(typeRevWrites, true)
		default:
			g.institution(c, id-papers-authors)
		}
		c.endColumn()
	}
}

func (g *typedGraph) paper(c *chunk, id uint64) {
	class, from, to := g.cited.run(id)
	s := rng.Stream(g.citing, id)
	for e := range to - from {
		c.push(g.papers.homophilous(s, e, class, probability(citesOwn)))
	}
	c.endRun(typeCites, true)
	class, from, to = g.written.left.run(id)
	for stub := from; stub < to; stub++ {
		c.push(uint64(g.n.papers) + g.written.rightOf(class, stub))
	}
	c.endRun(typeWrites, true)
}

func (g *typedGraph) institution(c *chunk, id uint64) {
	rank, _ := g.institutions.of(id)
	s := rng.Stream(g.employed, id)
	for e := range g.affiliated.first(rank+1) - g.affiliated.first(rank) {
		c.push(uint64(g.n.papers) + rng.Bounded(rng.Draw(s, e), g.authors.n))
	}
	c.endRun(typeAffiliated, true)
}
