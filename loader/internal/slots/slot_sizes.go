package slots

import (
	"sync"

	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// ClaimBound gives the slot the memory of the largest batch.
func (s *Slot) ClaimBound() (err error) {
	s.Each(func(_ int, b *unified.Buffer, most int64) {
		if err == nil {
			err = b.Claim(most)
		}
	})
	return err
}

// Sizes is what the memory of each array of a batch should be.
type Sizes struct {
	Limited bool // slots are given their bound, so that what they have says nothing
	mu      sync.Mutex
	Bytes   []int64 // [array]
}

// Learn takes the needs of the batch in s into account.
func (z *Sizes) Learn(s *Slot) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.Bytes == nil {
		z.Bytes = make([]int64, len(s.Recipe.Arrays))
	}
	s.Each(func(i int, b *unified.Buffer, most int64) {
		want := min(s.Used(i)*5/4, most)
		if !z.Limited {
			want = max(want, b.Cap()) // the sampler asked for as much
		}
		z.Bytes[i] = max(z.Bytes[i], want)
	})
}

// Used returns the bytes that an array of a sampled batch needs, of columns those that it will.
func (s *Slot) Used(i int) int64 {
	a, p := &s.Recipe.Arrays[i], &s.Sample
	rows := int64(0)
	switch a.Kind {
	case layout.Inputs:
		return recipe.MostBytes(a)
	case layout.NodeColumn:
		rows = p.Nodes[a.Type].Len()
	case layout.SeedColumn:
		rows = p.NumNodes[0][a.Type]
	case layout.EdgeColumn:
		rows = p.Blocks[a.Layer][a.Type].NumEdges()
	default:
		return int64(len(s.Tensor(i).Bytes()))
	}
	return rows * recipe.RowBytes(a)
}

// Total returns what a slot with these sizes takes.
func (z *Sizes) Total() (bytes int64) {
	for _, n := range z.Bytes {
		bytes += pinned.Options{}.Size(n)
	}
	return bytes
}
