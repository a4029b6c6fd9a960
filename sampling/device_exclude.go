package sampling

import (
	"cmp"
	"slices"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

var sharedExcludeKernels device.PerDevice[*excludeKernels]

// findExcluded lists the ends of the edges that a request leaves out. The device finds their positions: exclude.cu.
func (w *deviceAssembly) findExcluded(req *Request) error {
	w.pairs = w.pairs[:0]
	g, s := w.env.Graph, w.schema
	if !w.excludes {
		if any, err := w.exclusion.of(g, req); err != nil || !any {
			return err
		}
		return errExcludes
	}
	for e := range req.Exclude {
		et := &s.Edges[e]
		for i, target := range req.Exclude[e].Targets {
			source := req.Exclude[e].Sources[i]
			if err := checkPair(s, e, source, target); err != nil {
				return err
			}
			w.pairs = append(w.pairs, deviceLeftOut{target: target + g.Offset(et.Dst), edgeType: int64(e),
				source: source + g.Offset(et.Src), ordered: bit(et.Order == graph.BySource)})
		}
	}
	slices.SortFunc(w.pairs, func(a, b deviceLeftOut) int {
		return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.edgeType, b.edgeType),
			cmp.Compare(a.source, b.source))
	})
	w.pairs = slices.Compact(w.pairs)
	return nil
}

// launchExclude puts on the stream what finds the edges that a batch leaves out, once a batch has left out some.
func (w *deviceAssembly) launchExclude(l *deviceLaunch) error {
	if w.pairRoom == 0 {
		return nil
	}
	k, grid := w.exclude, l.grid(w.pairRoom)
	if err := k.excludeCount.Launch(l.stream, grid, l.block(), 0, l.step); err != nil {
		return err
	}
	if err := l.one(k.excludePlace); err != nil {
		return err
	}
	return k.excludeFill.Launch(l.stream, grid, l.block(), 0, l.step)
}
