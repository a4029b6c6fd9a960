package timeline

import (
	"context"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestWithoutATraceNothingIsAllocated(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var r *Recorder
	lane := r.Lane("worker")
	expect.That(t, lane == nil && r.Arrows(3) == 0 && With(ctx, lane) == ctx, "a trace of nobody")
	n := testing.AllocsPerRun(100, func() {
		l := Of(ctx)
		s := l.Begin("batch", 7)
		l.Begin("seeds", -1).End()
		l.Ended("wait", 5)
		l.Made(1)
		l.Used(1)
		l.Count("ready", 3)
		s.End()
	})
	expect.That(t, n == 0, "%v allocations", n)
}
