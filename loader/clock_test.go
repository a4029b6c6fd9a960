package loader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
)

// alike is what statistics say of durations that are alike but for the longest.
func alike(count uint64, each, longest time.Duration) loader.Durations {
	sum := each*time.Duration(count-1) + longest
	d := loader.Durations{Count: count, Sum: sum, P50: each, P90: longest, P99: longest, Max: longest}
	for i := range d.Below {
		bound := time.Duration(1) << (13 + i)
		if each < bound {
			d.Below[i] = count - 1
		}
		if longest < bound {
			d.Below[i]++
		}
	}
	return d
}

// Statistics of time say what took how long: sampling, what stood ready, what the loop waited for, and its body.
func TestStatisticsOfTimeAreThoseOfAClock(t *testing.T) {
	g, log := graphs.Plain(t, 60, 4), &lines{}
	synctest.Test(t, func(t *testing.T) { // its clock goes on when all wait
		s := hooked{Neighbor: neighbor, before: func(context.Context, int64) error {
			time.Sleep(3 * time.Second)
			return nil
		}}
		l := open(t, g, loader.Options{Sampler: s, BatchSize: 10, Workers: 1,
			Tuning: loader.TuningOptions{Prefetch: 1}, Hooks: loader.Hooks{Logger: log.logger(),
				Made: func(*loader.Batch) error {
					time.Sleep(2 * time.Second)
					return nil
				}}})
		for range each(t, l.Epoch(background, 0)) {
			time.Sleep(10 * time.Second)
		}
		is := l.Stats()
		got := []loader.Durations{is.Sample, is.Body, is.Gather, is.Disk}
		const sec = time.Second
		want := []loader.Durations{alike(3, 3*sec, 3*sec), alike(3, 10*sec, 10*sec), alike(3, 0, 0), {}}
		expect.Same(t, got, want, "sampling, body, gathering, disk")
		// The first batch is waited for; each of the others is ready, but for Made, seven seconds before the body ends.
		w, r := is.Wait, is.Deliver
		expect.That(t, w == alike(3, 0, 5*sec) && r.Count == 3 && r.Sum == 14*sec && r.Max == 7*sec && r.P90 == 7*sec,
			"waited %+v, stood ready %+v", w, r)
		if text := log.String(); !strings.HasSuffix(text, `msg="epoch ended" epoch=0 first=0 duration=35s`+"\n") {
			t.Errorf("the log says %s", text)
		}
	})
}

// A loop that holds every slot waits for as long as it is set to, and a release meanwhile lets it continue.
func TestAHeldLoopWaitsForAsLongAsItIsTold(t *testing.T) {
	g := graphs.Plain(t, 60, 4)
	for _, held := range []time.Duration{6 * time.Second, 8 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			l := open(t, g, loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1,
				Tuning: loader.TuningOptions{Prefetch: 1, SlotTimeout: 7 * time.Second}})
			var kept []*loader.Batch
			var begin time.Time
			var last error
			n := 0
			for b, err := range l.Epoch(background, 0) {
				if last = err; err != nil {
					continue
				}
				if n++; n <= 2 {
					kept = append(kept, b.Keep())
				}
				if begin = time.Now(); n == 2 {
					time.AfterFunc(held, kept[0].Release)
				}
			}
			took := time.Since(begin)
			if late := held > 7*time.Second; errors.Is(last, loader.ErrSlotsHeld) != late || late && (n != 2 ||
				took != 7*time.Second) || !late && (n != 3 || last != nil || l.Stats().Wait.Max != held) {
				t.Errorf("held for %v: %d batches, then %v after %v", held, n, last, took)
			}
			expect.That(t, last == nil || strings.Contains(last.Error(), fmt.Sprint(7*time.Second)), "%v", last)
			time.Sleep(2 * time.Hour)
			kept[1].Release()
		})
	}
}
