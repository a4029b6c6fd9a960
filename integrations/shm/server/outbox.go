package server

import (
	"bytes"
	"errors"
	"math"
	"os"
	"sync"
	"time"
)

// outbox sends a consumer's messages, in order, and keeps what its socket has no room for: whoever announces a batch
// waits for nobody. How many messages it keeps is bounded by how many batches the consumer may hold, because the server
// reads no question of a consumer before it has read the answers.
type outbox struct {
	socket link

	mu    sync.Mutex
	kept  []letter
	empty chan struct{} // closed when nothing is kept any more; nil where nothing is
}

// letter is a message, with a descriptor unless fd is negative.
type letter struct {
	text []byte
	fd   int
}

// post sends a message now or later. After an error the connection is over, and the consumer's own goroutine learns it.
func (o *outbox) post(b []byte, fd int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.empty == nil {
		err := o.socket.Send(b, fd, 0)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			o.socket.CloseRead()
			return err
		}
		o.empty = make(chan struct{})
		go o.deliver()
	}
	o.kept = append(o.kept, letter{bytes.Clone(b), fd})
	return nil
}

// deliver sends what is kept, as the consumer reads, until nothing is left or the connection is over.
func (o *outbox) deliver() {
	for l, ok := o.first(); ok; l, ok = o.next() {
		if o.socket.Send(l.text, l.fd, math.MaxInt64) != nil {
			o.socket.CloseRead()
			o.forget()
			return
		}
	}
}

func (o *outbox) first() (letter, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept[0], true
}

// next returns the letter after the one that was sent.
func (o *outbox) next() (letter, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = o.kept[1:]
	if len(o.kept) > 0 {
		return o.kept[0], true
	}
	o.release()
	return letter{}, false
}

// forget drops what is kept, which nobody will read.
func (o *outbox) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.release()
}

// release lets those go who wait. mu is held.
func (o *outbox) release() {
	close(o.empty)
	o.kept, o.empty = nil, nil
}

// wait waits until nothing is kept: the consumer has read it, or is gone. most is the longest time, 0 for any.
func (o *outbox) wait(most time.Duration) {
	o.mu.Lock()
	empty := o.empty
	o.mu.Unlock()
	if empty == nil {
		return
	}
	var late <-chan time.Time
	if most > 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-empty:
	case <-late:
	}
}

// close ends the connection, with what is kept.
func (o *outbox) close() {
	o.socket.CloseRead() // nobody waits for room from here on
	o.wait(0)
	_ = o.socket.Close()
}
