//go:build !race

package faults

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// same runs a subject under hooks and wants what it gives without.
func (b *bench) same(t *testing.T, h hooks, started func(pid int)) {
	t.Helper()
	b.reset(t)
	end := func() string { return "" }
	r := trace(t, b.dir, h, func(pid int) {
		if started != nil {
			started(pid)
		}
		if b.begin != nil {
			end = b.begin(b.dir, pid)
		}
	}, append([]string{khop}, b.args...)...)
	if digests := end(); b.begin != nil {
		r.stdout = strings.ReplaceAll("{"+digests, "\n", ",")
	}
	id, err := whole(b.data)
	expect.That(t, r.status == 0 && !r.timedOut && err == nil && id == b.newID && comparable(r.stdout) == b.output,
		"%+v; the dataset is %s, %v", r, id, err)
}

// Every call that may wait for a disk takes longer.
func TestASlowDiskChangesNothing(t *testing.T) {
	slow := time.Millisecond
	if share > 0 {
		slow = 20 * time.Millisecond
	}
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			b, calls := newBench(t, s), 0
			b.same(t, hooks{enter: func(c *call) (a action) {
				if ofInterest(c) && strings.HasPrefix(c.note.(string), filepath.Dir(b.dir)) {
					time.Sleep(slow)
					calls++
				}
				return a
			}}, nil)
			t.Log(calls, "slow calls")
		})
	}
}

// The clock of the wall jumps by years, back and forth, whenever it is read.
func TestAClockThatJumpsChangesNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			b, r, jumps := newBench(t, s), rand.New(rand.NewPCG(seed, 0)), 0
			b.same(t, hooks{exit: func(c *call) {
				if c.nr != unix.SYS_CLOCK_GETTIME || c.args[0] != unix.CLOCK_REALTIME || c.ret != 0 {
					return
				}
				const decade = 10 * 365 * 86400
				now := binary.LittleEndian.Uint64(c.memory(c.args[1], 8)) + uint64(r.Int64N(2*decade)-decade)
				if _, err := unix.PtracePokeData(c.pid, uintptr(c.args[1]), binary.LittleEndian.AppendUint64(nil,
					now)); err == nil {
					jumps++
				}
			}}, func(pid int) { withoutFastClock(t, pid) })
			t.Log(jumps, "jumps")
			expect.That(t, jumps != 0, "nobody asked for the time")
		})
	}
}

// withoutFastClock makes a program that is about to begin ask the kernel for the time: it takes the address of the
// kernel's own code for that (the vDSO) out of what the kernel passes to the program.
func withoutFastClock(t *testing.T, pid int) {
	t.Helper()
	const ignore, ehdr, end = 1, 33, 0
	var regs unix.PtraceRegs
	must(t, unix.PtraceGetRegs(pid, &regs))
	c := &call{pid: pid}
	at, zeros := regs.Rsp, 0
	word := func() uint64 {
		b := c.memory(at, 8)
		expect.Ensure(t, len(b) >= 8, "the stack of a new program ends early")
		at += 8
		return binary.LittleEndian.Uint64(b)
	}
	for word(); zeros < 2; { // the number of arguments, arguments, 0, environment, 0
		if word() == 0 {
			zeros++
		}
	}
	for {
		kind := word()
		if kind == ehdr {
			_, err := unix.PtracePokeData(pid, uintptr(at-8), binary.LittleEndian.AppendUint64(nil, ignore))
			must(t, err)
			return
		}
		if word(); kind == end {
			return
		}
	}
}
