package slots

import (
	"fmt"

	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// checkSample looks at the shapes of what a sampler made, which may be anybody's: what comes after relies on them. It
// looks at no id; gathering checks those that it uses.
func (s *Slot) checkSample() error {
	p := &s.Sample
	r := s.Recipe
	schema := r.Graph.Schema()
	if len(p.Nodes) != len(schema.Nodes) || len(p.SeedLocal) != len(schema.Nodes) ||
		len(p.Blocks) != r.Bound.Layers || len(p.NumNodes) != r.Bound.Layers+1 || len(p.Arrays) != len(r.Bound.Arrays) {
		return fmt.Errorf("%w: it reshaped the sample", errs.ErrSampler)
	}
	for t := range schema.Nodes {
		before := int64(0)
		for h := range p.NumNodes {
			if len(p.NumNodes[h]) != len(schema.Nodes) || p.NumNodes[h][t] < before {
				return fmt.Errorf("%w: NumNodes is %v", errs.ErrSampler, p.NumNodes)
			}
			before = p.NumNodes[h][t]
		}
		if !s.isList(p.Nodes[t], before, schema.IDType()) {
			return fmt.Errorf("%w: Nodes[%d] is %v, but there are %d nodes", errs.ErrSampler, t, p.Nodes[t], before)
		}
		if n := s.Request.NumSeeds(schema, t); !s.isList(p.SeedLocal[t], n, unified.Int32) {
			return fmt.Errorf("%w: SeedLocal[%d] is %v for %d seeds", errs.ErrSampler, t, p.SeedLocal[t], n)
		}
	}
	for layer := range p.Blocks {
		if len(p.Blocks[layer]) != len(schema.Edges) {
			return fmt.Errorf("%w: it reshaped the sample", errs.ErrSampler)
		}
		for e := range p.Blocks[layer] {
			b := &p.Blocks[layer][e]
			if b.NumDst < 0 || b.NumSrc < 0 || !s.isList(b.Indptr, b.NumDst+1, unified.Int32) ||
				!s.isList(b.Indices, b.Indices.Len(), unified.Int32) {
				return fmt.Errorf("%w: Blocks[%d][%d]: %d destinations, indptr %v, indices %v", errs.ErrSampler,
					layer, e, b.NumDst, b.Indptr, b.Indices)
			}
			if r.EdgePos && !s.isList(b.EdgePos, b.Indices.Len(), schema.PosType()) {
				return fmt.Errorf("%w: Blocks[%d][%d]: edge positions %v for indices %v", errs.ErrSampler, layer, e,
					b.EdgePos, b.Indices)
			}
		}
	}
	if err := s.checkBound(); err != nil {
		return err
	}
	s.counts = s.counts[:0]
	for _, row := range p.NumNodes {
		s.counts = append(s.counts, row...)
	}
	return nil
}

// checkBound compares the sample with what the sampler's Bound allows.
func (s *Slot) checkBound() error {
	nodes, p := int64(0), &s.Sample
	for _, n := range p.NumNodes[len(p.NumNodes)-1] {
		nodes += n
	}
	if most := s.Recipe.Bound.Nodes; nodes > most {
		return fmt.Errorf("%w: a batch of %d nodes, where its Bound says %d at most", errs.ErrSampler, nodes, most)
	}
	for i := range s.Recipe.Arrays {
		a := &s.Recipe.Arrays[i]
		if a.IsColumn() || a.Kind == layout.NumNodes {
			continue
		}
		t := s.Tensor(i)
		if a.Kind == layout.Own && !sameRows(t, a) {
			return fmt.Errorf("%w: array %s is %v, not rows of %v%v", errs.ErrSampler, a.Name, t, a.DType, a.Row)
		}
		if t.Len() > a.Most && !s.IsView(i) {
			return fmt.Errorf("%w: array %s has %d rows, where the sampler's Bound says %d at most", errs.ErrSampler,
				a.Name, t.Len(), a.Most)
		}
	}
	return nil
}

// sameRows reports whether a tensor's rows are as the array's; no tensor has no rows.
func sameRows(t unified.Tensor, a *layout.Array) bool {
	same := !t.Valid() || t.DType() == a.DType && t.Rank() == 1+len(a.Row)
	for i := 0; same && t.Valid() && i < len(a.Row); i++ {
		same = t.Dim(i+1) == a.Row[i]
	}
	return same
}

// isList reports whether t is n ids where the loader makes its batches; none if n is 0.
func (s *Slot) isList(t unified.Tensor, n int64, dtype unified.DType) bool {
	if !t.Valid() {
		return n == 0
	}
	lies := t.Placement() == s.ids.Placement() || s.ids.Placement() == pinned.Host && t.Placement() == pinned.Pinned
	return lies && t.DType() == dtype && t.Rank() == 1 && t.Len() == n
}
