package timeline

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// firstThread is the number of the first lane. Traces of others in the same process have those of threads.
const firstThread = 1 << 24

// write writes the trace. Of lanes that kept their last events alone the others show no more, so that the picture is
// whole from its beginning on.
func (f *File) write(to io.Writer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, base := int64(math.MinInt64), int64(math.MaxInt64)
	for _, l := range f.lanes {
		l.told.Lock() // batches outlive loaders
		defer l.told.Unlock()
		l.inOrder()
		if len(l.events) > 0 {
			base = min(base, l.events[0].start)
		}
		if len(l.events) == Most {
			from = max(from, l.events[0].start)
		}
	}
	base = max(base, from) / int64(time.Second) * int64(time.Second)
	if len(f.lanes) == 0 || base > math.MaxInt64/2 {
		base = 0
	}
	arrows := f.arrows(from)
	w := NewWriter(to, base)
	w.meta(0, "process_name", "khop")
	for _, l := range f.lanes {
		if len(l.events) == 0 {
			continue
		}
		w.meta(firstThread+l.number, "thread_name", l.name)
		w.sort(firstThread + l.number)
		for i := range l.events {
			e := &l.events[i]
			arrow := (e.kind == made || e.kind == used) && arrows[e.value] == 2
			if e.start >= from && (e.kind == span || e.kind == counter || arrow) {
				w.own(e, firstThread+l.number)
			}
		}
	}
	for _, e := range f.changes(from) {
		w.own(&e, firstThread)
	}
	return w.End()
}

// changes returns counters that many lanes change, as values. What they were before the first change that is left is
// not known, so the least of them is 0.
func (f *File) changes(from int64) (all []event) {
	for _, l := range f.lanes {
		for i := range l.events {
			if e := &l.events[i]; e.kind == change && e.start >= from {
				all = append(all, *e)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.start, b.start) })
	values, least := map[string]int64{}, map[string]int64{}
	for i := range all {
		e := &all[i]
		values[e.name] += e.value
		e.kind, e.value = counter, values[e.name]
		least[e.name] = min(least[e.name], e.value)
	}
	for i := range all {
		all[i].value -= least[all[i].name]
	}
	return all
}

// arrows counts the ends of each arrow.
func (f *File) arrows(from int64) map[int64]int {
	ends := map[int64]int{}
	for _, l := range f.lanes {
		for i := range l.events {
			if e := &l.events[i]; e.start >= from && (e.kind == made || e.kind == used) {
				ends[e.value]++
			}
		}
	}
	return ends
}

// inOrder sorts events by their beginnings, the longest first.
func (l *Lane) inOrder() {
	l.next = 0
	slices.SortStableFunc(l.events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.length, a.length))
	})
	if !l.apart {
		return
	}
	last := int64(math.MinInt64)
	for i := range l.events {
		if e := &l.events[i]; e.kind == span {
			end := max(e.start+e.length, last)
			e.start = max(e.start, last)
			e.length, last = end-e.start, end
		}
	}
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
func (w *Writer) own(e *event, thread int) {
	w.begin()
	b := append(w.room[:0], `{"cat":"khop","pid":`...)
	b = strconv.AppendInt(b, w.process, 10)
	b = append(b, `,"tid":`...)
	b = strconv.AppendInt(b, int64(thread), 10)
	b = append(b, `,"ts":`...)
	b = Micros(b, e.start-w.base)
	switch e.kind {
	case span:
		b = append(b, `,"ph":"X","dur":`...)
		b = Micros(b, e.length)
		b = append(b, `,"name":`...)
		b = strconv.AppendQuote(b, e.name)
		if e.value >= 0 {
			b = append(b, `,"args":{"number":`...)
			b = append(strconv.AppendInt(b, e.value, 10), '}')
		}
	case counter:
		b = append(b, `,"ph":"C","name":`...)
		b = strconv.AppendQuote(b, e.name)
		b = append(b, `,"args":{"value":`...)
		b = append(strconv.AppendInt(b, e.value, 10), '}')
	default:
		begins := `,"name":"batch","ph":"s","id":`
		if e.kind == used {
			begins = `,"name":"batch","ph":"f","bp":"e","id":`
		}
		b = append(b, begins...)
		b = strconv.AppendInt(b, e.value, 10)
	}
	w.room = append(b, '}')
	_, _ = w.to.Write(w.room)
}
