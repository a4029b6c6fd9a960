package main

import (
	"fmt"
	"os"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/sampling"
)

// subgraphFlags are the flags of samplers of subgraphs, of scored neighbours, and of the whole graph.
type subgraphFlags struct {
	Budget    int           `default:"6000" help:"Draws of a subgraph: of nodes, edges or roots."`
	Steps     int           `default:"0" help:"Batches of an epoch; 0: as many as draw as many nodes as there are."`
	Coverage  int           `default:"50" help:"Estimate norms from so many nodes for each of the graph; 0: no norms."`
	Partition partitionFile `placeholder:"FILE" help:"Part of each node, a number a line; without, parts are made."`
	Clusters  int           `default:"1" help:"Parts of a batch."`
	Work      int           `default:"65536" help:"Nodes and in-edges of a batch."`
	Neighbors int           `default:"32" help:"The most neighbours of a node."`
	Hops      int           `default:"1" help:"Layers, each of which expands all nodes so far."`
	Alpha     float64       `default:"0.15" help:"Probability with which the walk behind PageRank ends at a node."`
	Epsilon   float64       `default:"0.0001" help:"Residual of PageRank that is left for each in-edge."`
	EdgeType  string        `placeholder:"TYPE" help:"Edge type that has the neighbours; default: the one that fits."`
}

// partitionFile is the value of --partition.
type partitionFile struct{ *graph.Partition }

// UnmarshalText reads the file of that name.
func (p *partitionFile) UnmarshalText(text []byte) error {
	f, err := os.Open(string(text))
	if err != nil {
		return err
	}
	defer f.Close()
	if p.Partition, err = graph.ReadPartition(f); err != nil {
		return fmt.Errorf("%s: %w", paths.Text(string(text)), err)
	}
	return nil
}

func (f *samplerFlags) shadow() sampling.Sampler {
	return sampling.Shadow{Fanouts: f.Fanouts.all, PerType: f.Fanouts.perType, Replace: f.Replace}
}

func (f *samplerFlags) induced() sampling.Sampler { return sampling.Induced{} }

func (f *samplerFlags) saint(kind sampling.SaintKind) sampling.Sampler {
	return sampling.Saint{Kind: kind, Budget: f.Budget, Length: f.Length, Steps: f.Steps, Coverage: f.Coverage}
}

func (f *samplerFlags) saintNode() sampling.Sampler { return f.saint(sampling.SaintNodes) }
func (f *samplerFlags) saintEdge() sampling.Sampler { return f.saint(sampling.SaintEdges) }
func (f *samplerFlags) saintWalk() sampling.Sampler { return f.saint(sampling.SaintWalks) }

func (f *samplerFlags) cluster() sampling.Sampler {
	return sampling.Cluster{Partition: f.Partition.Partition, PerBatch: f.Clusters}
}

func (f *samplerFlags) full() sampling.Sampler { return sampling.Full{Work: f.Work} }

func (f *samplerFlags) pinsage() sampling.Sampler {
	length := f.Length
	if length == 0 {
		length = 2
	}
	return sampling.PinSage{Neighbors: f.Neighbors, Hops: f.Hops, Walks: f.Walks, Length: length, Restart: f.Restart,
		Stop: f.Stop, Metapath: f.Metapath, As: f.EdgeType}
}

func (f *samplerFlags) ppr() sampling.Sampler {
	return sampling.PPR{Neighbors: f.Neighbors, Alpha: f.Alpha, Epsilon: f.Epsilon, As: f.EdgeType}
}
