package flight

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// Errors of this package.
var (
	ErrOptions = errors.New("invalid option")         // options that make no sense
	ErrServers = errors.New("no server has the rows") // all replicas of a range failed, or have another dataset
)

// Rows is the tier of node columns whose rows servers have. A worker of a loader has a stream to each range of ids, and
// its batches' rows are under way while others are sampled and trained: Workers and Tuning.Prefetch say how many.
type Rows struct {
	// Servers are addresses, HOST:PORT, by range of ids: Servers[i] are replicas of part i. Where one fails the next is
	// asked.
	Servers [][]string
	// Schema names the node types, as the source has them.
	Schema *graph.Schema
	// Columns are the names of columns that servers have. Default: feature.
	Columns []string
	// Dataset, if set, is the id that servers must have, in hexadecimal: formats.Dataset.ID.
	Dataset string
	// CacheBytes bounds the rows that are kept, of all columns together.
	CacheBytes int64
	Token      string
	TLS        credentials.TransportCredentials // nil: without

	columns []tier.Column
	caches  []*cache
	ledger  *pinned.Ledger
	taken   int64
}

var _ tier.Chooser = (*Rows)(nil)

// Has implements tier.Chooser.
func (r *Rows) Has(c *tier.Column) bool {
	for _, name := range r.names() {
		if c.NodeType >= 0 && c.Name == name {
			return true
		}
	}
	return false
}

func (r *Rows) names() []string {
	if len(r.Columns) == 0 {
		return []string{"feature"}
	}
	return r.Columns
}

// Cost implements tier.Tier. Rows that a batch misses are in messages before they are in its slot.
func (r *Rows) Cost(b tier.Bound) tier.Memory {
	most := int64(0)
	for _, c := range b.Columns {
		most += min(c.Most*(c.Data.RowBytes()+16), mostBytes)
	}
	return tier.Memory{Columns: r.CacheBytes, Scratch: int64(b.Workers) * most}
}

// Open implements tier.Tier.
func (r *Rows) Open(ctx context.Context, env tier.Env) error {
	if len(r.Servers) == 0 || r.Schema == nil {
		return fmt.Errorf("%w: Rows wants Servers and Schema", ErrOptions)
	}
	if err := env.Ledger.Take(pinned.Columns, r.CacheBytes); err != nil {
		return err
	}
	r.columns, r.ledger, r.taken = env.Columns, env.Ledger, r.CacheBytes
	for _, c := range env.Columns {
		share := r.CacheBytes / int64(len(env.Columns))
		r.caches = append(r.caches, newCache(share, int(c.Data.RowBytes()), c.Data.Len()))
	}
	for i := range r.columns { // now, so that what is wrong is found now
		for n := range r.Servers {
			l := &line{rows: r, column: i, part: n}
			err := l.fetch(ctx, nil, nil, nil)
			l.close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Stats implements tier.Tier.
func (r *Rows) Stats() (s tier.Stats, _ error) {
	for i, c := range r.caches {
		c.mu.Lock()
		s.Add(tier.Stats{Rows: c.asked, Hits: c.hits, Saved: c.hits * r.columns[i].Data.RowBytes()})
		c.mu.Unlock()
	}
	return s, nil
}

// Close implements tier.Tier.
func (r *Rows) Close() error {
	if r.ledger != nil {
		r.ledger.Give(pinned.Columns, r.taken)
	}
	r.caches, r.ledger = nil, nil
	return nil
}

// Reader implements tier.Tier.
func (r *Rows) Reader(tier.Worker) (tier.Reader, error) {
	q := &reader{rows: r, lines: make([][]*line, len(r.columns))}
	for i := range q.lines {
		for n := range r.Servers {
			q.lines[i] = append(q.lines[i], &line{rows: r, column: i, part: n})
		}
	}
	return q, nil
}

// reader asks for one worker.
type reader struct {
	tier.Later

	rows  *Rows
	lines [][]*line // by column and part
}

// Begin implements tier.Reader: rows that the cache has are there when it returns, a goroutine asks for the others when
// all that was begun before is there.
func (q *reader) Begin(ctx context.Context, s tier.Slot, w tier.Want) (done bool, err error) {
	ids, err := w.CopyIDs()
	if err != nil || len(ids) == 0 {
		return true, err
	}
	rows, err := s.Room(w.Array, int64(len(ids))*q.rows.columns[w.Column].Data.RowBytes())
	if err != nil {
		return false, err
	}
	missing := q.rows.caches[w.Column].take(ids, rows)
	if len(missing) == 0 {
		return q.Idle(), nil
	}
	q.Fetch(ctx, func(ctx context.Context) error { return q.fetch(ctx, w.Column, ids, missing, rows) })
	return false, nil
}

// fetch asks each part for its rows, all at a time.
func (q *reader) fetch(ctx context.Context, column int, ids []int64, missing []int32, rows []byte) error {
	n, parts := q.rows.columns[column].Data.Len(), len(q.rows.Servers)
	each := (n + int64(parts) - 1) / int64(parts)
	places := make([][]int32, parts)
	for _, i := range missing {
		p := ids[i] / each
		places[p] = append(places[p], i)
	}
	failures := make([]error, parts)
	var all sync.WaitGroup
	for p, places := range places {
		if len(places) > 0 {
			all.Go(func() { failures[p] = q.lines[column][p].fetch(ctx, ids, places, rows) })
		}
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	q.rows.caches[column].put(ids, missing, rows)
	return nil
}

// Close implements tier.Reader.
func (q *reader) Close() error {
	for _, lines := range q.lines {
		for _, l := range lines {
			l.close()
		}
	}
	return nil
}
