package main

import "github.com/khop-gnn/khop/sampling"

// neighborFlags are the flags of neighbours that are not all alike.
type neighborFlags struct {
	Weight string  `placeholder:"COLUMN" help:"Weights of the edges; without, all are alike."`
	Mask   string  `placeholder:"COLUMN" help:"Follow only edges where this column is not 0."`
	Share  float64 `default:"0" placeholder:"X" help:"The greatest share of a node's edges, up to 1; 0: no bound."`

	Together  bool               `help:"Count a fan-out over the edges of all types together."`
	Direction sampling.Direction `enum:"in,out,both" default:"in" help:"Edges of a node that are followed."`
	Induced   bool               `help:"Take all edges between the nodes that are reached."`

	Time      string              `default:"time" placeholder:"COLUMN" help:"Times of the edges, none for none."`
	NodeTime  string              `placeholder:"COLUMN" help:"Times of nodes: before them none is reached."`
	TimeRules []sampling.TimeRule `default:"not-after" placeholder:"LIST" help:"${time_rules_help}"`
	Window    int64               `default:"0" placeholder:"N" help:"The greatest age of an edge; 0: any."`
	Recent    bool                `help:"Take the most recent edges."`
	HalfLife  float64             `default:"0" placeholder:"N" help:"Age in which an edge's weight halves; 0: never."`
	Chain     bool                `help:"Let each edge bound the time of what lies beyond it."`
	AsOf      *int64              `placeholder:"TIME" help:"The time of seeds that have no other."`
}

const timeRulesHelp = "Which edges a hop follows: not-after (up to the time of the seed), before, or any; the last " +
	"rule holds for all hops beyond."

func (f *samplerFlags) neighbor() sampling.Sampler { return f.neighbours() }

func (f *samplerFlags) neighbours() sampling.Neighbor {
	return sampling.Neighbor{Fanouts: f.Fanouts.all, PerType: f.Fanouts.perType, Replace: f.Replace,
		Frontier: f.Frontier, Disjoint: f.Disjoint, Weight: f.Weight, Mask: f.Mask, Share: f.Share,
		Together: f.Together, Direction: f.Direction, Induced: f.Induced}
}

func (f *samplerFlags) temporal() sampling.Sampler {
	n := f.neighbours()
	n.Time = sampling.Temporal{Edge: f.Time, Node: f.NodeTime, AsOf: f.AsOf, Rules: f.TimeRules, Window: f.Window,
		Recent: f.Recent, HalfLife: f.HalfLife, Chain: f.Chain}
	if f.Time == "none" {
		n.Time.Edge = ""
	}
	return n
}
