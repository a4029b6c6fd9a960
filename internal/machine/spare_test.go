package machine

import (
	"runtime"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestSpareThreadsAreNoWorkers(t *testing.T) {
	before, workers := runtime.GOMAXPROCS(0), Workers()
	first, second := Spare(), Spare()
	got := runtime.GOMAXPROCS(0)
	expect.That(t, got > before && got <= 2*before+1, "Go runs %d threads at a time, before %d", got, before)
	expect.That(t, Workers() == workers && Probe().Threads == before, "%d workers, %d threads; before %d and %d",
		Workers(), Probe().Threads, workers, before)
	first()
	first()
	expect.That(t, runtime.GOMAXPROCS(0) != before, "the first that needs no more threads takes the second's")
	second()
	got = runtime.GOMAXPROCS(0)
	expect.That(t, got == before, "Go runs %d threads at a time afterwards, before %d", got, before)
	release := Spare()
	defer runtime.GOMAXPROCS(before)
	runtime.GOMAXPROCS(before + 7)
	release()
	expect.That(t, runtime.GOMAXPROCS(0) == before+7, "the choice of somebody else was undone")
}
