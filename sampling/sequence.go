package sampling

import (
	"context"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// Sequence gives each seed a row of up to Length tokens, as graph transformers read them: nodes that another sampler
// reaches from it. Rows are in the order of SeedLocal, node type by node type, and a row does not depend on the others:
// each seed is sampled in a tree of its own. Tokens of
//
//   - Neighbor with one hop are its picks: with times the latest first, else in their order;
//   - Neighbor with several hops are the nodes reached, each once, hop by hop;
//   - PPR and PinSage are the neighbours, by falling score. Length stands for their Neighbors.
//
// The node lists have the seeds, then the nodes of the rows, each node once: rows of features come once, and "sequence"
// says where each token's are. The one layer of blocks has no edges. The sample's arrays have a row for each seed:
//
//	sequence            int32 [rows, Length]: local ids, -1 behind the end
//	sequence_id         Schema.IDType: own ids
//	sequence_type       int32: the node type of each; only with several node types
//	sequence_hop        int32: the hop that reached it; only of Neighbor with several hops
//	sequence_edge       Schema.PosType: the position of the edge that reached it, -1 for a seed; only of Neighbor
//	sequence_edge_type  int32: the type of that edge; only with several edge types, of Neighbor
//	sequence_age        int64: the seed's time - that of the step, 0 for a seed and behind the end; only with times
//	sequence_weight     float32: the score, divided by the sum of those taken, 0 behind the end; of PPR and PinSage
//
// Integers are -1 behind the end, but for ages. Cost: that of the other sampler. docs/sampling.md states the result in
// full.
type Sequence struct {
	// Of is the sampler whose nodes are the tokens: a Neighbor without Induced, with new nodes as its frontier, a PPR,
	// or a PinSage of one hop. Its trees are kept apart, whatever it says.
	Of Sampler
	// Length is the most tokens of a seed: 1 to 65536.
	Length int `name:"sequence" for:"neighbor,temporal,ppr,pinsage" default:"0" range:"0,65536" help:"..."`
	// SeedFirst makes the seed the first token, of hop 0, and leaves it out of the neighbours of PPR and PinSage.
	SeedFirst bool `for:"neighbor,temporal,ppr,pinsage" help:"Begin each sequence with its seed."`
}

// maxSequence is the most tokens of a seed.
const maxSequence = 1 << 16

// sequenceRules are options of Sequence that were checked against a schema.
type sequenceRules struct {
	length int
	first  bool
	of     Sampler   // with what sequences ask of it
	near   *Neighbor // the same, if it is that
	hops   int       // of near, else 0
	as     int       // edge type of PPR and PinSage
	types  bool      // there are several node types
	edges  bool      // there are several edge types
}

// rules checks the options, and describes the sampler whose nodes are the tokens.
func (k Sequence) rules(s *graph.Schema, batchSize int) (r sequenceRules, d Description, err error) {
	r = sequenceRules{length: k.Length, first: k.SeedFirst, as: -1, types: len(s.Nodes) > 1, edges: len(s.Edges) > 1}
	if k.Length < 1 || k.Length > maxSequence {
		return r, d, fmt.Errorf("%w: sequences of %d tokens: they must be 1 to %d", ErrOptions, k.Length, maxSequence)
	}
	switch of := k.Of.(type) {
	case Neighbor:
		if of.Induced || of.Frontier != NewNodes {
			return r, d, fmt.Errorf("%w: sequences of induced edges, or with the frontier %v: their nodes are those "+
				"that picks reach first: leave Induced out, and take the frontier %v", ErrOptions, AllNodes, NewNodes)
		}
		of.Disjoint, of.Time = true, of.Time.of(s)
		r.of, r.near = of, &of
		rules, err := of.check(s)
		if r.hops = len(rules.hops); err != nil {
			return r, d, err
		}
	case PPR:
		of.Neighbors = k.Length
		rules, err := of.rules(s)
		if r.of, r.as = of, rules.as; err != nil {
			return r, d, err
		}
	case PinSage:
		of.Neighbors = k.Length
		rules, err := of.rules(s)
		if r.of, r.as = of, rules.as; err != nil {
			return r, d, err
		}
		if rules.hops != 1 {
			return r, d, fmt.Errorf("%w: sequences of %d hops of pinsage: there must be one", ErrOptions, rules.hops)
		}
	default:
		return r, d, fmt.Errorf("%w: sequences of %T: tokens are nodes of Neighbor, PPR or PinSage", ErrOptions, k.Of)
	}
	d, err = r.of.Describe(s, batchSize)
	return r, d, err
}

// Describe implements Sampler. Requests can exclude edges, and look at times, where those of the other sampler can.
func (k Sequence) Describe(s *graph.Schema, batchSize int) (Description, error) {
	r, d, err := k.rules(s, batchSize)
	if err == nil {
		d.Bound = r.bound(s, batchSize, &d.Bound)
	}
	d.Frontier = nil
	return d, err
}

// Fingerprint implements Sampler.
func (k Sequence) Fingerprint() string {
	return option.Fingerprint("sequence", k) + " of " + k.Of.Fingerprint()
}

// bound is the Bound of sequences of a sampler with another one.
func (r *sequenceRules) bound(s *graph.Schema, batchSize int, of *Bound) Bound {
	rows := int64(max(batchSize, 0))
	tokens := sat.Mul(rows, int64(r.length))
	b := boundNodes(s, sat.Add(rows, tokens))
	for _, c := range r.columns(s) {
		b.Arrays = append(b.Arrays, ArrayBound{c, rows})
	}
	inner := sat.Add(sat.Mul(of.Nodes, s.IDType().Size()+4+4+1), sat.Mul(of.Edges, 4+s.PosType().Size()))
	for i := range of.Arrays {
		inner = sat.Add(inner, sat.Mul(of.Arrays[i].Rows, of.Arrays[i].DType.Size()))
	}
	own := sat.Add(sat.Mul(3*8, rows), sat.Mul(int64(r.length), s.IDType().Size()+3*8)) // requests, tokens of a row
	if r.near != nil && r.hops == 1 {
		own = sat.Add(own, sat.Mul(of.Edges, s.IDType().Size()+16))
	}
	b.Scratch, b.Shared = sat.Add(sat.Add(b.Scratch, of.Scratch), sat.Add(inner, own)), of.Shared
	return b
}

// timed reports whether seeds have times.
func (r *sequenceRules) timed() bool { return r.near != nil && r.near.Time.on() }

// columns are the arrays of a sample, in their order.
func (r *sequenceRules) columns(s *graph.Schema) (all []graph.Column) {
	add := func(is bool, name string, dtype unified.DType) {
		if is {
			all = append(all, graph.Column{Name: name, DType: dtype, Shape: []int64{int64(r.length)}})
		}
	}
	near := r.near != nil
	add(true, "sequence", unified.Int32)
	add(true, "sequence_id", s.IDType())
	add(r.types, "sequence_type", unified.Int32)
	add(near && r.hops > 1, "sequence_hop", unified.Int32)
	add(near, "sequence_edge", s.PosType())
	add(near && r.edges, "sequence_edge_type", unified.Int32)
	add(r.timed(), "sequence_age", unified.Int64)
	add(!near, "sequence_weight", unified.Float32)
	return all
}

// Prepare prepares the sampler whose nodes are the tokens, where that needs it.
func (k Sequence) Prepare(ctx context.Context, env Env) (Sampler, error) {
	r, _, err := k.rules(env.Graph.Schema(), env.BatchSize)
	if err != nil {
		return nil, err
	}
	of, err := Prepare(ctx, r.of, env)
	if err != nil {
		return nil, err
	}
	if of, ok := of.(interface {
		DeviceSampler
		io.Closer
	}); ok {
		return preparedSequence{k, of, of}, nil
	}
	return k, nil
}

// Open implements Sampler.
func (k Sequence) Open(env Env) (Worker, error) {
	if n, ok := k.Of.(Neighbor); ok && n.Direction != In {
		return openPrepared(k, env)
	}
	return k.open(env, nil)
}

// preparedSequence is a Sequence of a prepared sampler.
type preparedSequence struct {
	Sequence
	of DeviceSampler
	io.Closer
}

func (k preparedSequence) Open(env Env) (Worker, error) { return k.Sequence.open(env, k.of) }

// opened checks the options against a graph, and that nobody asks for positions of the edges of blocks.
func (k Sequence) opened(env Env) (r sequenceRules, d Description, err error) {
	if env.EdgePos {
		return r, d, fmt.Errorf("%w: blocks of sequences have no edges, so no positions and no columns of them: the "+
			"positions of the tokens' edges are in the array sequence_edge", ErrOptions)
	}
	return k.rules(env.Graph.Schema(), env.BatchSize)
}

// open opens a worker of the tokens of a prepared sampler, or of the options' own.
func (k Sequence) open(env Env, prepared Sampler) (Worker, error) {
	r, d, err := k.opened(env)
	if err != nil {
		return nil, err
	}
	if prepared != nil {
		r.of = prepared
	}
	bound := r.bound(env.Graph.Schema(), env.BatchSize, &d.Bound)
	check := func(*graph.Schema) (sequenceOf, error) { return sequenceOf{r, d.Bound, bound}, nil }
	return open(check, env, newSequences, newSequences)
}

// sequenceOf is rules with the bound of the sampler whose nodes are the tokens, and that of the sequences.
type sequenceOf struct {
	sequenceRules
	inner, outer Bound
}

func (k sequenceOf) bound(*graph.Schema, int) Bound { return k.outer }
