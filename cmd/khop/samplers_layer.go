package main

import (
	"fmt"

	"github.com/khop-gnn/khop/sampling"
)

// layerFlags are the flags of samplers that draw the nodes of a hop together.
type layerFlags struct {
	LayerNodes fanouts `default:"512,512" placeholder:"LIST" help:"${layer_nodes_help}"`
}

const layerNodesHelp = "Nodes that each hop draws; -1 all. For hgt of each type: 'paper=512,256;*=64,64'."

func (f *samplerFlags) fastgcn() sampling.Sampler {
	return sampling.FastGCN{Nodes: f.LayerNodes.all, Weight: f.Weight}
}

func (f *samplerFlags) ladies() sampling.Sampler {
	return sampling.Ladies{Nodes: f.LayerNodes.all, Weight: f.Weight}
}

func (f *samplerFlags) hgt() sampling.Sampler {
	return sampling.HGT{Nodes: f.LayerNodes.all, PerType: f.LayerNodes.perType}
}

// checkLayers refuses numbers of nodes by type where all types are drawn from together.
func (f *samplerFlags) checkLayers() error {
	if f.Sampler != "hgt" && f.LayerNodes.perType != nil {
		return fmt.Errorf("--layer-nodes by node type is for --sampler hgt: %s draws from all types together",
			f.Sampler)
	}
	return nil
}
