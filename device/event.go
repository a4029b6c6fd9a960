package device

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Event marks a place in a stream. The zero value is not usable.
type Event struct {
	device *primary
	h      atomic.Uintptr
}

// NewEvent makes an event, which orders streams, and lets the host wait without spinning. Close it.
func (d *Device) NewEvent() (*Event, error) { return d.newEvent(false) }

// NewTimer makes an event that also remembers when it was passed, for Elapsed: recording costs a little more. Close it.
func (d *Device) NewTimer() (*Event, error) { return d.newEvent(true) }

func (d *Device) newEvent(timed bool) (*Event, error) {
	e := &Event{device: d.primary}
	return made(d, e, &e.h, "make an event", func() (handle, result) { return drv.newEvent(timed) })
}

func (e *Event) use(f func(event handle) error) error {
	h := e.h.Load()
	if h == 0 {
		return closedError("event")
	}
	return f(handle(h))
}

func (e *Event) do(op string, call func(event handle) result) error {
	return e.use(func(h handle) error { return e.device.do(op, func() result { return call(h) }) })
}

// Synchronize waits until the stream has passed the place that the event marks. The thread sleeps meanwhile.
func (e *Event) Synchronize() error { return e.do("wait for an event", drv.syncEvent) }

// Done reports, without waiting, whether the stream has passed the event. It is true for an event that was never
// recorded.
func (e *Event) Done() (bool, error) {
	return e.device.ready(e.do, "query an event", drv.queryEvent)
}

// ready runs a query: not being ready is not an error.
func (p *primary) ready(do func(string, func(handle) result) error, op string, query func(handle) result) (bool,
	error) {
	done := false
	err := do(op, func(h handle) result {
		code := query(h)
		done = code == success
		if code == codeNotReady {
			return success
		}
		return code
	})
	return done, err
}

// Elapsed returns the time on the device from one event to this one, with a resolution of half a microsecond. Both must
// be from NewTimer, and passed.
func (e *Event) Elapsed(from *Event) (time.Duration, error) {
	var ms float64
	err := from.use(func(first handle) error {
		return e.do("read the time between events", func(h handle) (code result) {
			ms, code = drv.elapsed(first, h)
			return code
		})
	})
	return time.Duration(ms * float64(time.Millisecond)), err
}

// Close frees the event. A second Close, or a Close of a nil Event, does nothing.
func (e *Event) Close() error {
	if e == nil {
		return nil
	}
	h := e.h.Swap(0)
	if h == 0 {
		return nil
	}
	return e.device.dispose("close an event", func() result { return drv.closeEvent(handle(h)) })
}

func closedError(what string) error { return fmt.Errorf("cuda: %s: %w", what, ErrClosed) }
