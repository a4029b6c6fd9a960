package server

import (
	"strconv"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/loader"
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

// report says what the rank's loader waited for.
func (r *rank) report() loader.Report { return r.server.told(r.loader.Report()) }

// told is a report of a rank's loader with the server's names of options: its workers are shared out among its
// ranks, and consumers hold some of the batches that are ready.
func (s *Server) told(v loader.Report) loader.Report {
	n, err := strconv.Atoi(v.Value)
	switch {
	case err != nil:
	case v.Option == "workers":
		v.Value = strconv.Itoa(n * len(s.ranks))
	case v.Option == "prefetch":
		v.Value = strconv.Itoa(4 * s.opt.Loader.Tuning.Prefetch)
	}
	return v
}

func (r *rank) statistics() shm.RankStats {
	s := shm.RankStats{Rank: int(r.number), Loader: r.loader.Stats(), Report: r.report(), Segments: len(r.arena.all()),
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
