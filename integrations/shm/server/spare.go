package server

import (
	"log/slog"
	"sync"
	"time"
)

// sparing lets some warnings a minute into the log, and counts the others, so that nobody who connects can fill it.
type sparing struct {
	mu     sync.Mutex
	since  time.Time
	said   int // since then
	unsaid int // since the last one logged
}

const mostSaid = 10 // warnings a minute

// warn logs a warning, or counts it for the next one to tell.
func (s *sparing) warn(log *slog.Logger, text string, args ...any) {
	s.mu.Lock()
	if now := time.Now(); now.Sub(s.since) > time.Minute {
		s.since, s.said = now, 0
	}
	s.said++
	if s.said > mostSaid {
		s.unsaid++
		s.mu.Unlock()
		return
	}
	unsaid := s.unsaid
	s.unsaid = 0
	s.mu.Unlock()
	if unsaid > 0 {
		args = append(args, "unsaid", unsaid)
	}
	log.Warn(text, args...)
}

// rest logs how many warnings were counted and not told.
func (s *sparing) rest(log *slog.Logger, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsaid > 0 {
		log.Warn(text, "unsaid", s.unsaid)
	}
}

// allowance bounds the messages of a consumer that change nothing: they take locks that others need.
type allowance struct{ due time.Time }

// idleEvery says that one message may come in so long. A variable for tests only.
var idleEvery = 100 * time.Microsecond

const (
	idleBurst  = time.Second // and as many at once as come in so long
	usefulGain = 4           // and this number for each message that changes something
	askCost    = 10          // an answer is more work
)

// take counts n messages; false where they are too many.
func (a *allowance) take(n int) bool {
	now := time.Now()
	if least := now.Add(-idleBurst); a.due.Before(least) {
		a.due = least
	}
	a.due = a.due.Add(time.Duration(n) * idleEvery)
	return !a.due.After(now)
}

// earn allows for more messages.
func (a *allowance) earn() { a.due = a.due.Add(-usefulGain * idleEvery) }
