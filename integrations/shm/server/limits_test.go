//go:build linux

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// The greatest numbers are taken, and those above them are not.
func TestOptionsAreTakenUpToTheirLimits(t *testing.T) {
	for name, taken := range map[string]func(more int) *Options{
		"WorldSize":    func(more int) *Options { return &Options{WorldSize: 65536 + more} },
		"Hold":         func(more int) *Options { return &Options{Hold: 4096 + more} },
		"no Hold":      func(more int) *Options { return &Options{Hold: -more} },
		"MaxConsumers": func(more int) *Options { return &Options{MaxConsumers: 1 - 2*more} },
		"Readers":      func(more int) *Options { return &Options{MaxConsumers: 3, Readers: 3 + more} },
		"one rank":     func(more int) *Options { return &Options{Readers: 2, WorldSize: 1 + more} },
	} {
		for more := range 2 {
			o := taken(more)
			o.Path, o.Loader = "x", usual()
			if err := o.ensureDefaults().validate(); errors.Is(err, shm.ErrOptions) != (more > 0) {
				t.Errorf("%s, %d more than there may be: %v", name, more, err)
			}
		}
	}
	o := Options{Path: "x", Loader: usual(), WorldSize: 65537}
	err := o.ensureDefaults().validate()
	expect.That(t, strings.Contains(err.Error(), "is 65537: must be at most 65536"), "%v", err)
}

func TestNamesOfArraysAreTakenUpToTheirLimit(t *testing.T) {
	for more := range 2 {
		a := layout.Array{Name: strings.Repeat("x", wire.MaxName+more), Kind: layout.Nodes, DType: unified.Int32}
		_, err := newForm([]layout.Array{a}, way{unified.Int32, pinned.Host}, false)
		expect.That(t, errors.Is(err, shm.ErrOptions) == (more > 0), "%d bytes more than there may be: %v", more, err)
	}
}

// A ring doubles: its segments are few, and it takes no more addresses than twice what is needed.
func TestARingDoubles(t *testing.T) {
	a := newArena(wire.ReadWrite, nil)
	a.least, a.room = 4096, func() int64 { return 0 }
	defer func() {
		expect.OK(t, a.close())
	}()
	for n := range 16 {
		expect.Must(a.Take(pinned.HugePage))(t)
		want := int64(pinned.HugePage) // 1, 2, 4, 8, 16 pages for 1, 2, 3 to 4, 5 to 8, 9 to 16
		for ; want < int64(n+1)*pinned.HugePage; want *= 2 {
		}
		got := a.size(nil)
		expect.That(t, got == want, "%d pieces: %d bytes, want %d", n+1, got, want)
	}
	n := len(a.all())
	expect.That(t, n == 5, "%d segments", n)
}

// WELCOME describes the dataset, the sampler and the epoch.
func TestWELCOMESaysWhatIsServed(t *testing.T) {
	g, opt := plainGraph(t, 500), usual()
	s := serve(t, g, Options{Loader: opt, WorldSize: 2, Epochs: 3, Version: "1.2"})
	c := connect(t, s, consumer.Options{})
	var d describe
	expect.OK(t, json.Unmarshal(c.Info().Server, &d))
	id := g.ID()
	want := describe{Version: "1.2", PID: d.PID, Dataset: fmt.Sprintf("%x", id), DatasetID: fmt.Sprintf("%x", id),
		Sampler: opt.Sampler.Fingerprint(), Layers: 2, Frontier: "all", Seeds: opt.Seeds.String(), NumSeeds: 500,
		BatchSize: 32, Shuffle: true, Remainder: s.Options().Loader.Remainder.String(), Batches: 16, Epochs: 3,
		Device: "cpu", Why: "it was asked for", State: stateAt(s, 0, 0)}
	expect.That(t, reflect.DeepEqual(d, want) && d.PID != 0, "got %+v\nwant %+v", d, want)
	r := s.ranks[0]
	i := c.Info()
	expect.That(t, i.Batches == 8 && i.WorldSize == 2 && i.Hold == r.hold && i.Slots == len(r.slots), "%+v", i)
}

// An answer names its question.
func TestTELLAnswersItsASK(t *testing.T) {
	s := serve(t, plainGraph(t, 100), Options{})
	k := raw(t, s)
	send(t, k, hello(good))
	for id, what := range map[uint32]uint32{7: wire.AskState, 8: wire.AskStatistics} {
		send(t, k, pair(wire.KindAsk, what, id))
		m, text, err := wire.Parse[wire.Text](next(t, k, wire.KindTell))
		if err != nil || m.First != what || m.Second != id || strings.Contains(string(text), "seed") !=
			(what == wire.AskState) {
			t.Errorf("ASK (%d, %d): %+v %s, %v", what, id, m, text, err)
		}
	}
}

// letSilence has servers of this test wait for HELLO so long.
func letSilence(t *testing.T, d time.Duration) {
	was := helloTimeout
	t.Cleanup(func() { helloTimeout = was }) // after the servers' end
	helloTimeout = d
}

// Connections that have ended are forgotten: they do not turn out one that is there and says nothing yet.
func TestConnectionsThatHaveEndedAreForgotten(t *testing.T) {
	letSilence(t, patience)
	s := serve(t, plainGraph(t, 100), Options{})
	k := raw(t, s)
	meets := func(n int) func() bool {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.peers) == n
		}
	}
	until(t, meets(1))
	for range mostStrangers + 1 {
		other := raw(t, s)
		until(t, meets(2))
		expect.OK(t, other.Close())
		until(t, meets(1))
	}
	send(t, k, hello(good))
	next(t, k, wire.KindWelcome)
}

// Consumers who have said HELLO are not turned out by connections that say nothing.
func TestConsumersAreNotTurnedOut(t *testing.T) {
	letSilence(t, patience)
	s := serve(t, plainGraph(t, 500), Options{})
	c := connect(t, s, consumer.Options{})
	for range mostStrangers + 1 {
		raw(t, s)
	}
	until(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.peers) > mostStrangers
	})
	n := len(lines(t, c.Epoch(t.Context(), 0)))
	expect.That(t, n == 16, "%d batches", n)
}

// What the log hears has a name for each value.
func TestTheLogNamesWhatItSays(t *testing.T) {
	log := &logged{}
	opt := usual()
	opt.Sampler = failing{usual().Sampler.(sampling.Neighbor), 1}
	s := serve(t, plainGraph(t, 100), Options{Loader: opt, Logger: slog.New(slog.NewTextHandler(log, nil))})
	c := connect(t, s, consumer.Options{})
	err := last(c.Epoch(t.Context(), 3))
	expect.That(t, code(err) == wire.CodeLoad, "%v", err)
	refused(t, raw(t, s), make([]byte, 64), wire.CodeMessage)
	expect.OK(t, c.Close())
	s.end()
	<-s.err
	text := log.String()
	for _, want := range []string{`msg="a consumer is there" rank=0 pid=`, `msg="a run failed" rank=0 epoch=3 error=`,
		`msg="a consumer was refused" pid=`, `code="bad message" error=`, `msg="a consumer has gone" rank=0 pid=`} {
		expect.That(t, strings.Contains(text, want), "no %s in the log:\n%s", want, text)
	}
}

// Of many warnings a minute ten are logged; the number of the others is logged once.
func TestWarningsThatWereNotLoggedAreCounted(t *testing.T) {
	log := &logged{}
	to := slog.New(slog.NewTextHandler(log, nil))
	var s sparing
	for range 25 {
		s.warn(to, "one")
	}
	s.rest(to, "rest")
	s.since = time.Now().Add(-2 * time.Minute) // the next minute
	for range 2 {
		s.warn(to, "next")
	}
	text := log.String()
	if strings.Count(text, "msg=one") != 10 || !strings.Contains(text, "msg=rest unsaid=15") ||
		!strings.Contains(text, "msg=next unsaid=15\n") || strings.Count(text, "unsaid") != 2 {
		t.Errorf("the log:\n%s", text)
	}
}

// Who stops watching a process waits for what its end had begun.
func TestWhoStopsWatchingWaits(t *testing.T) {
	cmd := exec.Command("cat")
	in := expect.Must(cmd.StdinPipe())(t)
	expect.OK(t, cmd.Start())
	began, release := make(chan struct{}), make(chan struct{})
	var over atomic.Bool
	stop := WatchProcess(cmd.Process.Pid, func() {
		close(began)
		<-release
		over.Store(true)
	})
	expect.OK(t, in.Close())
	<-began
	time.AfterFunc(10*time.Millisecond, func() { close(release) })
	stop()
	expect.That(t, over.Load(), "it did not wait")
	<-release
	expect.OK(t, cmd.Wait())
}

// The workers are shared out among the ranks.
func TestRanksShareTheWorkers(t *testing.T) {
	opt := usual()
	opt.Workers = 5
	for world, want := range map[int]int{1: 5, 2: 2, 8: 1} {
		s := serve(t, plainGraph(t, 500), Options{Loader: opt, WorldSize: world})
		for _, r := range s.ranks {
			got := r.loader.Answer().Workers
			expect.That(t, got == want, "%d ranks: %d workers, want %d", world, got, want)
		}
	}
}

// Time runs for a reader where a ring has several and a limit.
func TestAReadersTimeRunsWhereThereIsALimit(t *testing.T) {
	for _, c := range []struct {
		readers int
		limit   time.Duration
		want    bool
	}{{2, time.Hour, true}, {1, time.Hour, false}, {2, -1, false}} {
		silent, asking := &peer{}, &peer{asked: &request{}}
		r := &rank{server: &Server{opt: Options{Readers: c.readers, ReaderTimeout: c.limit}},
			peers: map[*peer]struct{}{silent: {}, asking: {}}}
		r.judge()
		if got := silent.late != nil; got != c.want || asking.late != nil {
			t.Errorf("%d readers, limit %v: its time runs: %t", c.readers, c.limit, got)
		}
		silent.forgive()
	}
}
