package main

import "github.com/khop-gnn/khop/sampling"

func (f *samplerFlags) shadow() sampling.Sampler {
	return sampling.Shadow{Fanouts: f.Fanouts.all, PerType: f.Fanouts.perType, Replace: f.Replace}
}

func (f *samplerFlags) induced() sampling.Sampler { return sampling.Induced{} }
