//go:build linux

package shm

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/pinned"
)

func TestPiecesOfAnArenaDoNotOverlapAndComeBack(t *testing.T) {
	a := newArena(readWrite)
	a.least, a.room = 4096, func() int64 { return 0 }
	defer func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}()
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	type piece struct {
		b    []byte
		mark byte
	}
	var held []piece
	check := func(p piece) {
		for _, i := range []int{0, len(p.b) / 2, len(p.b) - 1} {
			if p.b[i] != p.mark {
				t.Fatalf("seed %d: a piece was overwritten", seed)
			}
		}
	}
	for i := range 2000 {
		if len(held) > 0 && r.IntN(2) == 0 {
			k := r.IntN(len(held))
			check(held[k])
			if err := a.Give(held[k].b); err != nil {
				t.Fatal(err)
			}
			held[k] = held[len(held)-1]
			held = held[:len(held)-1]
			continue
		}
		n := 1 + r.Int64N(100_000)
		if r.IntN(10) == 0 {
			n = pinned.HugePage * (1 + r.Int64N(2))
		}
		b, err := a.Take(n)
		if err != nil {
			t.Fatal(err)
		}
		align := uintptr(pageSize)
		if n%pinned.HugePage == 0 {
			align = pinned.HugePage
		}
		if int64(len(b)) < n || uintptr(unsafe.Pointer(&b[0]))%align != 0 {
			t.Fatalf("%d bytes for %d, at %p", len(b), n, &b[0])
		}
		p := piece{b, byte(i)}
		b[0], b[len(b)/2], b[len(b)-1] = p.mark, p.mark, p.mark
		held = append(held, p)
	}
	for _, p := range held {
		check(p)
		if err := a.Give(p.b); err != nil {
			t.Fatal(err)
		}
	}
	for i, list := range a.free {
		if len(list) != 1 || list[0] != (extent{0, int64(len(a.all()[i].data))}) {
			t.Errorf("segment %d is not whole again: %v", i, list)
		}
	}
	if err := a.Give(make([]byte, 10)); err == nil {
		t.Error("memory of somebody else's was taken")
	}
}

func TestOnlySealedMemoryOfTheRightSizeIsMapped(t *testing.T) {
	file := func(size int64, seals int) int {
		fd, err := unix.MemfdCreate("khop-test", unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	note := segmentNote{size: 8192}
	pipe := make([]int, 2)
	if err := unix.Pipe(pipe); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[1])
	for name, fd := range map[string]int{
		"no seals":     file(8192, 0),
		"may shrink":   file(8192, unix.F_SEAL_GROW|unix.F_SEAL_SEAL),
		"another size": file(4096, fixedSize),
		"a pipe":       pipe[0],
	} {
		if s, err := openSegment(fd, note); err == nil {
			t.Errorf("%s: mapped", name)
			s.close()
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("%s: the descriptor was left open", name)
		}
	}
	s, err := openSegment(file(8192, fixedSize), note)
	if err != nil || len(s.data) != 8192 {
		t.Fatal(err)
	}
	s.close()
}
