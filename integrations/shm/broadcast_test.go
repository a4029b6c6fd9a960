//go:build linux

package shm

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// together runs f for n consumers at a time.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f(i)
		}()
	}
	wg.Wait()
}

func TestSixtyFourConsumersReadOneRing(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Readers: 64})
	want := want(t, g, usual(), 0)
	consumers := make([]*Consumer, 64)
	for i := range consumers {
		consumers[i] = connect(t, s, ConsumerOptions{})
	}
	if _, err := Dial(t.Context(), s.path, ConsumerOptions{}); code(err) != CodeFull ||
		!strings.Contains(err.Error(), "--max-consumers") {
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
	consumers := make([]*Consumer, 64)
	for i := range consumers {
		consumers[i] = connect(t, s, ConsumerOptions{})
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
	if len(seen) != 64 {
		t.Errorf("%d of 64 batches came", len(seen))
	}
	for n, times := range seen {
		if times != 1 {
			t.Errorf("batch %d came %d times", n, times)
		}
	}
}

func TestABroadcastRingCannotBeWritten(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{Readers: 1})
	c := connect(t, s, ConsumerOptions{})
	if !c.Info().Broadcast {
		t.Error("it is not called a broadcast")
	}
	fd := s.ranks[0].arena.all()[0].fd
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
		t.Errorf("mapped for writing: %v", err)
	}
	if err := unix.Ftruncate(fd, 1); !errors.Is(err, unix.EPERM) {
		t.Errorf("cut short: %v", err)
	}
}

func TestReadersThatAskForDifferentPlacesAreTold(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Readers: 2})
	a, b := connect(t, s, ConsumerOptions{}), connect(t, s, ConsumerOptions{})
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
	if err := last(b.Epoch(t.Context(), 0)); code(err) != CodeReaders {
		t.Errorf("%v, want an error for different places", err)
	}
	if l := lines(t, b.Epoch(t.Context(), 1)); !slices.Equal(l, want(t, g, usual(), 1)) || !slices.Equal(<-got, l) {
		t.Errorf("afterwards got %q", l)
	}
}

func TestWhenAReaderLeavesTheOthersGoOn(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Readers: 3})
	want := want(t, g, usual(), 0)
	var consumers []*Consumer
	for range 3 {
		consumers = append(consumers, connect(t, s, ConsumerOptions{}))
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
		if n := []int{16, 3, 5}[i]; !slices.Equal(got, want[:n]) {
			t.Errorf("consumer %d got %q", i, got)
		}
	})
	until(t, func() bool { return s.Stats()[0].Loader.SlotsHeld == 0 }) // what the others left is free again
}

func TestAReaderThatLeavesIsToldAtOnce(t *testing.T) {
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Readers: 2, Hold: 2})
	a, b := connect(t, s, ConsumerOptions{}), raw(t, s)
	for _, m := range [][]byte{good.bytes(), begin{run: 1}.bytes()} {
		if err := b.send(m, -1, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	together(2, func(i int) {
		if i == 0 {
			if got := lines(t, a.Epoch(t.Context(), 0)); !slices.Equal(got, want(t, g, usual(), 0)) {
				t.Errorf("got %q", got)
			}
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
		if err := b.send(words{1, 0}.bytes(kindStop), -1, time.Second); err != nil {
			t.Error(err)
		}
		var slots []uint32
		for k := kindHello; k != kindEnd; {
			m, err := answer(t, b)
			if err != nil {
				t.Error(err)
				return
			}
			if k = kind(le.Uint16(m)); k == kindBatch {
				slots = append(slots, le.Uint32(m[12:]))
			}
		}
		if err := b.send(nextNote{slots: slots}.append(nil), -1, time.Second); err != nil {
			t.Error(err)
		}
	})
}

// until waits for something that happens in its own time.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen within %v", patience)
		}
	}
}

func TestRunningOutOfSlotsNamesTheSlowReader(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{Readers: 2, Hold: 2})
	slow, fast := connect(t, s, ConsumerOptions{}), connect(t, s, ConsumerOptions{})
	done := make(chan struct{})
	go func() {
		for b, err := range slow.Epoch(t.Context(), 0) {
			if err != nil {
				t.Error(err)
			} else {
				b.Keep()
				<-done
				b.Release()
			}
			return
		}
	}()
	n := 0
	var last error
	for _, err := range fast.Epoch(t.Context(), 0) {
		if n++; n == 2 { // both have been sent two
			fast.opt.Timeout = time.Second
		}
		last = err
	}
	if !errors.Is(last, ErrTimeout) || !strings.Contains(last.Error(), `"consumer"`) ||
		!strings.Contains(last.Error(), "holds 2") {
		t.Errorf("%v, want who holds the slots", last)
	}
	close(done)
}
