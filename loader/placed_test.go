package loader_test

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
)

// place is loader.Place on the CPU; what it took must be back at the end.
func place(t *testing.T, src loader.Source, opt loader.Options, loaders int) *loader.Placed {
	t.Helper()
	if opt.Device.Name == "" {
		opt.Device.Name = "cpu"
	}
	p := expect.Must(loader.Place(background, src, opt, loaders))(t)
	t.Cleanup(func() {
		expect.OK(t, p.Close())
		n := p.Ledger().Total() + p.Ledger().DeviceTotal()
		expect.That(t, n == 0, "%d bytes are held after Close", n)
	})
	return p
}

func TestLoadersShareOneCopyOfAPlacedSource(t *testing.T) {
	g := graphs.Plain(t, 3000, 6)
	opt := loader.Options{Sampler: neighbor, BatchSize: 100, Shuffle: true, Residence: loader.Resident, Workers: 1,
		MaxMemory: 40 << 20}
	var want []string
	for rank := range 2 {
		alone := opt
		alone.Rank, alone.WorldSize = rank, 2
		want = append(want, digests(t, open(t, g, alone).Epoch(background, 1))...)
	}
	p := place(t, g, opt, 2)
	copies := p.Ledger().Total()
	var got []string
	for rank := range 2 {
		opt.Rank, opt.WorldSize = rank, 2
		l := open(t, p, opt)
		got = append(got, digests(t, l.Epoch(background, 1))...)
		m := l.Stats().Memory
		expect.That(t, m.Topology == 0 && m.Columns == 0, "rank %d copied the source again: %+v", rank, m)
	}
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
	held := p.Ledger().Used(pinned.Topology) + p.Ledger().Used(pinned.Columns)
	expect.That(t, held == copies && copies != 0, "%d bytes of copies, %d when the source was placed", held, copies)
	peak := p.Ledger().Peak()
	expect.That(t, peak <= opt.MaxMemory, "both took %d bytes, MaxMemory is %d", peak, opt.MaxMemory)
}

func TestMaxMemoryBoundsAllLoadersOfAPlacedSource(t *testing.T) {
	g := graphs.Plain(t, 3000, 6)
	opt := loader.Options{Sampler: neighbor, BatchSize: 100, Workers: 4, Tuning: loader.TuningOptions{Prefetch: 4},
		MaxMemory: 1_200_000}
	one := open(t, g, opt).Estimate()
	p := place(t, g, opt, 2)
	a, b := open(t, p, opt), open(t, p, opt)
	for _, l := range []*loader.Loader{a, b} {
		if e := l.Estimate(); e.Slots >= one.Slots || 2*e.Bound.Total() > opt.MaxMemory {
			t.Errorf("each of two has %d slots of at most %d bytes, one alone has %d of %d", e.Slots, e.Bound.Total(),
				one.Slots, one.Bound.Total())
		}
		digests(t, l.Epoch(background, 0))
	}
	if sum := a.Stats().Memory.Total() + b.Stats().Memory.Total(); p.Ledger().Total() != sum {
		t.Errorf("the placed source counts %d bytes, its loaders %d", p.Ledger().Total(), sum)
	}
	more := opt
	more.Hooks.PerSlot = 50 << 10
	c := open(t, p, more)
	expect.That(t, c.Estimate().Slots < a.Estimate().Slots,
		"50 KiB beside each slot leave %d slots, where there were %d", c.Estimate().Slots, a.Estimate().Slots)
	opt.MaxMemory = 100 << 10
	expect.Is(t, expect.Err(loader.Place(background, g, opt, 100)), loader.ErrMemory, "a hundred loaders in 100 KiB")
}
