package shm

import "github.com/khop-gnn/khop/loader"

// RankStats says what one ring has done, and what it waits for.
type RankStats struct {
	Rank     int           `json:"rank"`
	Loader   loader.Stats  `json:"loader"`
	Report   loader.Report `json:"report"` // of the run under way, or the last one
	Segments int           `json:"segments"`
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
