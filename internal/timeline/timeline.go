// Package timeline records what goroutines did when. Package tracefile writes it as a Chrome trace.
//
// A Recorder has Lanes, one for each goroutine, which records spans that nest, arrows and counters in memory of its
// own: the last ones stay. A nil Lane records nothing, and costs a comparison.
package timeline

import (
	"cmp"
	"context"
	"io"
	"math"
	"slices"
	"sync"
	"time"
)

// Most is how many events a lane keeps.
var Most = 1 << 15

// Recorder is a trace that is being recorded. All methods may be called on nil.
type Recorder struct {
	mu    sync.Mutex
	lanes []*Lane
	ids   uint64
}

// Lane returns a new lane; nil of nil.
func (r *Recorder) Lane(name string) *Lane {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &Lane{of: r, name: name, number: len(r.lanes), epoch: time.Now()}
	l.unix = l.epoch.UnixNano()
	r.lanes = append(r.lanes, l)
	return l
}

// Arrows returns n numbers for arrows that nobody else has, from the returned one on.
func (r *Recorder) Arrows(n uint64) uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.ids
	r.ids += n
	return first
}

// Trace is a recorder that Close writes.
type Trace interface {
	io.Closer
	Record() *Recorder
}

// Lane is a row of the picture: what one goroutine at a time did. All methods may be called on nil.
type Lane struct {
	of     *Recorder
	name   string
	number int
	epoch  time.Time // of times of this lane, with the monotonic clock
	unix   int64     // the same, nanoseconds
	events []Event   // the last ones, once there are Most of them: a ring
	next   int       // of it

	told  sync.Mutex // of what is reported afterwards
	apart bool       // its spans were reported afterwards, and do not nest
}

// Kind says what an event is.
type Kind uint8

const (
	OfSpan    Kind = iota // something that took its time
	OfMade                // the beginning of an arrow
	OfUsed                // its end
	OfCounter             // a value from now on
	OfChange              // by how much a counter differs from now on
)

// Event is a span of a name, with a number, or an arrow, or a value.
type Event struct {
	Name   string
	Start  int64 // nanoseconds, unix
	Length int64
	Value  int64 // -1 for a span without a number
	Kind   Kind
}

// Beside returns a new lane of the same recorder, which is for something that the goroutine drives, such as a stream.
func (l *Lane) Beside(name string) *Lane {
	if l == nil {
		return nil
	}
	return l.of.Lane(l.name + ": " + name)
}

// Now returns the time of day, in nanoseconds; 0 of nil.
func (l *Lane) Now() int64 {
	if l == nil {
		return 0
	}
	return l.now()
}

func (l *Lane) now() int64 { return l.unix + int64(time.Since(l.epoch)) }

func (l *Lane) add(e Event) {
	if len(l.events) < Most {
		l.events = append(l.events, e)
		return
	}
	l.events[l.next] = e
	l.next = (l.next + 1) % len(l.events)
}

// Span is something that has begun.
type Span struct {
	lane *Lane
	e    Event
}

// Begin begins a span with a number, which says which batch or hop it is about; -1 for none.
func (l *Lane) Begin(name string, number int64) Span {
	if l == nil {
		return Span{}
	}
	return Span{l, Event{Name: name, Value: number, Start: l.now()}}
}

// End ends a span, within the one that began before it on the lane.
func (s Span) End() {
	if s.lane == nil {
		return
	}
	s.e.Length = s.lane.now() - s.e.Start
	s.lane.add(s.e)
}

// Ended records a span of a length that ends now.
func (l *Lane) Ended(name string, length time.Duration) {
	if l != nil && length > 0 {
		l.add(Event{Name: name, Value: -1, Start: l.now() - int64(length), Length: int64(length)})
	}
}

// Made begins an arrow at the span that is under way.
func (l *Lane) Made(arrow uint64) {
	if l != nil {
		l.add(Event{Kind: OfMade, Value: int64(arrow), Start: l.now()})
	}
}

// Used ends an arrow at the span that is under way.
func (l *Lane) Used(arrow uint64) {
	if l != nil {
		l.add(Event{Kind: OfUsed, Value: int64(arrow), Start: l.now()})
	}
}

// Count says what a counter is from now on.
func (l *Lane) Count(name string, value int64) {
	if l != nil {
		l.add(Event{Kind: OfCounter, Name: name, Value: value, Start: l.now()})
	}
}

// Change says that a counter of all lanes was higher by n for a time, as Now tells it. Any goroutine may call it, if
// nothing but Change and Was is called on the lane.
func (l *Lane) Change(name string, n, begin, end int64) {
	if l == nil {
		return
	}
	l.told.Lock()
	defer l.told.Unlock()
	l.add(Event{Kind: OfChange, Name: name, Value: n, Start: begin})
	l.add(Event{Kind: OfChange, Name: name, Value: -n, Start: max(begin, end)})
}

// Was records afterwards a span with a number. Any goroutine may call it, if nothing but Change and Was is called on
// the lane. Spans that overlap, because two clocks are not one, are cut.
func (l *Lane) Was(name string, number, begin, end int64) {
	if l == nil {
		return
	}
	l.told.Lock()
	defer l.told.Unlock()
	l.apart = true
	l.add(Event{Name: name, Value: number, Start: begin, Length: max(0, end-begin)})
}

type key struct{}

// With returns a context that has the lane; ctx itself for nil.
func With(ctx context.Context, l *Lane) context.Context {
	if l == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, l)
}

// Of returns the lane of a context; nil for none.
func Of(ctx context.Context) *Lane {
	l, _ := ctx.Value(key{}).(*Lane)
	return l
}

// Recorded is what a lane has recorded.
type Recorded struct {
	Name   string
	Number int
	Events []Event // by their beginnings, the longest first; spans nest
	Full   bool    // there were more events: these are the last ones
}

// Recorded returns what was recorded, by lane. No lane is in use but by Change and Was.
func (r *Recorder) Recorded() (all []Recorded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lanes {
		l.told.Lock() // batches outlive loaders
		l.inOrder()
		all = append(all, Recorded{l.name, l.number, slices.Clone(l.events), len(l.events) == Most})
		l.told.Unlock()
	}
	return all
}

// inOrder sorts events by their beginnings, the longest first.
func (l *Lane) inOrder() {
	l.next = 0
	slices.SortStableFunc(l.events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.Length, a.Length))
	})
	if !l.apart {
		return
	}
	last := int64(math.MinInt64)
	for i := range l.events {
		if e := &l.events[i]; e.Kind == OfSpan {
			end := max(e.Start+e.Length, last)
			e.Start = max(e.Start, last)
			e.Length, last = end-e.Start, end
		}
	}
}
