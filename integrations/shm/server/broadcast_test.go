//go:build linux

package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
)

// together runs f for n consumers at a time.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			f(i)
		})
	}
	wg.Wait()
}

func TestSixtyFourConsumersReadOneRing(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Readers: 64})
	want := want(t, g, usual(), 0)
	consumers := make([]*consumer.Consumer, 64)
	for i := range consumers {
		consumers[i] = connect(t, s, consumer.Options{})
	}
	if _, err := consumer.Dial(t.Context(), s.path, consumer.Options{}); code(err) != wire.CodeFull ||
		!strings.Contains(err.Error(), "max-consumers") {
		t.Errorf("the sixty-fifth: %v", err)
	}
	got := make([][]string, 64)
	together(64, func(i int) {
		for b, err := range consumers[i].Epoch(t.Context(), 0) {
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = append(got[i], lineOf(b))
		}
	})
	for i := range got {
		if !slices.Equal(got[i], want) {
			t.Errorf("consumer %d got %q", i, got[i])
		}
	}
}

func TestSixtyFourRanksShareAnEpoch(t *testing.T) {
	s := serve(t, plainGraph(t, 2048), Options{WorldSize: 64})
	seen := map[uint64]int{}
	var mu sync.Mutex
	consumers := make([]*consumer.Consumer, 64)
	for i := range consumers {
		consumers[i] = connect(t, s, consumer.Options{})
	}
	together(64, func(i int) {
		c := consumers[i]
		for b, err := range c.Epoch(t.Context(), 0) {
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			seen[b.Number]++
			mu.Unlock()
		}
	})
	expect.That(t, len(seen) == 64, "%d of 64 batches came", len(seen))
	for n, times := range seen {
		expect.That(t, times == 1, "batch %d came %d times", n, times)
	}
}

func TestABroadcastRingCannotBeWritten(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{Readers: 1})
	c := connect(t, s, consumer.Options{})
	expect.That(t, c.Info().Broadcast, "it is not called a broadcast")
	fd := s.ranks[0].arena.all()[0].FD
	expect.Is(t, expect.Err(unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)), unix.EPERM,
		"mapped for writing")
	expect.Is(t, unix.Ftruncate(fd, 1), unix.EPERM, "cut short")
}

func TestReadersThatAskForDifferentPlacesAreTold(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Readers: 2})
	a, b := connect(t, s, consumer.Options{}), connect(t, s, consumer.Options{})
	got := make(chan []string)
	go func() {
		var list []string
		for b, err := range a.Epoch(t.Context(), 1) {
			if err != nil {
				t.Error(err)
				break
			}
			list = append(list, lineOf(b))
		}
		got <- list
	}()
	until(t, func() bool {
		r := s.ranks[0]
		r.mu.Lock()
		defer r.mu.Unlock()
		for p := range r.peers {
			if p.asked != nil {
				return true
			}
		}
		return false
	})
	err := last(b.Epoch(t.Context(), 0))
	expect.That(t, code(err) == wire.CodeReaders, "%v, want an error for different places", err)
	l := lines(t, b.Epoch(t.Context(), 1))
	expect.That(t, slices.Equal(l, want(t, g, usual(), 1)) && slices.Equal(<-got, l), "afterwards got %q", l)
}

func TestWhenAReaderLeavesTheOthersGoOn(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Readers: 3})
	want := want(t, g, usual(), 0)
	var consumers []*consumer.Consumer
	for range 3 {
		consumers = append(consumers, connect(t, s, consumer.Options{}))
	}
	together(3, func(i int) {
		var got []string
		for b, err := range consumers[i].Epoch(t.Context(), 0) {
			if err != nil {
				t.Errorf("consumer %d: %v", i, err)
				break
			}
			if got = append(got, lineOf(b)); i == 1 && len(got) == 3 {
				break // it leaves the run
			}
			if i == 2 && len(got) == 5 {
				consumers[i].Close() // it leaves altogether
				break
			}
		}
		expect.That(t, slices.Equal(got, want[:[]int{16, 3, 5}[i]]), "consumer %d got %q", i, got)
	})
	until(t, func() bool { return s.Stats()[0].Loader.SlotsHeld == 0 }) // what the others left is free again
}

func TestAReaderThatLeavesIsToldAtOnce(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Readers: 2, Hold: 2})
	a, b := connect(t, s, consumer.Options{}), raw(t, s)
	for _, m := range [][]byte{hello(good), start(wire.Begin{Run: 1})} {
		expect.OK(t, b.Send(m, -1, time.Second))
	}
	together(2, func(i int) {
		if i == 0 {
			got := lines(t, a.Epoch(t.Context(), 0))
			expect.That(t, slices.Equal(got, want(t, g, usual(), 0)), "got %q", got)
			return
		}
		until(t, func() bool { // everybody waits for this reader, which holds all slots
			r := s.ranks[0]
			r.mu.Lock()
			defer r.mu.Unlock()
			idle := false
			for p := range r.peers {
				idle = idle || len(p.held) == 0 && p.done == 2
			}
			return idle && r.current.awaits != nil && !r.current.awaits()
		})
		expect.OK(t, b.Send(pair(wire.KindStop, 1, 0), -1, time.Second))
		var slots []uint32
		for k := wire.KindHello; k != wire.KindEnd; {
			m, err := answer(t, b)
			if err != nil {
				t.Error(err)
				return
			}
			if k = kindOf(m); k == wire.KindBatch {
				a, _, _ := wire.Parse[wire.Batch](m)
				slots = append(slots, a.Slot)
			}
		}
		expect.OK(t, b.Send(wire.AppendNext(nil, 0, 0, slots), -1, time.Second))
	})
}

// until waits for something that happens in its own time.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); <-time.After(time.Millisecond) {
		expect.Ensure(t, !time.Now().After(end), "it did not happen within %v", patience)
	}
}

func TestStatisticsNameTheSlowReader(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{Readers: 2, Hold: 2})
	slow, fast := connect(t, s, consumer.Options{}), connect(t, s, consumer.Options{})
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for _, err := range slow.Epoch(t.Context(), 0) {
			if err != nil {
				t.Error(err)
			}
			<-done
			return
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // the third batch does not come before the slow one goes on
		until(t, func() bool {
			st := s.Stats()[0]
			return st.Waiting == "consumer" && len(st.Consumers) == 2 && st.Consumers[0].Held+st.Consumers[1].Held == 2
		})
		cancel()
	}()
	n := 0
	for _, err := range fast.Epoch(ctx, 0) {
		if err != nil {
			expect.That(t, errors.Is(err, context.Canceled), "%v", err)
			break
		}
		n++
	}
	expect.That(t, n == 2, "%d batches, where the slow reader holds two", n)
	close(done)
	<-ended
}

// A broadcast ring stands where its slowest reader does: nobody who goes on misses a batch.
func TestABroadcastStandsWhereItsSlowestReaderDoes(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{Readers: 3, Hold: 8})
	readers := []*wire.Socket{raw(t, s), raw(t, s), raw(t, s)}
	for _, k := range readers {
		send(t, k, hello(good), start(wire.Begin{Run: 1}))
	}
	for _, k := range readers {
		for range 5 {
			next(t, k, wire.KindBatch)
		}
	}
	stands := func() uint64 { return s.Stats()[0].Next }
	total := uint64(0)
	for _, c := range []struct {
		reader     int
		done, want uint64 // of this reader, and where the ring stands then
	}{{0, 5, 0}, {1, 2, 0}, {2, 3, 2}, {1, 4, 3}, {2, 5, 4}, {1, 5, 5}} {
		before := s.ranks[0].acknowledged()
		send(t, readers[c.reader], wire.AppendNext(nil, 1, c.done, nil))
		until(t, func() bool { return s.ranks[0].acknowledged() > before })
		if got := stands(); got != c.want {
			t.Errorf("reader %d has done %d batches and the ring stands at %d, want %d", c.reader, c.done, got, c.want)
		}
		total = s.ranks[0].acknowledged()
	}
	expect.That(t, total == 15, "%d batches were acknowledged", total)
}
