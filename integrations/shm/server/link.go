package server

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// link is the server's end of a connection: a wire.Socket, or a mailbox. Its methods are documented there.
type link interface {
	Send(b []byte, fd int, most time.Duration) error
	Receive(ctx context.Context, end time.Time, b []byte) (n, fd int, err error)
	Peer() (uid uint32, pid int, err error)
	CloseRead()
	Ended() bool
	AwaitEnd(ctx context.Context) error
	Close() error
}

// Within is what a consumer in this process shares with its server.
type Within struct {
	Mail *Mail
	// Ring wakes a consumer that waits for a message. Any goroutine may call it, and it must not block.
	Ring func()
	// Bell becomes readable when the consumer has put a message in Mail while the server does not poll it. The server
	// reads from Bell, and closes it.
	Bell *os.File
}

// mailbox is a connection to a consumer in this process.
type mailbox struct {
	Within
	ended atomic.Bool // nothing is received any more
}

// Send waits for room where the consumer does not read, as a socket's does.
func (m *mailbox) Send(b []byte, _ int, most time.Duration) error {
	const look = 5 * time.Millisecond
	for waited := time.Duration(0); !m.Mail.Down.put(b); waited += look {
		if waited >= most {
			return os.ErrDeadlineExceeded
		}
		if m.ended.Load() {
			return io.ErrClosedPipe
		}
		time.Sleep(look) // hundreds of messages are unread: nobody is in a hurry
	}
	m.rouse()
	return nil
}

func (m *mailbox) rouse() {
	if m.Mail.Down.mustRing() {
		m.Ring()
	}
}

// Receive waits for any time: who is in this process needs no limit for its first message.
func (m *mailbox) Receive(ctx context.Context, _ time.Time, b []byte) (n, fd int, err error) {
	up := &m.Mail.Up
	for {
		if n := up.take(b); n > 0 {
			return n, -1, nil
		}
		if m.ended.Load() || up.ended.Load() != 0 {
			return 0, -1, io.EOF
		}
		if !up.fallAsleep() {
			continue
		}
		stop := context.AfterFunc(ctx, m.CloseRead)
		var count [8]byte
		_, err := m.Bell.Read(count[:])
		stop()
		if err != nil && !m.ended.Load() {
			return 0, -1, err
		}
	}
}

func (m *mailbox) Peer() (uid uint32, pid int, err error) { return uint32(os.Geteuid()), 0, nil }

// CloseRead ends the connection as far as the consumer is heard.
func (m *mailbox) CloseRead() {
	m.ended.Store(true)
	_ = m.Bell.SetReadDeadline(time.Unix(1, 0))
}

func (m *mailbox) Ended() bool { return m.ended.Load() }

// AwaitEnd is of servers that answer requests, which none within a process does.
func (m *mailbox) AwaitEnd(context.Context) error { return errors.ErrUnsupported }

// Close ends the connection, after what was sent.
func (m *mailbox) Close() error {
	m.CloseRead()
	m.Mail.Down.ended.Store(1)
	m.rouse()
	return m.Bell.Close()
}
