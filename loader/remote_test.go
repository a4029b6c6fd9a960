package loader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/unified"
)

// otherMachine is a Remote that has features.
type otherMachine struct {
	rows    []byte
	columns []tier.Column
	asked   atomic.Int64 // rows
	calls   atomic.Int64
	fail    func(call int64) error
	closed  atomic.Bool
}

func (e *otherMachine) Has(c *tier.Column) bool { return c.Name == "feature" && c.Type != "" }

func (e *otherMachine) Open(_ context.Context, dataset string, columns []tier.Column) error {
	e.columns = columns
	if len(dataset) != 32 || len(columns) != 1 {
		return fmt.Errorf("%d columns of dataset %q", len(columns), dataset)
	}
	return nil
}

func (e *otherMachine) Fetch(ctx context.Context, i int, rows []int64, to []byte) error {
	e.asked.Add(int64(len(rows)))
	if n := e.calls.Add(1); e.fail != nil {
		if err := e.fail(n); err != nil {
			return err
		}
	}
	width := e.columns[i].Data.RowBytes()
	for k, row := range rows {
		copy(to[int64(k)*width:int64(k+1)*width], e.rows[row*width:])
	}
	return ctx.Err()
}

func (e *otherMachine) Close() error {
	e.closed.Store(true)
	return nil
}

// withoutFeatures returns a graph, the same with zeros in place of its features, and those.
func withoutFeatures(t testing.TB) (whole, here *graph.Graph, rows []byte) {
	t.Helper()
	whole = graphs.Plain(t, 4000, 6)
	a := graphs.ArraysOf(whole)
	x := a.NodeColumns[0]["feature"]
	rows = slices.Clone(x.Bytes())
	a.NodeColumns[0]["feature"] = expect.Must(unified.New(x.DType(), make([]byte, len(rows)), x.Shape()...))(t)
	return whole, graphs.Of(t, a), rows
}

func remoteOptions(from tier.Remote, cache int64) loader.Options {
	opt := loader.Options{Sampler: neighbor, BatchSize: 100, Shuffle: true, Workers: 2}
	opt.Disk.CacheBytes, opt.Disk.Lookahead, opt.Hooks.Remote = cache, 5, from
	return opt
}

func TestRowsOfAnotherMachineMakeTheSameBatches(t *testing.T) {
	whole, here, rows := withoutFeatures(t)
	base := open(t, whole, remoteOptions(nil, 0))
	want := append(digests(t, base.Epoch(background, 0)), digests(t, base.Epoch(background, 1))...)
	for name, c := range map[string]struct {
		cache     int64
		residence loader.Residence
	}{"all are kept": {1 << 30, loader.Mapped}, "a tenth is kept": {int64(len(rows)) / 10, loader.Resident},
		"one is kept": {1, loader.Auto}, "topology on disk": {8000, loader.Disk}} {
		from := &otherMachine{rows: rows}
		opt := remoteOptions(from, c.cache)
		opt.Residence = c.residence
		l := open(t, here, opt)
		got := append(digests(t, l.Epoch(background, 0)), digests(t, l.Epoch(background, 1))...)
		expect.That(t, slices.Equal(got, want), "%s: other batches", name)
		s := l.Stats().OnDisk
		expect.That(t, s.Probe.Engine == "remote" && s.Misses >= from.asked.Load() && s.Rows > 0,
			"%s: %+v, asked for %d", name, s, from.asked.Load())
		all := int64(len(rows)) / from.columns[0].Data.RowBytes()
		expect.That(t, (from.asked.Load() <= all) == (c.cache == 1<<30), "%s: asked for %d of %d", name,
			from.asked.Load(), all)
		expect.That(t, from.calls.Load()*8 < from.asked.Load(), "%s: %d calls for %d rows", name, from.calls.Load(),
			from.asked.Load())
		expect.OK(t, l.Close())
		expect.That(t, from.closed.Load(), "%s: it is open", name)
	}
}

func TestAFailureOfAnotherMachineIsTheErrorOfItsBatch(t *testing.T) {
	whole, here, rows := withoutFeatures(t)
	lost := errors.New("the rack burns")
	from := &otherMachine{rows: rows, fail: func(call int64) error {
		if call == 9 {
			return lost
		}
		return nil
	}}
	l := open(t, here, remoteOptions(from, 8000))
	var err error
	n := 0
	for _, err = range l.Epoch(background, 0) {
		n++
	}
	expect.That(t, errors.Is(err, lost) && strings.Contains(err.Error(), "epoch 0, batch") && n < 20, "%d: %v", n, err)
	want := digests(t, open(t, whole, remoteOptions(nil, 0)).Epoch(background, 1))
	expect.That(t, slices.Equal(digests(t, l.Epoch(background, 1)), want), "the next epoch is not whole")
}

func TestRequestsHaveRowsOfAnotherMachine(t *testing.T) {
	whole, here, rows := withoutFeatures(t)
	opt := remoteOptions(nil, 0)
	opt.Seeds, opt.Shuffle = loader.OnRequest(), false
	base := open(t, whole, opt)
	opt.Hooks.Remote = &otherMachine{rows: rows}
	l := open(t, here, opt)
	seeds := loader.Request{Seeds: graph.NodeIDs([]int64{5, 3999, 5, 17})}
	want, got := expect.Must(base.Sample(background, seeds))(t), expect.Must(l.Sample(background, seeds))(t)
	expect.That(t, digestOf(want) == digestOf(got), "other rows")
	want.Release()
	got.Release()
}
