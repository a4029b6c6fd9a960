package slots

import (
	"context"

	"github.com/khop-gnn/khop/internal/timeline"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/seedlist"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// Job is one batch to make.
type Job struct {
	Epoch  uint32
	Number uint64
	Order  seedlist.Order
	Asked  *seedlist.List // the seeds of a request, all of them, in place of the recipe's; nil for none
}

// items returns the list of the job's seeds, and which of them it is about.
func (j *Job) items(r *recipe.Recipe) (*seedlist.List, seedlist.Items) {
	if j.Asked != nil {
		all := j.Asked.InOrder(j.Asked.Count)
		return j.Asked, all.Batch(0)
	}
	return &r.Seeds, j.Order.Batch(j.Number)
}

// Sampler samples batches on one processor, for one goroutine at a time.
type Sampler interface {
	// Negatives appends to the edges of each type, which were asked for, those that are not true.
	Negatives(r sampling.Rand, links []sampling.LinkSeeds) error
	// Sample fills the slot's sample with what its request asks for. The host then knows all shapes.
	Sample(ctx context.Context, s *Slot) error
	// Close frees the sampler's memory.
	Close() error
}

// Fill samples a batch in the slot.
func (s *Slot) Fill(ctx context.Context, m Sampler, j Job) error {
	s.Number = j.Number
	s.Request.Rand = sampling.NewRand(s.Recipe.Seed, j.Epoch, s.Recipe.Instance, j.Number)
	span := timeline.Of(ctx).Begin("seeds", -1)
	err := s.takeSeeds(m, j)
	if span.End(); err != nil {
		return err
	}
	if err := m.Sample(ctx, s); err != nil {
		return err
	}
	return s.To(sampled, s.checkSample())
}

// takeSeeds looks up the batch's seeds, by type.
func (s *Slot) takeSeeds(m Sampler, j Job) error {
	r := s.Recipe
	list, batch := j.items(r)
	if s.Links != nil {
		return s.takeLinks(m, batch)
	}
	for t := range s.Request.Seeds {
		s.Request.Seeds[t], s.Items[t] = nil, s.Items[t][:0]
		if most := r.MostSeeds(t); most > 0 { // room for as many as there can be
			room, err := unified.Grow[int64](&s.seedIDs[t], most, 0)
			if err != nil {
				return err
			}
			s.Request.Seeds[t] = room[:0]
		}
	}
	if s.Request.Times = nil; list.Timed {
		s.Request.Times = s.times
	}
	if s.Request.From = nil; list.From != nil {
		s.Request.From = s.from
	}
	for t := range s.times {
		s.times[t], s.from[t] = s.times[t][:0], s.from[t][:0]
	}
	s.Request.Items = s.Request.Items[:0]
	var some [64]int64 // shuffled first, and then looked up: look-ups in a row wait for memory together
	for i := int64(0); i < batch.Len; i += int64(len(some)) {
		items := some[:min(batch.Len-i, int64(len(some)))]
		for k := range items {
			items[k] = batch.At(i + int64(k))
		}
		s.takeNodes(list, items)
	}
	return s.takeItemColumns()
}

// takeNodes looks up some seeds.
func (s *Slot) takeNodes(list *seedlist.List, items []int64) {
	if list.Numbers {
		s.Request.Items = append(s.Request.Items, items...)
		return
	}
	for _, item := range items {
		t, id := list.At(item)
		s.Request.Seeds[t] = append(s.Request.Seeds[t], id)
		s.Items[t] = append(s.Items[t], item)
		if s.Request.Times != nil {
			s.Request.Times[t] = append(s.Request.Times[t], list.TimeAt(item))
		}
		if s.Request.From != nil {
			s.Request.From[t] = append(s.Request.From[t], list.From[item])
		}
	}
}

// takeItemColumns copies the rows of the list of seeds that belong to the batch's.
func (s *Slot) takeItemColumns() error {
	for i := range s.Recipe.Arrays {
		a, rows := &s.Recipe.Arrays[i], &s.rows[i]
		if a.Kind != layout.ItemColumn {
			continue
		}
		rows.onHeap = rows.onHeap[:0]
		for _, item := range s.Items[a.Type] {
			rows.onHeap = append(rows.onHeap, s.Recipe.Seeds.RowAt(item, a.Column)...)
		}
		t, err := unified.New(a.DType, rows.onHeap, append([]int64{int64(len(s.Items[a.Type]))}, a.Row...)...)
		if err != nil {
			return err
		}
		rows.tensor = t
	}
	return nil
}

// RowIDs returns which rows an array has of its column, and whether it is the beginning of its Base.
func (s *Slot) RowIDs(a *layout.Array) (ids unified.Tensor, view bool) {
	switch a.Kind {
	case layout.EdgeColumn:
		at := s.Recipe.Find(layout.EdgePos, a.Layer, a.Type, "")
		return s.Tensor(at), s.IsView(at)
	case layout.SeedColumn:
		ids, _ = s.Sample.Nodes[a.Type].Rows(0, s.Sample.NumNodes[0][a.Type]) // checkSample saw that there are as many
		return ids, false
	default:
		return s.Sample.Nodes[a.Type], false
	}
}

// RowBytes returns the bytes of the rows of all columns that a sampled batch has.
func (s *Slot) RowBytes() (n int64) {
	for i := range s.Recipe.Arrays {
		if a := &s.Recipe.Arrays[i]; a.IsColumn() {
			if ids, view := s.RowIDs(a); !view {
				n += ids.Len() * recipe.RowBytes(a)
			}
		}
	}
	return n
}
