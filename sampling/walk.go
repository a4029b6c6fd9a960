package sampling

import (
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/unified"
)

// Walk takes random walks from the seeds. A step goes from a node to the source of one of its in-edges, each with equal
// probability (up to 2^-64): a walk follows edges backwards. For walks along the edges, convert the dataset with its
// edges the other way round, or with both directions.
//
// The walks are the sample's array "walk": int32 [walks, Length+1], local ids, the root first, -1 behind the end of a
// walk. Row i*PerSeed + w is walk w from the distinct seed i, in the order of the node lists. The node lists have the
// seeds, then the nodes of the walks in the order of the rows. The one layer of blocks has no edges. In a graph of
// several node types the array "walk_type" (int32, as "walk") has the node type of each entry.
//
// Cost: O(1) a step; many walks go side by side, so that their misses overlap. Sources: Perozzi et
// al., "DeepWalk", KDD 2014; with Metapath Dong et al., "metapath2vec", KDD 2017; with Restart Tong et al., "Fast
// random walk with restart and its applications", ICDM 2006. docs/sampling.md states the result in full.
type Walk struct {
	// Length is the steps of a walk: 1 to 65535.
	Length int `id:"length" default:"40" zero:"40" help:"..."`
	// PerSeed is how many walks each distinct seed has, at most 256; 0 is 1.
	PerSeed int `name:"walks" id:"per-seed" default:"1" range:"0,256" help:"..."`
	// Restart is the probability with which a walk, before each step, goes back to its root in place of the step. A
	// walk at a node without in-edges then goes back too.
	Restart float64 `id:"restart" default:"0" range:"0,1" help:"..."`
	// Stop is the probability with which a walk ends before each step; DGL calls it restart_prob.
	Stop float64 `id:"stop" default:"0" range:"0,1" help:"Probability, before each step, that the walk ends."`
	// Metapath are the edge types to follow, one a step, repeated: by relation or source:relation:target. As the
	// walk goes backwards, the target of each is the source of the one before. A walk that goes back to its root starts
	// the path again. nil follows all edges, whatever their type, with equal probability.
	Metapath []string `id:"metapath" value:"TYPES" help:"..."`
	// Edges adds the array "walk_edge" [walks, Length], Schema.PosType: the position of each step's edge, -1 where
	// there was none.
	Edges bool `name:"walk-edges" id:"edges" help:"Also deliver the position of each step's edge."`
}

// Node2Vec takes walks of second order from the seeds. At node v, which was reached from t, a step takes each in-edge
// with a probability in proportion to 1/P if its source is t, to 1 if its source is also that of an in-edge of t, and
// to 1/Q if not; the first step is uniform. Arrays and direction are those of Walk; with P = Q = 1 so are the walks.
//
// The probabilities are exact (up to 2^-53). Cost: a draw and a binary search among the in-edges of t for each of the
// tries that a step takes, on average at most max(1, 1/Q) / min(1, 1/P, 1/Q) and never more than 64, then one pass over
// the in-edges of v. All edge types must be ordered by source. Sources: Grover and Leskovec,
// "node2vec", KDD 2016; rejection with the return edge apart: Yang et al., "KnightKing", SOSP 2019.
type Node2Vec struct {
	Length  int     `same:"length" id:"length" default:"40" zero:"40"` // as in Walk
	PerSeed int     `same:"walks" id:"per-seed" default:"1"`           // as in Walk
	P       float64 `id:"p" default:"1" help:"Return parameter: the weight of the previous node is 1/p."`
	Q       float64 `id:"q" default:"1" help:"In-out parameter: the weight of more distant nodes is 1/q."`
	Edges   bool    `same:"walk-edges" id:"edges"` // as in Walk
}

const (
	// mostSteps and mostWalks are the most steps of a walk and walks of a seed.
	mostSteps = 1<<16 - 1
	mostWalks = 256
)

// walkRules has the options of Walk and Node2Vec in one form, checked against a schema.
type walkRules struct {
	length, perSeed int
	restart, stop   float64
	path            []int   // edge types; nil: any
	p, q            float64 // 0: first order
	withEdges       bool
}

func (k Walk) rules(s *graph.Schema) (walkRules, error) {
	w := walkRules{length: k.Length, perSeed: max(k.PerSeed, 1), restart: k.Restart, stop: k.Stop, withEdges: k.Edges}
	if !(k.Restart >= 0 && k.Stop >= 0 && k.Restart+k.Stop <= 1) {
		return w, fmt.Errorf("%w: restart %v and stop %v: they are probabilities of at most 1 together", ErrOptions,
			k.Restart, k.Stop)
	}
	if err := w.check(k.PerSeed); err != nil {
		return w, err
	}
	var err error
	w.path, err = metapath(s, k.Metapath, k.Length)
	return w, err
}

func (w *walkRules) check(perSeed int) error {
	if w.length < 1 || w.length > mostSteps || perSeed < 0 || perSeed > mostWalks {
		return fmt.Errorf("%w: %d walks of %d steps a seed: at most %d of 1 to %d are possible", ErrOptions, perSeed,
			w.length, mostWalks, mostSteps)
	}
	return nil
}

// metapath looks up edge types that follow each other backwards, for walks of some steps.
func metapath(s *graph.Schema, names []string, steps int) (path []int, err error) {
	find := s.EdgeTypes()
	for i, name := range names {
		e, err := find(name)
		if err != nil {
			return nil, fmt.Errorf("%w: metapath: %w", ErrOptions, err)
		}
		if i > 0 && s.Edges[path[i-1]].Src != s.Edges[e].Dst {
			return nil, fmt.Errorf("%w: metapath: after %v comes %v: a walk goes from target to source, so it must "+
				"lead to nodes of type %q", ErrOptions, &s.Edges[path[i-1]], &s.Edges[e], s.Edges[path[i-1]].Source)
		}
		path = append(path, e)
	}
	if n := len(path); n > 0 && n < steps && s.Edges[path[n-1]].Src != s.Edges[path[0]].Dst {
		return nil, fmt.Errorf("%w: metapath: %d steps repeat a path of %d, which leads from nodes of type %q to %q",
			ErrOptions, steps, n, s.Edges[path[0]].Target, s.Edges[path[n-1]].Source)
	}
	return path, nil
}

func (k Node2Vec) rules(s *graph.Schema) (walkRules, error) {
	w := walkRules{length: k.Length, perSeed: max(k.PerSeed, 1), p: k.P, q: k.Q, withEdges: k.Edges}
	for _, x := range []*float64{&w.p, &w.q} {
		if *x == 0 {
			*x = 1
		}
		if !(*x >= 1e-9 && *x <= 1e9) {
			return w, fmt.Errorf("%w: node2vec: p = %v, q = %v: both must be 1e-9 to 1e9", ErrOptions, k.P, k.Q)
		}
	}
	for e := range s.Edges {
		if s.Edges[e].Order != graph.BySource {
			return w, fmt.Errorf("%w: node2vec looks edges up by their source, and those of type %v are ordered by %v",
				ErrOptions, &s.Edges[e], s.Edges[e].Order)
		}
	}
	return w, w.check(k.PerSeed)
}

func (k Walk) Fingerprint() string {
	return option.Fingerprint("walk", option.Filled(k))
}

func (k Node2Vec) Fingerprint() string {
	return option.Fingerprint("node2vec", option.Filled(k))
}

func (k Walk) Describe(s *graph.Schema, batchSize int) (Description, error) {
	return describe(k.rules, s, batchSize)
}

func (k Node2Vec) Describe(s *graph.Schema, batchSize int) (Description, error) {
	return describe(k.rules, s, batchSize)
}

func (w walkRules) bound(s *graph.Schema, batchSize int) Bound {
	rows := sat.Mul(int64(batchSize), int64(w.perSeed))
	steps, entry := int64(w.length), graph.Column{DType: unified.Int32, Shape: []int64{int64(w.length) + 1}}
	b := boundNodes(s, sat.Add(int64(batchSize), sat.Mul(rows, steps)))
	add := func(name string, c graph.Column) {
		c.Name = name
		b.Arrays = append(b.Arrays, ArrayBound{c, rows})
	}
	add("walk", entry)
	if len(s.Nodes) > 1 {
		add("walk_type", entry)
	}
	if w.withEdges {
		add("walk_edge", graph.Column{DType: s.PosType(), Shape: []int64{steps}})
	}
	b.Scratch = sat.Add(b.Scratch, w.scratch(s))
	return b
}

// group returns how many walks go side by side.
func (w *walkRules) group() int {
	return max(w.perSeed, max(16, min(walkers, 65536/(w.length+1))))
}

// scratch returns the memory that walkerOver takes.
func (w *walkRules) scratch(s *graph.Schema) int64 {
	id, n := s.IDType().Size(), int64(w.length)
	each := 3*id + 3*4 + 3*8 + (n+1)*id // fields of walkWorker, of one walk
	if w.withEdges {
		each += 8 * n
	}
	keys := int64(w.perSeed) * int64(2+max(1, len(w.path)))
	return sat.Add(sat.Mul(int64(w.group()), each), 8*keys)
}

func (k Walk) Open(env Env) (Worker, error)     { return open(k.rules, env, newWalker, newWalker) }
func (k Node2Vec) Open(env Env) (Worker, error) { return open(k.rules, env, newWalker, newWalker) }
