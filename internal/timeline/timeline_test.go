package timeline

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestWithoutATraceNothingIsAllocated(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var f *File
	lane := f.Lane("worker")
	expect.That(t, lane == nil && f.Arrows(3) == 0 && f.Close() == nil && With(ctx, lane) == ctx, "a trace of no file")
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

// written is what a file of lanes is written as.
func written(t *testing.T, f *File) (text string, phases string) {
	var b bytes.Buffer
	expect.OK(t, f.write(&b))
	var file struct {
		Events []struct {
			Phase string `json:"ph"`
		} `json:"traceEvents"`
	}
	expect.OK(t, json.Unmarshal(b.Bytes(), &file))
	for _, e := range file.Events {
		if e.Phase != "M" {
			phases += e.Phase
		}
	}
	return b.String(), phases
}

// Memory is bounded: the last events stay, of all lanes those of the same time, and arrows that have both ends.
func TestTheLastEventsStay(t *testing.T) {
	had := Most
	Most = 8
	t.Cleanup(func() { Most = had })
	f := &File{}
	worker, loop := f.Lane("worker"), f.Lane("loop")
	for i := range uint64(100) {
		s := worker.Begin("batch", int64(i))
		worker.Made(i)
		s.End()
		if i%2 == 0 {
			s := loop.Begin("step", int64(i))
			loop.Used(i)
			s.End()
		}
	}
	_, phases := written(t, f)
	expect.That(t, len(phases) <= 16 && strings.Count(phases, "s") == strings.Count(phases, "f") &&
		strings.Contains(phases, "X") && strings.Contains(phases, "f"), "%q", phases)
	expect.That(t, len(worker.events) == 8 && len(loop.events) == 8, "%d and %d events", len(worker.events),
		len(loop.events))
}

func TestAnEmptyTraceIsOne(t *testing.T) {
	for _, f := range []*File{{}, {lanes: []*Lane{{name: `with "quotes"`}}}} {
		text, phases := written(t, f)
		expect.That(t, phases == "" && strings.HasPrefix(text, mark), "%s", text)
	}
}
