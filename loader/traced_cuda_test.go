//go:build cuda

package loader_test

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/trace"
)

// A device's streams have lanes of their own: a batch is sampled on one while its worker waits for that, then its rows
// are gathered on the other, before the trainer that waits for them is done.
func TestATraceShowsTheStreamsOfADevice(t *testing.T) {
	cudatest.Open(t)
	path := filepath.Join(t.TempDir(), "trace.json")
	l := expect.Must(loader.New(graphs.Plain(t, 2000, 6), loader.Options{Sampler: neighbor, BatchSize: 100, Workers: 2,
		Device: loader.DeviceOptions{Name: "cuda:0"}, Tuning: loader.TuningOptions{Trace: path},
		Hooks: loader.Hooks{Trace: trace.Open}}))(t)
	batches := 0
	for epoch := range uint64(2) {
		for b := range each(t, l.Epoch(background, epoch)) {
			expect.OK(t, b.Sync())
			batches++
		}
	}
	expect.OK(t, l.Close())
	lanes, _ := readTrace(t, path)
	spans := map[string]map[int][]traceEvent{} // [name][batch], in order of epochs
	for name, lane := range lanes {
		total := nests(t, name, lane)
		expect.That(t, total > 0 || !strings.Contains(name, "stream"), "%s: nothing", name)
		for _, e := range lane {
			if e.Phase == "X" && e.Args.Name == "" && e.Name != "hop" {
				kind := e.Name
				if strings.HasSuffix(name, "sampling stream") {
					kind = "on the stream"
				}
				if spans[kind] == nil {
					spans[kind] = map[int][]traceEvent{}
				}
				spans[kind][e.Args.Number] = append(spans[kind][e.Args.Number], e)
			}
		}
	}
	for _, kind := range spans {
		for _, all := range kind { // by whichever worker
			slices.SortFunc(all, func(a, b traceEvent) int { return cmp.Compare(a.Start, b.Start) })
		}
	}
	const clocks = 50e3 // microseconds that a busy host may take to see that a device is done
	seen := 0
	for number, batch := range spans["batch"] {
		for epoch, whole := range batch {
			sampled, gathered, step := spans["on the stream"][number], spans["gather"][number], spans["step"][number]
			expect.Ensure(t, len(sampled) == 2 && len(gathered) == 2 && len(step) == 2, "batch %d: sampled %d times, "+
				"gathered %d", number, len(sampled), len(gathered))
			s, g := sampled[epoch], gathered[epoch]
			expect.That(t, s.Start >= whole.Start-clocks && s.Start+s.Duration <= whole.Start+whole.Duration,
				"batch %d is made %+v, sampled %+v", number, whole, s)
			used := step[epoch].Start + step[epoch].Duration
			expect.That(t, g.Start >= s.Start+s.Duration-0.01 && g.Start+g.Duration <= used+clocks, "batch %d is "+
				"sampled %+v, gathered %+v, used %+v", number, s, g, step[epoch])
			seen++
		}
	}
	expect.That(t, seen == batches, "%d batches of %d", seen, batches)
	most := inFlight(t, lanes)
	expect.That(t, most > 0, "no bytes were in flight")
}
