package loader

import (
	"cmp"

	"github.com/khop-gnn/khop/sampling"
)

// warnOfTimes says that times have kept all seeds of some batches from all edges: they may have another unit.
func (r *run) warnOfTimes() {
	l := r.l
	n, _ := unwrapped(l.opt.Sampler).(sampling.Neighbor)
	batches := l.stats.batches.Load() - r.before.batches
	if n.Time.Edge == "" && n.Time.Node == "" || batches == 0 || l.stats.edges.Load() > r.before.edges {
		return
	}
	schema, units := l.placed.Graph().Schema(), map[string]string{}
	for _, c := range schema.EdgeColumns {
		units[c.Name] = c.Unit
	}
	column := n.Time.Edge
	if column == "" {
		column = n.Time.Node
		for _, t := range schema.Nodes {
			for _, c := range t.Columns {
				units[c.Name] = cmp.Or(units[c.Name], c.Unit)
			}
		}
	}
	unit := cmp.Or(units[column], "not known")
	l.plan.Log.Warn("no seed has reached any edge: compare the times of the seeds with those of the dataset",
		"batches", batches, "column", column, "unit", unit)
}
