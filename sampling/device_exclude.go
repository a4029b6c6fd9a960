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
func (w *deviceAssembly) launchExclude(l *deviceLaunch) {
	if w.pairRoom > 0 {
		put(l, w.exclude.excludeCount, w.pairRoom, l.step)
		putOne(l, w.exclude.excludePlace, l.step)
		put(l, w.exclude.excludeFill, w.pairRoom, l.step)
	}
}
