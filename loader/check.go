package loader

import (
	"fmt"

	"github.com/khop-gnn/khop/unified"
)

// checkSample looks at the shapes of what a sampler made, which may be anybody's: what comes after relies on them. It
// looks at no id; gathering checks those that it uses.
func (s *slot) checkSample() error {
	p := &s.sample
	l := s.loader
	schema := l.graph.Schema()
	if len(p.Nodes) != len(schema.Nodes) || len(p.SeedLocal) != len(schema.Nodes) ||
		len(p.Blocks) != l.bound.Layers || len(p.NumNodes) != l.bound.Layers+1 {
		return fmt.Errorf("%w: it reshaped the sample", ErrSampler)
	}
	for t := range schema.Nodes {
		before := int64(0)
		for h := range p.NumNodes {
			if len(p.NumNodes[h]) != len(schema.Nodes) || p.NumNodes[h][t] < before {
				return fmt.Errorf("%w: NumNodes is %v", ErrSampler, p.NumNodes)
			}
			before = p.NumNodes[h][t]
		}
		if !s.isList(p.Nodes[t], before, schema.IDType()) {
			return fmt.Errorf("%w: Nodes[%d] is %v, but there are %d nodes", ErrSampler, t, p.Nodes[t], before)
		}
		if !s.isList(p.SeedLocal[t], int64(len(s.request.Seeds[t])), unified.Int32) {
			return fmt.Errorf("%w: SeedLocal[%d] is %v for %d seeds", ErrSampler, t, p.SeedLocal[t],
				len(s.request.Seeds[t]))
		}
	}
	for layer := range p.Blocks {
		if len(p.Blocks[layer]) != len(schema.Edges) {
			return fmt.Errorf("%w: it reshaped the sample", ErrSampler)
		}
		for e := range p.Blocks[layer] {
			b := &p.Blocks[layer][e]
			if b.NumDst < 0 || b.NumSrc < 0 || !s.isList(b.Indptr, b.NumDst+1, unified.Int32) ||
				!s.isList(b.Indices, b.Indices.Len(), unified.Int32) {
				return fmt.Errorf("%w: Blocks[%d][%d]: %d destinations, indptr %v, indices %v", ErrSampler, layer, e,
					b.NumDst, b.Indptr, b.Indices)
			}
			if l.edgePos() && !s.isList(b.EdgePos, b.Indices.Len(), schema.PosType()) {
				return fmt.Errorf("%w: Blocks[%d][%d]: edge positions %v for indices %v", ErrSampler, layer, e,
					b.EdgePos, b.Indices)
			}
		}
	}
	s.counts = s.counts[:0]
	for _, row := range p.NumNodes {
		s.counts = append(s.counts, row...)
	}
	return nil
}

// isList reports whether t is n ids where the loader makes its batches; none if n is 0.
func (s *slot) isList(t unified.Tensor, n int64, dtype unified.DType) bool {
	if !t.Valid() {
		return n == 0
	}
	onDevice := t.Placement() == unified.Device
	return t.DType() == dtype && t.Rank() == 1 && t.Len() == n && onDevice == (s.loader.device != nil)
}
