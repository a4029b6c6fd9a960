package main

import (
	"cmp"

	"github.com/khop-gnn/khop/sampling"
)

// walkFlags are the flags of samplers that take walks.
type walkFlags struct {
	Length    int      `default:"0" help:"Steps of a walk; 0: 40, for saint-walk and pinsage 2."`
	Walks     int      `default:"0" help:"Walks a seed; 0: 1, for pinsage 10."`
	Restart   float64  `default:"0" help:"Probability to go back to the seed, before each step."`
	Stop      float64  `default:"0" help:"Probability to end the walk, before each step."`
	Metapath  []string `placeholder:"TYPES" help:"Edge types to follow, one a step, over and over: writes,rev_writes."`
	P         float64  `default:"1" help:"Return parameter: the weight of the node before is 1/p."`
	Q         float64  `default:"1" help:"In-out parameter: the weight of nodes farther away is 1/q."`
	WalkEdges bool     `help:"Also deliver the position of each step's edge."`
}

func (f *samplerFlags) walk() sampling.Sampler {
	return sampling.Walk{Length: cmp.Or(f.Length, 40), PerSeed: f.Walks, Restart: f.Restart, Stop: f.Stop,
		Metapath: f.Metapath, Edges: f.WalkEdges}
}

func (f *samplerFlags) node2vec() sampling.Sampler {
	return sampling.Node2Vec{Length: cmp.Or(f.Length, 40), PerSeed: f.Walks, P: f.P, Q: f.Q, Edges: f.WalkEdges}
}
