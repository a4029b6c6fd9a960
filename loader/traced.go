package loader

import (
	"context"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/internal/timeline"
)

// traced is the part of a loader in a trace. Without one all lanes are nil.
type traced struct {
	*timeline.Recorder
	file    io.Closer // writes what is recorded
	workers []*timeline.Lane
	loop    *timeline.Lane
	kept    []*timeline.Lane // of slots, whose batches others hold
	names   [7]string        // of counters
	values  [7]int64         // that were recorded last
}

// open opens the file, where one is asked for.
func (t *traced) open(ctx context.Context, path string, open func(context.Context, string) (io.Closer, error)) error {
	if path == "" {
		return nil
	}
	if open == nil {
		return refuse("Tuning.Trace", " needs Hooks.Trace: trace.Open, of package loader/trace")
	}
	file, err := open(ctx, path)
	if err != nil {
		return err
	}
	t.file = file
	if f, ok := file.(timeline.Trace); ok {
		t.Recorder = f.Record()
	}
	return nil
}

// close writes the file, where there is one.
func (t *traced) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// begin makes the lanes.
func (t *traced) begin(ranks share, workers, slots int) {
	if t.Recorder == nil {
		return
	}
	rank := ""
	if ranks.world > 1 {
		rank = fmt.Sprintf("rank %d: ", ranks.rank)
	}
	t.loop = t.Lane(rank + "loop")
	for i := range workers {
		t.workers = append(t.workers, t.Lane(fmt.Sprintf("%sworker %d", rank, i)))
	}
	for i := range slots {
		t.kept = append(t.kept, t.Lane(fmt.Sprintf("%strainer, slot %d", rank, i)))
	}
	for i, name := range []string{"batches ready", "bytes gathered", "cache misses", "memory: topology",
		"memory: columns", "memory: batches", "memory: scratch"} {
		t.names[i] = rank + name
	}
}

// worker returns the lane of a worker; nil without a trace.
func (t *traced) worker(i int) *timeline.Lane {
	if t.Recorder == nil {
		return nil
	}
	return t.workers[i]
}

// keeps notes that the batch of a slot is kept from now on.
func (t *traced) keeps(s *ownedSlot) {
	if t.Recorder != nil {
		s.keptAt = t.kept[s.Index].Now()
	}
}

// released records how long a batch was kept.
func (t *traced) released(s *ownedSlot) {
	if t.Recorder != nil {
		lane := t.kept[s.Index]
		lane.Was("batch", int64(s.batch.Number), s.keptAt, lane.Now())
	}
}

// counters records which counters are others as the loop takes a batch.
func (r *run) counters() {
	l, t := r.l, &r.l.trace
	if t.Recorder == nil {
		return
	}
	ready := 0
	for _, w := range r.window {
		ready += len(w)
	}
	rows, _, _, _ := l.ahead.Report()
	memory := l.memory()
	for i, v := range []int64{int64(ready), int64(l.stats.bytes.Load()), rows.Misses, memory.Topology, memory.Columns,
		memory.Batches, memory.Scratch} {
		if v != t.values[i] {
			t.values[i] = v
			t.loop.Count(t.names[i], v)
		}
	}
}
