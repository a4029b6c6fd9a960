package loader_test

import (
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/meters"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

func meteredOptions() loader.Options {
	return loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{3, 2}}, BatchSize: 20, Seeds: loader.AllNodes(),
		Device: loader.DeviceOptions{Name: "cpu"}}
}

func TestLoaderIsMeasuredOnlyWhenAsked(t *testing.T) {
	opened := 0
	loader.MeterWith(t, func(address string) *meters.Meters {
		opened++
		return meters.Open(address)
	})
	l := open(t, graphs.Plain(t, 200, 5), meteredOptions())
	digests(t, l.Epoch(background, 0))
	s := l.Stats()
	expect.Ensure(t, s.Meters == nil && opened == 0, "nobody asked: %+v, meters opened %d times", s.Meters, opened)
	l.Meter()
	digests(t, l.Epoch(background, 1))
	first, second := l.Stats().Meters, l.Stats().Meters
	expect.Ensure(t, first != nil && first.Seconds > 0 && second.Seconds > first.Seconds, "%+v, then %+v", first,
		second)
	expect.That(t, first.BoardJoules == nil && first.NotMeasured["board"] == "no CUDA device is in use", "a board: %+v",
		first)
	begin := time.Now()
	l.Meter() // anew
	if again := l.Stats().Meters; again.Seconds > time.Since(begin).Seconds() || opened != 1 {
		t.Errorf("%+v after a new beginning, meters opened %d times", again, opened)
	}
	expect.OK(t, l.Close())
	last := l.Stats().Meters
	l.Meter()
	if s := l.Stats(); last == nil || s.Meters != last || opened != 1 {
		t.Errorf("a closed loader's meters are %+v, then %+v; opened %d times", last, s.Meters, opened)
	}
}
