package tracefile

import (
	"io"
	"testing"

	"github.com/khop-gnn/khop/internal/timeline"
)

// BenchmarkABatch records what a worker and the loop do for a batch, and writes it.
func BenchmarkABatch(b *testing.B) {
	f := &timeline.Recorder{}
	worker, loop := f.Lane("worker"), f.Lane("loop")
	for i := range uint64(b.N) {
		batch := worker.Begin("batch", int64(i))
		for _, name := range []string{"seeds", "hop", "hop", "sample", "fetch", "finish"} {
			worker.Begin(name, -1).End()
		}
		worker.Made(i)
		batch.End()
		loop.Begin("wait for a batch", -1).End()
		loop.Count("batches ready", int64(i))
		step := loop.Begin("step", int64(i))
		loop.Used(i)
		step.End()
	}
	if err := write(io.Discard, f.Recorded()); err != nil {
		b.Fatal(err)
	}
}
