package server

import (
	"slices"
	"time"

	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
)

// judge starts the clocks of readers for which the others wait, and stops those of the rest. It is called when anything
// changed that they may wait for. mu is held.
func (r *rank) judge() {
	limit := r.server.opt.ReaderTimeout
	if r.server.opt.Readers < 2 || limit < 0 {
		return
	}
	for p := range r.peers {
		switch late := r.keepsOthersWaiting(p); {
		case late && p.late == nil:
			c := new(clock)
			c.timer = time.AfterFunc(limit, func() { r.giveUp(p, c) })
			p.late = c
		case !late:
			p.forgive()
		}
	}
}

// clock runs where the other readers wait for one. rank.mu guards it.
type clock struct{ timer *time.Timer }

// forgive stops a reader's clock. rank.mu is held.
func (p *peer) forgive() {
	if p.late != nil {
		p.late.timer.Stop()
		p.late = nil
	}
}

// keepsOthersWaiting reports whether another reader can do nothing before p does something. mu is held.
func (r *rank) keepsOthersWaiting(p *peer) bool {
	run := r.current
	if run == nil {
		return p.asked == nil && len(r.peers) >= r.awaited() && r.some(p, func(q *peer) bool { return q.asked != nil })
	}
	owes := len(p.held) > 0 && r.allHeld()
	if p.active && !p.stop {
		owes = owes || len(run.queue) > 0 && !r.hasCredit(p) || run.announced == run.end && p.done < run.end
	}
	return owes && r.some(p, func(q *peer) bool { return q.active && !q.stop && q.done == q.sent })
}

// some reports whether a reader other than p is so. mu is held.
func (r *rank) some(p *peer, is func(*peer) bool) bool {
	for q := range r.peers {
		if q != p && is(q) {
			return true
		}
	}
	return false
}

// allHeld reports whether consumers have every slot, so that no batch can be made. mu is held.
func (r *rank) allHeld() bool {
	return !slices.ContainsFunc(r.slots, func(h held) bool { return h.consumers == 0 })
}

// awaited returns how many readers have to ask for a run before it begins. mu is held.
func (r *rank) awaited() int { return max(r.server.opt.Readers-r.lost, 1) }

// giveUp ends the connection of a reader for which the others have waited too long, and lets them go on: until it is
// back no run waits for it. late is the clock that says so.
func (r *rank) giveUp(p *peer, late *clock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.late != late || p.gone { // it has moved meanwhile
		return
	}
	r.lost++
	p.end = refuse(wire.CodeStalled, "the other readers have waited for you for %v, which is all that the server's "+
		"option reader-timeout allows; what you hold may change: connect again",
		r.server.opt.ReaderTimeout)
	p.socket.CloseRead()
}
