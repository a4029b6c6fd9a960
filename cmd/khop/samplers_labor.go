package main

import "github.com/khop-gnn/khop/sampling"

// laborFlags are the flags of LABOR alone.
type laborFlags struct {
	Poisson         bool     `help:"Take each edge by itself, so that the fan-out is a mean."`
	LayerDependent  bool     `help:"Let hops share nodes too."`
	BatchDependency positive `default:"1" placeholder:"N" help:"Batches for which a node keeps its draw."`
}

func (f *samplerFlags) labor() sampling.Sampler {
	return sampling.Labor{Fanouts: f.Fanouts.all, PerType: f.Fanouts.perType, Frontier: f.Frontier, Poisson: f.Poisson,
		LayerDependent: f.LayerDependent, BatchDependency: int(f.BatchDependency)}
}
