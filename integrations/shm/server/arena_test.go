//go:build linux

package server

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// piece is memory of an arena with a mark in it.
type piece struct {
	b    []byte
	mark byte
}

// takePiece takes some memory, checks that it lies as a loader needs it, and marks it.
func takePiece(t *testing.T, a *arena, r *rand.Rand, mark byte) piece {
	t.Helper()
	n, align := 1+r.Int64N(100_000), uintptr(pageSize)
	if r.IntN(10) == 0 {
		n, align = pinned.HugePage*(1+r.Int64N(2)), pinned.HugePage
	}
	b := expect.Must(a.Take(n))(t)
	expect.Ensure(t, int64(len(b)) >= n && uintptr(unsafe.Pointer(&b[0]))%align == 0, "%d bytes for %d, at %p", len(b),
		n, &b[0])
	b[0], b[len(b)/2], b[len(b)-1] = mark, mark, mark
	return piece{b, mark}
}

// give gives a piece back that nothing has written to.
func (p piece) give(t *testing.T, a *arena) {
	t.Helper()
	for _, i := range []int{0, len(p.b) / 2, len(p.b) - 1} {
		if p.b[i] != p.mark {
			t.Fatal("a piece was overwritten")
		}
	}
	expect.OK(t, a.Give(p.b))
}

func TestPiecesOfAnArenaDoNotOverlapAndComeBack(t *testing.T) {
	a := newArena(wire.ReadWrite, nil)
	a.least, a.room = 4096, func() int64 { return 0 }
	defer func() {
		expect.OK(t, a.close())
	}()
	r := rand.New(rand.NewPCG(5, 0))
	var held []piece
	for i := range 2000 {
		if len(held) == 0 || r.IntN(2) > 0 {
			held = append(held, takePiece(t, a, r, byte(i)))
			continue
		}
		k := r.IntN(len(held))
		held[k].give(t, a)
		held[k] = held[len(held)-1]
		held = held[:len(held)-1]
	}
	for _, p := range held {
		p.give(t, a)
	}
	for i, list := range a.free {
		if len(list) != 1 || list[0] != (extent{0, int64(len(a.all()[i].Data))}) {
			t.Errorf("segment %d is not whole again: %v", i, list)
		}
	}
	expect.That(t, a.Give(make([]byte, 10)) != nil, "memory of somebody else's was taken")
}

// A ring takes what the machine has room for, and not a byte more.
func TestASegmentIsNoLargerThanTheMachinesRoom(t *testing.T) {
	const n = 8 << 20
	for room, fits := range map[int64]bool{0: true, n: true, n - 1: false, n / 2: false, n + 1: true} {
		a := newArena(wire.ReadWrite, nil)
		a.least, a.room = 4096, func() int64 { return room }
		_, err := a.Take(n)
		expect.That(t, errors.Is(err, shm.ErrNoRoom) != fits, "%d bytes where there is room for %d: %v", n, room, err)
		expect.OK(t, a.close())
	}
}

// A segment is as large as all before it together, so that there are few, but not by more than a GiB larger than what
// it is made for. Pages that nobody touches take no memory.
func TestSegmentsGrowWithAnArenaUpToAGiBMoreThanNeeded(t *testing.T) {
	for _, c := range []struct{ first, want int64 }{{8 << 20, 8 << 20}, {1 << 30, 1 << 30},
		{1<<30 + 4<<20, 1<<30 + 2<<20}, {3 << 30, 1<<30 + 2<<20}} {
		a := newArena(wire.ReadWrite, nil)
		a.least, a.room = 4096, func() int64 { return 0 }
		for _, n := range []int64{c.first, 4096} {
			expect.Must(a.Take(n))(t)
		}
		if got := int64(len(a.all()[1].Data)); len(a.all()) != 2 || got != c.want {
			t.Errorf("after a segment of %d bytes one of %d, not %d", c.first, got, c.want)
		}
		expect.OK(t, a.close())
	}
}
