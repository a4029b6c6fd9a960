package diskio

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// held is a piece of an arena, and how many bytes at the end of the memory were left out for it.
type held struct{ at, n, left, end int64 }

// An arena has room behind the last piece, or at its beginning, wherever no piece lies, and nowhere else.
func TestAnArenaHasRoomWhereNoPieceLies(t *testing.T) {
	const seed, size = 20261123, 1000
	r := rand.New(rand.NewPCG(seed, 0))
	memory := expect.Must(pinned.Allocate(size, pinned.Options{}))(t)
	defer memory.Close()
	a := &arena{memory: memory}
	base := uintptr(unsafe.Pointer(&memory.Bytes()[0]))
	whole := int64(len(memory.Bytes()))
	var list []held
	for step := range 5000 {
		if len(list) > 0 && r.IntN(3) == 0 {
			k := 1 + r.IntN(len(list)) // with all before it
			a.give(list[k-1].end)
			list = list[k:]
			continue
		}
		n := 1 + r.Int64N(whole/(1+r.Int64N(6)))
		at, left := int64(0), int64(0)
		if len(list) > 0 {
			if last := list[len(list)-1]; last.at+last.n+n <= whole {
				at = last.at + last.n
			} else {
				left = whole - last.at - last.n
			}
		}
		free := !slices.ContainsFunc(list, func(h held) bool {
			return at < h.at+h.n && h.at < at+n || h.left > 0 && at+n > whole-h.left
		})
		b, end := a.take(n)
		if (b != nil) != free || free && (int64(uintptr(unsafe.Pointer(&b[0]))-base) != at || int64(len(b)) != n ||
			int64(cap(b)) != n) {
			t.Fatalf("seed %d, step %d: %d bytes beside %v: %d bytes, want them at %d: %v", seed, step, n, list, len(b),
				at, free)
		}
		if free {
			list = append(list, held{at, n, left, end})
		}
	}
	a.reset()
	expect.That(t, a.room() == whole, "%d bytes of %d are free at the end", a.room(), whole)
	b, _ := a.take(whole + 1)
	expect.That(t, b == nil, "more than there is was given")
}

// The window has room for the announced number of requests, and no more.
func TestAWindowHasRoomForItsAsks(t *testing.T) {
	for asks, want := range map[int]int{0: 256, 256: 256, 257: 257, 1025: 1025} {
		p, err := NewPlanner(Layout{RowBytes: 4, Rows: 100}, PlannerOptions{Slots: 10, Lookahead: 4, Asks: asks})
		expect.OK(t, err)
		if err := p.makeRoom(1); err != nil || len(p.asks) != want {
			t.Errorf("room for %d asks of %d, want %d: %v", len(p.asks), asks, want, err)
		}
		expect.OK(t, p.Close())
	}
}

// A disk is probed only if the requests are not given.
func TestADiskIsNotProbedWhereRequestsAreGiven(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 4000, 512)
	if f, _, err := pinned.OpenMapped(m.Bytes); err != nil {
		t.Skip(err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]ReaderOptions{
		"depth": {Depth: 2, Shape: disk.Shape{Most: 4096}}, "gap": {Shape: disk.Shape{Gap: 4096, Most: 4096}},
		"both": {Depth: 2, Shape: disk.Shape{Gap: 4096, Most: 4096}},
	} {
		r, layouts := expect.Must2(Open(background, []Mapped{m}, opt))(t)
		if p := r.Probe(); p.Small != 0 || p.Large != 0 || layouts[0].Shape != p.Shape || p.Most != 4096 ||
			opt.Depth > 0 && p.Depth != opt.Depth {
			t.Errorf("%s: %+v", name, p)
		}
		expect.OK(t, r.Close())
	}
}

// Who writes packed rows ends with the column.
func TestWhoWritesPackedRowsEndsWithTheColumn(t *testing.T) {
	var p *pack
	t.Cleanup(func() { // after the column's
		if p == nil {
			return
		}
		select {
		case <-p.ended:
		case <-time.After(2 * time.Minute):
			t.Error("it goes on")
		}
	})
	c, _, _ := openPacking(t, small, packing(1<<20))
	p = c.pack
}
