package tracefile

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/timeline"
)

// written is what lanes are written as.
func written(t *testing.T, lanes []timeline.Recorded) (text string, phases string) {
	var b bytes.Buffer
	expect.OK(t, write(&b, lanes))
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
	had := timeline.Most
	timeline.Most = 8
	t.Cleanup(func() { timeline.Most = had })
	f := &timeline.Recorder{}
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
	_, phases := written(t, f.Recorded())
	expect.That(t, len(phases) <= 16 && strings.Count(phases, "s") == strings.Count(phases, "f") &&
		strings.Contains(phases, "X") && strings.Contains(phases, "f"), "%q", phases)
	for _, l := range f.Recorded() {
		expect.That(t, len(l.Events) == 8 && l.Full, "%s: %d events", l.Name, len(l.Events))
	}
}

func TestAnEmptyTraceIsOne(t *testing.T) {
	for _, lanes := range [][]timeline.Recorded{nil, {{Name: `with "quotes"`}}} {
		text, phases := written(t, lanes)
		expect.That(t, phases == "" && strings.HasPrefix(text, mark), "%s", text)
	}
}
