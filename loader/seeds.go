package loader

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
)

// SeedSource says which seeds an epoch goes over. The zero value is the split "train", or all nodes if there is no such
// split. Make others with Split, SplitIndex, AllNodes, NodeIDs, AllEdges, EdgePairs or GivenSeeds. OnRequest is for
// loaders that have no epochs.
type SeedSource struct {
	kind  seedKind
	split string
	index int
	types []string
	given graph.Seeds
	each  func(epoch uint32) (graph.Seeds, error)
}

type seedKind uint8

const (
	trainOrAll seedKind = iota
	ofSplit
	allNodes
	allEdges
	given
	ownItems // of the sampler
	onRequest
)

// Split is the seeds of a split of index 0, such as "train".
func Split(name string) SeedSource { return SplitIndex(name, 0) }

// SplitIndex is the seeds of one of several splits of the same name.
func SplitIndex(name string, index int) SeedSource {
	return SeedSource{kind: ofSplit, split: name, index: index}
}

// AllNodes is all nodes of the named node types, in this order; without names those of all types.
func AllNodes(types ...string) SeedSource { return SeedSource{kind: allNodes, types: types} }

// NodeIDs is the given nodes of the first node type: own ids, in this order, repeats allowed. The slice is kept and
// must not change.
func NodeIDs[T int32 | int64](ids []T) SeedSource { return GivenSeeds(graph.NodeIDs(ids)) }

// AllEdges is all edges of the named edge types, in this order; without names those of all types, in the order of their
// positions. A type is named as in Schema.EdgeType.
func AllEdges(types ...string) SeedSource { return SeedSource{kind: allEdges, types: types} }

// EdgePairs is the given edges of the first edge type, which need not be in the graph: own ids of both ends, in this
// order, repeats allowed. The slices are kept and must not change. GivenSeeds is for several types, labels and times.
func EdgePairs[T int32 | int64](sources, targets []T) SeedSource {
	return GivenSeeds(graph.EdgePairs(sources, targets))
}

// GivenSeeds is the given seeds, of any types. They are kept and must not change.
func GivenSeeds(s graph.Seeds) SeedSource { return SeedSource{kind: given, given: s} }

// EachEpoch is given nodes, different for each epoch: those that of returns when the epoch, or a part of it, begins.
// They are as many of each type as first, with times if first has them. They are kept and must not change. A State
// depends only on first.
func EachEpoch(first graph.Seeds, of func(epoch uint32) (graph.Seeds, error)) SeedSource {
	return SeedSource{kind: given, given: first, each: of}
}

// String describes the seeds in a few words, such as "split train".
func (s SeedSource) String() string {
	switch s.kind {
	case ofSplit:
		if s.index != 0 {
			return fmt.Sprintf("split %s %d", s.split, s.index)
		}
		return "split " + s.split
	case allNodes:
		if len(s.types) > 0 {
			return fmt.Sprintf("all nodes of %v", s.types)
		}
		return "all nodes"
	case allEdges:
		if len(s.types) > 0 {
			return fmt.Sprintf("all edges of %v", s.types)
		}
		return "all edges"
	case given:
		if len(s.given.Edges) > 0 {
			return fmt.Sprintf("%d given edges", s.given.Len())
		}
		return fmt.Sprintf("%d given nodes", s.given.Len())
	case ownItems:
		return "items of the sampler"
	case onRequest:
		return "seeds of requests"
	default:
		return "split train, or else all nodes"
	}
}

// resolve returns the seeds, and what they turned out to be.
func (s SeedSource) resolve(src Source, schema *graph.Schema) (graph.Seeds, SeedSource, error) {
	switch s.kind {
	case trainOrAll:
		seeds, err := src.Split("train", 0)
		if errors.Is(err, graph.ErrNoSplit) {
			return AllNodes().resolve(src, schema)
		}
		return seeds, Split("train"), err
	case ofSplit:
		seeds, err := src.Split(s.split, s.index)
		return seeds, s, err
	case allNodes, onRequest:
		seeds, err := s.ofTypes(schema)
		return seeds, s, err
	case allEdges:
		seeds, err := s.ofEdgeTypes(schema)
		return seeds, s, err
	default:
		return s.given, s, nil
	}
}

func (s SeedSource) ofTypes(schema *graph.Schema) (seeds graph.Seeds, err error) {
	if len(s.types) == 0 {
		for t := range schema.Nodes {
			seeds.Sets = append(seeds.Sets, graph.AllNodes(schema, t).Sets...)
		}
		return seeds, nil
	}
	for _, name := range s.types {
		t := schema.NodeType(name)
		if t < 0 {
			return seeds, fmt.Errorf("%w: seeds: no node type %q", ErrOptions, name)
		}
		seeds.Sets = append(seeds.Sets, graph.AllNodes(schema, t).Sets...)
	}
	return seeds, nil
}

func (s SeedSource) ofEdgeTypes(schema *graph.Schema) (seeds graph.Seeds, err error) {
	if len(s.types) == 0 {
		return graph.AllEdges(schema, -1), nil
	}
	find := schema.EdgeTypes()
	for _, name := range s.types {
		e, err := find(name)
		if err != nil {
			return seeds, fmt.Errorf("%w: seeds: %w", ErrOptions, err)
		}
		seeds.Edges = append(seeds.Edges, graph.AllEdges(schema, e).Edges...)
	}
	return seeds, nil
}

// takeEpoch takes the seeds of an epoch, where each has its own.
func (l *Loader) takeEpoch(epoch uint32) error {
	of := l.seeds.each
	if of == nil {
		return nil
	}
	r := l.plan.Recipe
	seeds, err := of(epoch)
	if err == nil {
		err = seeds.Check(r.Graph.Schema())
	}
	if err != nil {
		return fmt.Errorf("seeds of epoch %d: %w", epoch, err)
	}
	list, err := seedlist.New(seeds, r.Graph, "", "")
	if err != nil {
		return err
	}
	if !r.Seeds.TakeNodes(&list) {
		return fmt.Errorf("%w: seeds of epoch %d: %d of each node type, with times: %t; the loader was made for %d, %t",
			ErrOptions, epoch, list.ByType, list.Timed, r.Seeds.ByType, r.Seeds.Timed)
	}
	return nil
}
