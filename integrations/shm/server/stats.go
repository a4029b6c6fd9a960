package server

import (
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
)

const mostListed = 256 // consumers, so that statistics fit a message

// Stats returns what every rank has done so far.
func (s *Server) Stats() []shm.RankStats {
	list := make([]shm.RankStats, len(s.ranks))
	for i, r := range s.ranks {
		list[i] = r.statistics()
	}
	return list
}

func (r *rank) statistics() shm.RankStats {
	s := shm.RankStats{Rank: int(r.number), Loader: r.loader.Stats(), Segments: len(r.arena.all()),
		RingBytes: r.arena.size(nil), OnDevice: r.deviceBytes(), Consumers: []shm.PeerStats{}}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Sent, s.Done, s.Waiting, s.Epoch, s.Next = r.sent, r.done, r.waiting, r.place.epoch, r.place.next
	for p := range r.peers {
		if len(s.Consumers) == mostListed {
			break
		}
		c := shm.PeerStats{PID: p.pid, Held: len(p.held), Done: p.done}
		for _, since := range p.held {
			c.OldestHeld = max(c.OldestHeld, now.Sub(since).Seconds())
		}
		s.Consumers = append(s.Consumers, c)
	}
	return s
}
