package tiers

import (
	"context"

	"github.com/khop-gnn/khop/loader/tier"
)

// Remote is a tier.Remote, and what it is asked for.
type Remote struct {
	tier.Remote
	Dataset string // the id, in hexadecimal
}

// asked is the tier of columns that a Remote has where nobody knows batches ahead: each asks for its rows.
type asked struct {
	from    *Remote
	columns []tier.Column
}

func (*asked) Cost(tier.Bound) tier.Memory { return tier.Memory{} }

func (t *asked) Open(ctx context.Context, env tier.Env) error {
	t.columns = env.Columns
	return t.from.Open(ctx, t.from.Dataset, env.Columns)
}

func (t *asked) Reader(tier.Worker) (tier.Reader, error) { return &askedReader{t: t}, nil }

func (*asked) Stats() (tier.Stats, error) { return tier.Stats{}, nil }

func (t *asked) Close() error { return t.from.Close() }

type askedReader struct {
	tier.Later
	t *asked
}

func (r *askedReader) Begin(ctx context.Context, s tier.Slot, w tier.Want) (done bool, err error) {
	rows, err := w.CopyIDs()
	if err != nil || len(rows) == 0 {
		return true, err
	}
	size := int64(len(rows)) * r.t.columns[w.Column].Data.RowBytes()
	to, err := s.Room(w.Array, size)
	if err != nil {
		return false, err
	}
	r.Fetch(ctx, func(ctx context.Context) error { return r.t.from.Fetch(ctx, w.Column, rows, to[:size]) })
	return false, nil
}

func (*askedReader) Close() error { return nil }
