package loader

import (
	"context"
	"io"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// mapped is the tier of columns that are read where the source has them.
type mapped struct{ columns []*column }

func (*mapped) Cost(tier.Bound) tier.Memory          { return tier.Memory{} }
func (*mapped) Open(context.Context, tier.Env) error { return nil }
func (*mapped) Stats() (tier.Stats, error)           { return tier.Stats{}, nil }
func (*mapped) Close() error                         { return nil }

func (t *mapped) Reader(w tier.Worker) (tier.Reader, error) {
	return &memoryReader{columns: t.columns, goroutines: w.Goroutines}, nil
}

// resident is the tier of columns that are copied to memory on huge pages.
type resident struct {
	mapped
	in    *copier
	widen bool
}

func (t *resident) Cost(tier.Bound) (m tier.Memory) {
	for _, c := range t.columns {
		m.Columns += c.copyBytes()
	}
	return m
}

func (t *resident) Open(ctx context.Context, env tier.Env) error {
	var list []unified.Tensor
	for _, c := range t.columns {
		list = append(list, c.tensors()...)
	}
	if err := t.in.stage(ctx, pinned.Columns, list, env.Progress); err != nil {
		return err
	}
	for _, c := range t.columns {
		if err := c.setData(t.in.of(c.store.Column()), t.in.of(c.scales), t.widen); err != nil {
			return err
		}
	}
	return nil
}

func (t *resident) Close() error { return t.in.close() }

// copier copies tensors into memory, each once.
type copier struct {
	ledger *pinned.Ledger
	copies map[*byte]unified.Tensor // by where the original lies
	owned  []io.Closer
}

func (in *copier) stage(ctx context.Context, purpose pinned.Purpose, list []unified.Tensor,
	progress func(done, total int64)) error {
	done, total := int64(0), int64(0)
	for _, t := range list {
		total += int64(len(t.Bytes()))
	}
	for _, t := range list {
		if _, ok := in.copies[firstByte(t)]; ok || len(t.Bytes()) == 0 {
			continue
		}
		to, r, err := gather.Resident(ctx, t, pinned.Options{Ledger: in.ledger, Purpose: purpose},
			func(n int64) { progress(done+n, total) })
		if err != nil {
			return err
		}
		in.owned = append(in.owned, r)
		in.copies[firstByte(t)] = to
		done += int64(len(t.Bytes()))
	}
	return nil
}

// of returns the copy of a tensor, or the tensor itself if it was not copied.
func (in *copier) of(t unified.Tensor) unified.Tensor {
	if to, ok := in.copies[firstByte(t)]; ok {
		return to
	}
	return t
}

func firstByte(t unified.Tensor) *byte {
	if len(t.Bytes()) == 0 {
		return nil
	}
	return &t.Bytes()[0]
}

func (in *copier) close() error {
	err := closeAll(in.owned)
	in.owned = nil
	return err
}

// memoryReader copies rows out of memory that the host reads.
type memoryReader struct {
	tier.Done
	columns    []*column
	goroutines int
}

func (r *memoryReader) Begin(_ context.Context, s tier.Slot, w tier.Want) (done bool, err error) {
	c := r.columns[w.Column]
	if err := c.verified.check(w.IDs); err != nil {
		return false, err
	}
	to, err := s.Room(w.Array, w.IDs.Len()*c.store.OutBytes())
	if err != nil {
		return false, err
	}
	return true, c.store.GatherInto(to, w.IDs, r.goroutines)
}
