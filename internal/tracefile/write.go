package tracefile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/khop-gnn/khop/internal/timeline"
)

// firstThread is the number of the first lane. Traces of others in the same process have those of threads.
const firstThread = 1 << 24

// write writes what was recorded. Of lanes that kept their last events alone the others show no more, so that the
// picture is whole from its beginning on.
func write(to io.Writer, lanes []timeline.Recorded) error {
	from, base := int64(math.MinInt64), int64(math.MaxInt64)
	for _, l := range lanes {
		if len(l.Events) > 0 {
			base = min(base, l.Events[0].Start)
		}
		if l.Full {
			from = max(from, l.Events[0].Start)
		}
	}
	base = max(base, from) / int64(time.Second) * int64(time.Second)
	if len(lanes) == 0 || base > math.MaxInt64/2 {
		base = 0
	}
	ends := arrows(lanes, from)
	w := NewWriter(to, base)
	w.meta(0, "process_name", "khop")
	for _, l := range lanes {
		if len(l.Events) == 0 {
			continue
		}
		w.meta(firstThread+l.Number, "thread_name", l.Name)
		w.sort(firstThread + l.Number)
		for i := range l.Events {
			e := &l.Events[i]
			arrow := (e.Kind == timeline.OfMade || e.Kind == timeline.OfUsed) && ends[e.Value] == 2
			if e.Start >= from && (e.Kind == timeline.OfSpan || e.Kind == timeline.OfCounter || arrow) {
				w.own(e, firstThread+l.Number)
			}
		}
	}
	for _, e := range changes(lanes, from) {
		w.own(&e, firstThread)
	}
	return w.End()
}

// changes returns counters that many lanes change, as values. What they were before the first change that is left is
// not known, so the least of them is 0.
func changes(lanes []timeline.Recorded, from int64) (all []timeline.Event) {
	for _, l := range lanes {
		for i := range l.Events {
			if e := &l.Events[i]; e.Kind == timeline.OfChange && e.Start >= from {
				all = append(all, *e)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b timeline.Event) int { return cmp.Compare(a.Start, b.Start) })
	values, least := map[string]int64{}, map[string]int64{}
	for i := range all {
		e := &all[i]
		values[e.Name] += e.Value
		e.Kind, e.Value = timeline.OfCounter, values[e.Name]
		least[e.Name] = min(least[e.Name], e.Value)
	}
	for i := range all {
		all[i].Value -= least[all[i].Name]
	}
	return all
}

// arrows counts the ends of each arrow.
func arrows(lanes []timeline.Recorded, from int64) map[int64]int {
	ends := map[int64]int{}
	for _, l := range lanes {
		for i := range l.Events {
			if e := &l.Events[i]; e.Start >= from && (e.Kind == timeline.OfMade || e.Kind == timeline.OfUsed) {
				ends[e.Value]++
			}
		}
	}
	return ends
}

// Writer writes the events of a trace. The first error stays, and End returns it.
type Writer struct {
	to      *bufio.Writer
	base    int64
	process int64 // whose number asks the system each time
	another bool  // it has written one
	room    []byte
}

// NewWriter writes what comes before the events of a trace whose times count from base.
func NewWriter(to io.Writer, base int64) *Writer {
	w := &Writer{to: bufio.NewWriterSize(to, 1<<16), base: base, process: int64(process())}
	fmt.Fprintf(w.to, "%s,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":%d,\"traceEvents\":[", mark, base)
	return w
}

// End writes what comes after the events.
func (w *Writer) End() error {
	_, _ = w.to.WriteString("\n]}\n")
	return w.to.Flush()
}

// begin writes what comes before an event.
func (w *Writer) begin() {
	if w.another {
		_ = w.to.WriteByte(',')
	}
	w.another = true
	_ = w.to.WriteByte('\n')
}

// Event writes an event, as JSON.
func (w *Writer) Event(text []byte) {
	w.begin()
	_, _ = w.to.Write(text)
}

func (w *Writer) meta(thread int, what, name string) {
	w.begin()
	fmt.Fprintf(w.to, `{"ph":"M","pid":%d,"tid":%d,"name":%q,"args":{"name":%q}}`, w.process, thread, what, name)
}

func (w *Writer) sort(thread int) {
	w.begin()
	const form = `{"ph":"M","pid":%d,"tid":%d,"name":"thread_sort_index","args":{"sort_index":%d}}`
	fmt.Fprintf(w.to, form, w.process, thread, thread)
}

// Micros appends nanoseconds as microseconds, exactly: as a float, those since 1970 would lose some.
func Micros(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1e3, 10)
	part := ns % 1e3
	return append(b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
}

// own writes an event of a lane.
func (w *Writer) own(e *timeline.Event, thread int) {
	w.begin()
	b := append(w.room[:0], `{"cat":"khop","pid":`...)
	b = strconv.AppendInt(b, w.process, 10)
	b = append(b, `,"tid":`...)
	b = strconv.AppendInt(b, int64(thread), 10)
	b = append(b, `,"ts":`...)
	b = Micros(b, e.Start-w.base)
	switch e.Kind {
	case timeline.OfSpan:
		b = append(b, `,"ph":"X","dur":`...)
		b = Micros(b, e.Length)
		b = append(b, `,"name":`...)
		b = strconv.AppendQuote(b, e.Name)
		if e.Value >= 0 {
			b = append(b, `,"args":{"number":`...)
			b = append(strconv.AppendInt(b, e.Value, 10), '}')
		}
	case timeline.OfCounter:
		b = append(b, `,"ph":"C","name":`...)
		b = strconv.AppendQuote(b, e.Name)
		b = append(b, `,"args":{"value":`...)
		b = append(strconv.AppendInt(b, e.Value, 10), '}')
	default:
		begins := `,"name":"batch","ph":"s","id":`
		if e.Kind == timeline.OfUsed {
			begins = `,"name":"batch","ph":"f","bp":"e","id":`
		}
		b = append(b, begins...)
		b = strconv.AppendInt(b, e.Value, 10)
	}
	w.room = append(b, '}')
	_, _ = w.to.Write(w.room)
}
