package shm

import (
	"errors"
	"fmt"
)

// Sentinels for errors.Is.
var (
	// ErrNoServer is returned by Dial if no server listens.
	ErrNoServer = errors.New("no server there")
	// ErrRunning is returned by a server if another one listens.
	ErrRunning = errors.New("a server is running there")
	// ErrUser is returned if the other side runs as another user.
	ErrUser = errors.New("the other side is another user's")
	// ErrGone is returned by a consumer whose server ended without a message: it was killed, or has crashed.
	ErrGone = errors.New("the server is gone: it was killed, or has crashed")
	// ErrEnded is returned by a consumer whose server has ended in an orderly way.
	ErrEnded = errors.New("the server has ended")
	// ErrTimeout is returned by a consumer that waited too long for a batch.
	ErrTimeout = errors.New("no batch came in time")
	// ErrHeld is returned by a consumer that would have to wait for a batch while it keeps all slots itself.
	ErrHeld = errors.New("every slot is held by a kept batch")
	// ErrClosed is returned by a server or consumer that was closed.
	ErrClosed = errors.New("the feed is closed")
	// ErrBusy is returned for a second run of a consumer while one is running.
	ErrBusy = errors.New("a run is already under way with this consumer")
	// ErrNoRoom is returned if the machine has no memory left for a ring, or the ring exceeds a consumer's limit.
	ErrNoRoom = errors.New("no room for the ring")
	// ErrOptions is returned for invalid options.
	ErrOptions = errors.New("invalid feed options")
)

// Code says what kind of error a server has reported. Its numbers and names are those of docs/feed.md, "Errors".
type Code uint32

var codeNames = [...]string{"0", "bad message", "version", "user", "rank", "taken", "full", "index dtype", "state",
	"epochs", "load", "memory", "ending", "readers", "stalled"}

// String returns the code's name in docs/feed.md.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %d", uint32(c))
}

// Error is what a server has reported.
type Error struct {
	Code Code
	Text string
}

// Error returns the server's text.
func (e *Error) Error() string { return fmt.Sprintf("the server says (%v): %s", e.Code, e.Text) }
