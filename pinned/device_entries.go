package pinned

import (
	"context"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/khop-gnn/khop/device"
)

// attached holds all attachments of the process. It registers a range once, whoever asks: registering it again would
// fail, and copying it again would double the memory.
var attached entries

// entries knows which memory serves which range of addresses.
type entries struct {
	sync.Mutex
	all []*entry
}

// entry is memory that attachments share. The caller that gets it fresh fills it in; from settle to drop it does not
// change.
type entry struct {
	lo, hi uintptr // the bytes that it serves; whole pages if they are registered where they lie; guarded by the lock
	mem    []byte  // where the device finds them
	rung   Rung
	steps  []Step
	chunk  int64 // mem is registered in pieces of that size; 0: it is one piece
	alone  bool  // serves the attachment that made it, nobody else
	crowd  bool  // overlaps what is registered: it cannot be registered where it lies, too

	undo []func() error // in reverse order

	count int           // attachments; guarded by the lock
	busy  chan struct{} // while it is made or undone; guarded by the lock
}

// get returns an entry that serves b, counted for the caller, who makes a fresh one and calls settle. It waits while
// another goroutine makes or undoes one that would serve.
func (t *entries) get(ctx context.Context, b []byte) (e *entry, fresh bool, err error) {
	lo := uintptr(addressOf(b))
	hi := lo + uintptr(len(b))
	for {
		e, busy := t.take(lo, hi)
		if busy == nil {
			return e, false, nil
		} else if e != nil {
			return e, true, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// take returns an entry that is ready; or a fresh one, and what will be closed when it is settled; or no entry, and
// what to wait for.
func (t *entries) take(lo, hi uintptr) (*entry, chan struct{}) {
	t.Lock()
	defer t.Unlock()
	page := uintptr(os.Getpagesize())
	fresh := &entry{lo: lo / page * page, hi: (hi + page - 1) / page * page, count: 1, busy: make(chan struct{})}
	for _, e := range t.all {
		switch {
		case e.lo <= lo && hi <= e.hi && e.busy != nil:
			return nil, e.busy
		case e.lo <= lo && hi <= e.hi:
			e.count++
			return e, nil
		case e.lo < fresh.hi && fresh.lo < e.hi && (e.busy != nil || e.rung < RungCopy): // copies lie elsewhere
			fresh.crowd = true
		}
	}
	if !fresh.crowd {
		t.all = append(t.all, fresh)
	}
	return fresh, fresh.busy
}

// narrow makes a fresh entry serve b alone, not the whole pages around it.
func (t *entries) narrow(e *entry, b []byte) {
	t.Lock()
	defer t.Unlock()
	e.lo = uintptr(addressOf(b))
	e.hi = e.lo + uintptr(len(b))
}

// settle ends the making of an entry.
func (t *entries) settle(e *entry, err error) error {
	t.Lock()
	defer t.Unlock()
	if err != nil || e.alone {
		t.remove(e)
	}
	close(e.busy)
	e.busy = nil
	return err
}

// drop gives up one attachment of e, and with the last one the memory of e. Meanwhile whoever wants the range waits.
func (t *entries) drop(e *entry) error {
	t.Lock()
	e.count--
	last := e.count == 0
	if last {
		e.busy = make(chan struct{})
	}
	t.Unlock()
	if !last {
		return nil
	}
	err := e.giveBack()
	t.Lock()
	defer t.Unlock()
	t.remove(e)
	close(e.busy)
	return err
}

func (t *entries) remove(e *entry) {
	t.all = slices.DeleteFunc(t.all, func(x *entry) bool { return x == e })
}

// view returns the part of the entry's memory that serves b.
func (e *entry) view(b []byte) []byte {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - e.lo
	return e.mem[at : at+uintptr(len(b)) : at+uintptr(len(b))]
}

// onUndo adds a function that undoes a step that has just succeeded.
func (e *entry) onUndo(f func() error) { e.undo = append(e.undo, f) }

// giveBack undoes all steps, the last one first, and returns the first error.
func (e *entry) giveBack() (err error) {
	for len(e.undo) > 0 {
		last := len(e.undo) - 1
		if fail := e.undo[last](); err == nil {
			err = fail
		}
		e.undo = e.undo[:last]
	}
	return err
}

// register page-locks a piece of memory for an entry and makes sure that the device finds it where the host does.
func (e *entry) register(dev *device.Device, piece []byte, readOnly bool) error {
	if err := dev.Register(piece, readOnly); err != nil {
		return err
	}
	e.onUndo(func() error { return dev.Unregister(piece) })
	at, err := dev.HostAddress(piece)
	if err == nil && at != addressOf(piece) {
		err = errElsewhere
	}
	return err
}
