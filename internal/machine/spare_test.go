package machine

import (
	"runtime"
	"testing"
)

func TestSpareThreadsAreNoWorkers(t *testing.T) {
	before, workers := runtime.GOMAXPROCS(0), Workers()
	first, second := Spare(), Spare()
	if got := runtime.GOMAXPROCS(0); got <= before || got > 2*before+1 {
		t.Errorf("Go runs %d threads at a time, before %d", got, before)
	}
	if Workers() != workers || Probe().Threads != before {
		t.Errorf("%d workers, %d threads; before %d and %d", Workers(), Probe().Threads, workers, before)
	}
	first()
	first()
	if runtime.GOMAXPROCS(0) == before {
		t.Error("the first that needs no more threads takes the second's")
	}
	second()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("Go runs %d threads at a time afterwards, before %d", got, before)
	}
	release := Spare()
	defer runtime.GOMAXPROCS(before)
	runtime.GOMAXPROCS(before + 7)
	if release(); runtime.GOMAXPROCS(0) != before+7 {
		t.Error("the choice of somebody else was undone")
	}
}
