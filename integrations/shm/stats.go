package shm

import (
	"time"

	"github.com/khop-gnn/khop/loader"
)

// RankStats says what one ring has done, and what it waits for.
type RankStats struct {
	Rank     int          `json:"rank"`
	Loader   loader.Stats `json:"loader"`
	Segments int          `json:"segments"`
	// of the segments on the host; pages that were never touched take no memory
	RingBytes int64       `json:"ring_bytes"`
	OnDevice  int64       `json:"ring_device_bytes"` // of those on a device
	Sent      uint64      `json:"batches_sent"`
	Done      uint64      `json:"batches_done"` // acknowledged
	Epoch     uint64      `json:"epoch"`        // where the rank stands
	Next      uint64      `json:"next"`
	Waiting   string      `json:"waiting"` // "loader", "consumer", or "" where nothing waits
	Consumers []PeerStats `json:"consumers"`
}

// PeerStats says what a consumer holds.
type PeerStats struct {
	PID        int     `json:"pid"`
	Held       int     `json:"held"`          // slots
	OldestHeld float64 `json:"oldest_held_s"` // since when, in seconds
	Done       uint64  `json:"done"`          // acknowledged of its run
}

const mostListed = 256 // consumers, so that statistics fit a message

// Stats returns what every rank has done so far.
func (s *Server) Stats() []RankStats {
	list := make([]RankStats, len(s.ranks))
	for i, r := range s.ranks {
		list[i] = r.statistics()
	}
	return list
}

func (r *rank) statistics() RankStats {
	s := RankStats{Rank: int(r.number), Loader: r.loader.Stats(), Segments: len(r.arena.all()),
		RingBytes: r.arena.size(nil), OnDevice: r.deviceBytes(), Consumers: []PeerStats{}}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Sent, s.Done, s.Waiting, s.Epoch, s.Next = r.sent, r.done, r.waiting, r.place.epoch, r.place.next
	for p := range r.peers {
		if len(s.Consumers) == mostListed {
			break
		}
		c := PeerStats{PID: p.pid, Held: len(p.held), Done: p.done}
		for _, since := range p.held {
			c.OldestHeld = max(c.OldestHeld, now.Sub(since).Seconds())
		}
		s.Consumers = append(s.Consumers, c)
	}
	return s
}
