package slots

import (
	"sync"
	"unsafe"

	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Tensor returns an array of the batch in the slot.
func (s *Slot) Tensor(i int) unified.Tensor {
	a, p := &s.Recipe.Arrays[i], &s.Sample
	switch a.Kind {
	case layout.NumNodes:
		t, _ := unified.FromSlice(s.counts).Reshape(int64(len(p.NumNodes)), a.Row[0])
		return t
	case layout.Nodes:
		return p.Nodes[a.Type]
	case layout.Seeds:
		return p.SeedLocal[a.Type]
	case layout.Inputs:
		return unified.FromSlice(s.Request.Seeds[a.Type])
	case layout.Items:
		return unified.FromSlice(s.Items[a.Type])
	case layout.ItemColumn:
		return s.rows[i].tensor
	case layout.LinkLabels:
		return unified.FromSlice(s.Links[a.Type].Labels)
	case layout.LinkTimes:
		if a.Column != "" {
			return unified.FromSlice(s.Links[a.Type].From)
		}
		return unified.FromSlice(s.Links[a.Type].Times)
	case layout.LinkGroup:
		return unified.FromSlice(s.Links[a.Type].Group)
	case layout.LinkItems:
		return unified.FromSlice(s.Links[a.Type].Items)
	case layout.LinkCounts:
		return unified.FromSlice(s.LinkCounts[a.Type][:])
	case layout.Indptr:
		return p.Blocks[a.Layer][a.Type].Indptr
	case layout.Indices:
		return p.Blocks[a.Layer][a.Type].Indices
	case layout.EdgePos:
		return p.Blocks[a.Layer][a.Type].EdgePos
	case layout.Own:
		return p.Arrays[a.Type].Rows
	default:
		return s.rows[i].tensor
	}
}

// buffer returns the memory behind an array that has some.
func (s *Slot) buffer(i int) *unified.Buffer {
	a, p := &s.Recipe.Arrays[i], &s.Sample
	switch a.Kind {
	case layout.Nodes:
		return &p.Buffers.Nodes[a.Type]
	case layout.Seeds:
		return &p.Buffers.Seeds[a.Type]
	case layout.Inputs:
		return &s.seedIDs[a.Type]
	case layout.Indptr:
		return &p.Buffers.Indptr[a.Layer][a.Type]
	case layout.Indices:
		return &p.Buffers.Indices[a.Layer][a.Type]
	case layout.EdgePos:
		return &p.Buffers.EdgePos[a.Layer][a.Type]
	case layout.Own:
		return &p.Buffers.Arrays[a.Type]
	default:
		return &s.rows[i].buf
	}
}

// IsView reports whether an array is the beginning of its Base, in the same memory.
func (s *Slot) IsView(i int) bool {
	base := s.Recipe.Arrays[i].Base
	if base == i {
		return false
	}
	mine, its := s.Tensor(i).Bytes(), s.Tensor(base).Bytes()
	return len(mine) > 0 && len(mine) <= len(its) && unsafe.SliceData(mine) == unsafe.SliceData(its)
}

// SetColumn notes the rows of a column, in the memory that Rows has taken.
func (s *Slot) SetColumn(i int, rows unified.Tensor) { s.rows[i].tensor = rows }

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
