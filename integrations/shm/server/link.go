package server

import (
	"context"
	"io"
	"os"
	"sync"
	"time"
)

// link is the server's end of a connection: a wire.Socket, or a pipe. Its methods are documented there.
type link interface {
	Send(b []byte, fd int, most time.Duration) error
	Receive(ctx context.Context, end time.Time, b []byte) (n, fd int, err error)
	Peer() (uid uint32, pid int, err error)
	CloseRead()
	Ended() bool
	Close() error
}

// pipe is a connection within the process. What the server sends waits in it for take; whoever consumes calls the
// server in place of sending to it.
type pipe struct {
	wake func() // called when there is something to take for a consumer that found nothing

	mu     sync.Mutex
	first  []byte   // from the consumer, for Receive
	queue  [][]byte // from the server, in order
	spare  [][]byte // messages that were taken, to be used again
	idle   bool     // the consumer found nothing
	ended  bool     // nothing is received any more
	closed bool     // nothing is sent any more
}

// Send never waits.
func (p *pipe) Send(b []byte, _ int, _ time.Duration) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return io.ErrClosedPipe
	}
	var m []byte
	if last := len(p.spare) - 1; last >= 0 {
		m, p.spare = p.spare[last][:0], p.spare[:last]
	}
	p.queue = append(p.queue, append(m, b...))
	p.rouse()
	return nil
}

// rouse wakes the consumer where it sleeps, and unlocks mu.
func (p *pipe) rouse() {
	idle := p.idle
	p.idle = false
	p.mu.Unlock()
	if idle {
		p.wake()
	}
}

// take copies the next message of the server to room. io.EOF where none will come; 0 where none is there yet: then wake
// will be called.
func (p *pipe) take(room []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.queue) > 0:
		m := p.queue[0]
		if len(room) < len(m) {
			return 0, io.ErrShortBuffer
		}
		p.queue = append(p.queue[:0], p.queue[1:]...)
		p.spare = append(p.spare, m)
		return copy(room, m), nil
	case p.closed:
		return 0, io.EOF
	}
	p.idle = true
	return 0, nil
}

// offer gives Receive the consumer's first message.
func (p *pipe) offer(message []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first = message
}

// Receive returns the first message of a consumer. The others are handled as they come.
func (p *pipe) Receive(_ context.Context, _ time.Time, b []byte) (n, fd int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == nil {
		return 0, -1, io.EOF
	}
	n, p.first = copy(b, p.first), nil
	return n, -1, nil
}

func (p *pipe) Peer() (uid uint32, pid int, err error) { return uint32(os.Geteuid()), os.Getpid(), nil }

// CloseRead ends the connection as far as the consumer is heard.
func (p *pipe) CloseRead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

func (p *pipe) Ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Close ends the connection, after what was sent.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.ended, p.closed = true, true
	p.rouse()
	return nil
}
