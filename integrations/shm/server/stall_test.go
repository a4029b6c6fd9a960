//go:build linux

package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
)

// send sends messages as a consumer.
func send(t *testing.T, k *wire.Socket, messages ...[]byte) {
	t.Helper()
	for _, m := range messages {
		expect.OK(t, k.Send(m, -1, patience))
	}
}

// next returns the next message of a kind; others are passed over.
func next(t *testing.T, k *wire.Socket, want wire.Kind) []byte {
	t.Helper()
	for {
		b, err := answer(t, k)
		expect.Ensure(t, err == nil, "no %v: %v", want, err)
		if kindOf(b) == want {
			return b
		}
	}
}

// stalled wants the connection to end with ERROR stalled.
func stalled(t *testing.T, k *wire.Socket) {
	t.Helper()
	m, text, err := wire.Parse[wire.Text](next(t, k, wire.KindError))
	if err != nil || m.First != 0 || shm.Code(m.Second) != wire.CodeStalled ||
		!strings.Contains(string(text), "reader-timeout") {
		t.Errorf("ERROR %+v (%s), %v; want stalled", m, text, err)
	}
}

// A reader that stops at any point keeps the others waiting for as long as the option says, and gets an error.
func TestTheOthersGoOnWithoutAReaderThatStops(t *testing.T) {
	g := plainGraph(t, 500)
	all, begin := want(t, g, usual(), 0), [][]byte{start(wire.Begin{Run: 1})}
	for name, c := range map[string]struct {
		messages [][]byte // after HELLO
		batches  int      // that it takes before it stops
	}{
		"before it asks":       {nil, 0},
		"at the first batches": {begin, 0},
		"in the middle":        {begin, 7},
		"before the last":      {begin, 15},
		"and asks on": {append(begin, slices.Repeat([][]byte{pair(wire.KindAsk, wire.AskState, 1)},
			100)...), 0},
		"and says nothing new": {append(begin, slices.Repeat([][]byte{wire.AppendNext(nil, 1, 0, nil)}, 500)...), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, g, Options{Readers: 2, Hold: 3, ReaderTimeout: time.Hour})
			frozen := raw(t, s)
			send(t, frozen, hello(good))
			next(t, frozen, wire.KindWelcome)
			waits := s.waitsForTheOne()
			fit := connect(t, s, consumer.Options{})
			taken := make(chan bool)
			go func() {
				defer close(taken)
				send(t, frozen, c.messages...)
				for n := range c.batches {
					m, _, err := wire.Parse[wire.Batch](next(t, frozen, wire.KindBatch))
					if err != nil {
						t.Error(err)
					}
					send(t, frozen, wire.AppendNext(nil, 1, uint64(n)+1, []uint32{m.Slot}))
				}
				until(t, waits)
				s.allow(time.Millisecond) // not before: a busy machine may keep the other reader waiting as long
			}()
			for range 2 { // the second run does not wait for it
				got := lines(t, fit.Epoch(t.Context(), 0))
				expect.That(t, slices.Equal(got, all), "the other reader got %q", got)
			}
			<-taken
			stalled(t, frozen)
			s.allow(time.Hour)
			// Who comes back is waited for.
			again := connect(t, s, consumer.Options{})
			together(2, func(i int) {
				got := lines(t, []*consumer.Consumer{fit, again}[i].Epoch(t.Context(), 0))
				expect.That(t, slices.Equal(got, all), "when it was back reader %d got %q", i, got)
			})
		})
	}
}

// isRunning says whether a run has begun.
func (s *serving) isRunning() bool {
	r := s.ranks[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current != nil
}

// waitsForTheOne returns a function that says whether the clock of the only reader that is there now runs.
func (s *serving) waitsForTheOne() func() bool {
	r := s.ranks[0]
	var one *peer
	r.mu.Lock()
	defer r.mu.Unlock()
	for one = range r.peers {
	}
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return one.late != nil
	}
}

// allow gives readers so much time from now on.
func (s *serving) allow(limit time.Duration) {
	r := s.ranks[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	s.opt.ReaderTimeout = limit
	for p := range r.peers {
		p.forgive()
	}
	r.judge()
}

// clocks returns which readers' clocks run, in the order of their runs' numbers.
func clocks(s *serving) (list []*clock) {
	r := s.ranks[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.peers {
		for len(list) <= int(p.lastRun) {
			list = append(list, nil)
		}
		list[p.lastRun] = p.late
	}
	return list
}

// A reader's time runs only while another waits for it, and begins anew when it does anything.
func TestAReadersTimeRunsWhileOthersWaitForIt(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{Readers: 2, Hold: 2, ReaderTimeout: time.Hour})
	slow, fast := raw(t, s), raw(t, s)
	slots := map[*wire.Socket][]uint32{}
	take := func(k *wire.Socket, n int) {
		for range n {
			m, _ := expect.Must2(wire.Parse[wire.Batch](next(t, k, wire.KindBatch)))(t)
			slots[k] = append(slots[k], m.Slot)
		}
	}
	give := func(k *wire.Socket, run uint32, done uint64, n int) {
		send(t, k, wire.AppendNext(nil, run, done, slots[k][:n]))
		slots[k] = slots[k][n:]
	}
	running := func(slow, fast bool) func() bool {
		return func() bool {
			c := clocks(s)
			return len(c) == 3 && (c[1] != nil) == slow && (c[2] != nil) == fast
		}
	}
	send(t, slow, hello(good))
	send(t, fast, hello(good), start(wire.Begin{Run: 2}))
	until(t, func() bool { c := clocks(s); return len(c) == 3 && c[0] != nil && c[2] == nil }) // slow has not asked
	send(t, slow, start(wire.Begin{Run: 1}))
	take(slow, 2)
	take(fast, 2)
	until(t, running(false, false)) // both have all they may hold: nobody waits for the other
	give(fast, 2, 1, 1)
	until(t, func() bool { return s.ranks[0].acknowledged() == 1 })
	expect.That(t, running(false, false)(), "fast has a batch left, and slow's time runs")
	give(fast, 2, 2, 1)
	until(t, running(true, false))
	before := clocks(s)[1]
	give(slow, 1, 1, 1)
	take(fast, 1)
	give(fast, 2, 3, 1)
	until(t, func() bool { c := clocks(s)[1]; return c != nil && c != before })
	send(t, slow, pair(wire.KindStop, 1, 0)) // the run goes on without it
	until(t, running(false, false))
}

// acknowledged returns how many batches consumers have acknowledged.
func (r *rank) acknowledged() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// What a consumer does not read waits for it, and nobody waits for the consumer.
func TestAnnouncementsWaitForWhoReadsLate(t *testing.T) {
	opt := usual()
	opt.BatchSize = 1
	s := serve(t, plainGraph(t, 1500), Options{Loader: opt, WorldSize: 2, Hold: 1000})
	k := raw(t, s)
	h := good
	h.Rank = 0
	send(t, k, hello(h), start(wire.Begin{Run: 1}))
	until(t, func() bool { return s.Stats()[0].Sent == 750 }) // more than a socket has room for
	lines(t, connect(t, s, consumer.Options{}).Epoch(t.Context(), 0))
	for n := range uint64(750) {
		m, _, err := wire.Parse[wire.Batch](next(t, k, wire.KindBatch))
		expect.Ensure(t, err == nil && m.Sequence == n, "%+v, %v, want batch %d of the run", m, err, n)
	}
	send(t, k, wire.AppendNext(nil, 1, 750, nil))
	next(t, k, wire.KindEnd)
}

// A consumer that asks on and on and never reads is not answered, and is let go of with the server.
func TestWhoReadsNothingIsNotAnswered(t *testing.T) {
	s := serve(t, plainGraph(t, 500), Options{WorldSize: 2})
	k := raw(t, s)
	send(t, k, hello(good))
	full := 0
	for full < 100_000 && k.Send(pair(wire.KindAsk, wire.AskState, 1), -1, 0) == nil {
		full++
	}
	expect.That(t, full != 100_000, "the server read all questions")
	got := len(lines(t, connect(t, s, consumer.Options{}).Epoch(t.Context(), 0)))
	expect.That(t, got == 8, "%d batches", got)
	begin := time.Now()
	s.end()
	<-s.err
	d := time.Since(begin)
	expect.That(t, d <= patience/2, "the end took %v", d)
}

// A consumer that floods the server is let go of; nobody waits for it.
func TestWhoFloodsTheServerIsRefused(t *testing.T) {
	defer func(was time.Duration) { idleEvery = was }(idleEvery)
	idleEvery = 10 * time.Millisecond // any machine sends more
	g := plainGraph(t, 500)
	for name, m := range map[string][]byte{
		"NEXT": wire.AppendNext(nil, 1, 0, nil), "NEXT of no run": wire.AppendNext(nil, 0, 0, nil),
		"ASK": pair(wire.KindAsk, wire.AskState, 1), "STOP": pair(wire.KindStop, 9, 0),
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, g, Options{Readers: 2, ReaderTimeout: -1})
			k, fit := raw(t, s), connect(t, s, consumer.Options{})
			send(t, k, hello(good), start(wire.Begin{Run: 1}))
			go func() {
				until(t, s.isRunning) // else the other reader would wait for one that is gone
				for k.Send(m, -1, patience) == nil {
				}
			}()
			refusals := make(chan error)
			go func() {
				for {
					b, err := answer(t, k)
					if err != nil || kindOf(b) == wire.KindError {
						m, text, _ := wire.Parse[wire.Text](b)
						if shm.Code(m.Second) != wire.CodeMessage || !strings.Contains(string(text), "change nothing") {
							t.Errorf("%v, ERROR %+v (%s)", err, m, text)
						}
						refusals <- err
						return
					}
				}
			}()
			got := lines(t, fit.Epoch(t.Context(), 0))
			expect.That(t, slices.Equal(got, want(t, g, usual(), 0)), "the other reader got %q", got)
			<-refusals
		})
	}
}

// Runs of next to no batches are not taken for a flood, however fast they come.
func TestShortRunsAreNoFlood(t *testing.T) {
	var idle allowance
	for range 1_000_000 {
		if !idle.take(3) { // BEGIN, NEXT, STOP
			t.Fatal("a short run is too much")
		}
		idle.earn() // NEXT
	}
}
