package shm

import "github.com/khop-gnn/khop/loader"

// RankStats has the statistics of one ring, and what it waits for.
type RankStats struct {
	Rank     int           `json:"rank"`
	Loader   loader.Stats  `json:"loader"`
	Report   loader.Report `json:"report"` // of the run under way, or the last one
	Segments int           `json:"segments"`
	// bytes of the segments on the host; pages that were never touched take no memory
	RingBytes int64       `json:"ring_bytes"`
	OnDevice  int64       `json:"ring_device_bytes"` // of those on a device
	Sent      uint64      `json:"batches_sent"`
	Done      uint64      `json:"batches_done"` // acknowledged
	Epoch     uint64      `json:"epoch"`        // where the rank is
	Next      uint64      `json:"next"`
	Waiting   string      `json:"waiting"` // "loader", "consumer", or "" if neither waits
	Consumers []PeerStats `json:"consumers"`
}

// PeerStats says how many batches a consumer holds.
type PeerStats struct {
	PID        int     `json:"pid"`
	Held       int     `json:"held"`          // slots
	OldestHeld float64 `json:"oldest_held_s"` // since when, in seconds
	Done       uint64  `json:"done"`          // acknowledged of its run
}
