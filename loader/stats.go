package loader

import (
	"sync/atomic"
	"time"

	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// Memory is bytes of anonymous memory by purpose. Mapped files are not in it.
type Memory = tier.Memory

// Durations describes how long a stage took, batch by batch. Quantiles are exact to 6 %.
type Durations struct {
	Count uint64        `json:"count"`
	Sum   time.Duration `json:"sum_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
	// Below[i] counts those that were shorter than 2^(13+i) nanoseconds, exactly: 8 us to 17 s.
	Below [22]uint64 `json:"-"`
}

// Stats says what a loader has done since New. It counts batches when the loop receives them.
type Stats struct {
	Batches uint64 `json:"batches"`
	Nodes   uint64 `json:"nodes"` // of all types
	Edges   uint64 `json:"edges"` // sampled; layers that are views of one another (sampling.NewNodes) count once
	Rows    uint64 `json:"rows"`  // gathered, over all columns
	Bytes   uint64 `json:"bytes"` // gathered

	Links     uint64 `json:"links"`     // seeds that are edges
	Negatives uint64 `json:"negatives"` // that were drawn for them
	// NegativesMissed are those that every try refused (sampling.Negatives).
	NegativesMissed uint64 `json:"negatives_missed"`

	Sample  Durations `json:"sample"`  // a worker's time to sample
	Gather  Durations `json:"gather"`  // a worker's time to gather
	Disk    Durations `json:"disk"`    // a worker's time to wait for a disk (Residence Disk)
	Idle    Durations `json:"idle"`    // how long a worker waited for a free slot
	Deliver Durations `json:"deliver"` // how long a finished batch waited for the loop
	Wait    Durations `json:"wait"`    // how long the loop waited for a batch
	Body    Durations `json:"body"`    // how long the loop body took

	Device  string `json:"device"`  // where batches are made
	Replays uint64 `json:"replays"` // batches that a device sampled again, into more memory

	// DeviceRows are the rows that a device has gathered up to the end of the last epoch, DeviceHits those of them from
	// its cache, DevicePeers those from other devices' caches, and DeviceSaved the bytes of both, which were not read
	// over the bus.
	DeviceRows  int64 `json:"device_rows"`
	DeviceHits  int64 `json:"device_hits"`
	DevicePeers int64 `json:"device_peers"`
	DeviceSaved int64 `json:"device_saved"`

	OnDisk *tier.DiskStats `json:"on_disk,omitempty"` // columns on disk; nil without such columns
	// TopologyOnDisk is the topology on disk; nil if it is not on disk.
	TopologyOnDisk *tier.TopologyStats `json:"topology_on_disk,omitempty"`

	Memory     Memory `json:"memory"`      // held now
	MemoryPeak int64  `json:"memory_peak"` // the most that was ever held
	// DeviceMemory is the device memory held now, DeviceMemoryPeak the most ever held.
	DeviceMemory     Memory `json:"device_memory"`
	DeviceMemoryPeak int64  `json:"device_memory_peak"`

	Slots     int `json:"slots"`      // in all
	SlotsHeld int `json:"slots_held"` // by batches that were kept
}

// Stats returns what the loader has done so far. It may be called at any time, also after Close.
func (l *Loader) Stats() Stats {
	c := &l.stats
	took := func(h *makers.Histogram) Durations { return Durations(h.Durations()) }
	s := Stats{
		Batches: c.batches.Load(), Nodes: c.nodes.Load(), Edges: c.edges.Load(), Rows: c.rows.Load(),
		Bytes: c.bytes.Load(), Links: c.links[0].Load(), Negatives: c.links[1].Load(),
		NegativesMissed: c.links[2].Load(), Replays: c.Replays.Load(),
		Sample: took(&c.Sample), Gather: took(&c.Gather), Disk: took(&c.Disk), Idle: took(&c.idle),
		Deliver: took(&c.ready), Wait: took(&c.wait), Body: took(&c.body),
		OnDisk: l.onDisk(), TopologyOnDisk: l.plan.Paged.Stats(), Device: l.plan.On.String(),
		Memory: l.memory(), MemoryPeak: l.ledger.Peak(), Slots: len(l.slots),
		DeviceMemory: l.deviceMemory(), DeviceMemoryPeak: l.ledger.DevicePeak(),
	}
	if t := c.tiers.Load(); t != nil {
		s.DeviceRows, s.DeviceHits, s.DevicePeers, s.DeviceSaved = t.Rows, t.Hits, t.Peers, t.Saved
	}
	l.mu.Lock()
	s.SlotsHeld = l.held
	l.mu.Unlock()
	return s
}

// onDisk says what was read of columns on disk; nil where there are none.
func (l *Loader) onDisk() *tier.DiskStats {
	if l.ahead == nil {
		return nil
	}
	s := &tier.DiskStats{Probe: l.plan.Set.Disk.Files.Probe()}
	s.Counts, s.Pack, s.CacheRows, s.Lookahead = l.ahead.Report()
	return s
}

func (l *Loader) memory() Memory { return byPurpose(l.ledger.Used) }

func (l *Loader) deviceMemory() Memory { return byPurpose(l.ledger.DeviceUsed) }

func byPurpose(used func(pinned.Purpose) int64) Memory {
	return Memory{Topology: used(pinned.Topology), Columns: used(pinned.Columns), Batches: used(pinned.Batches),
		Scratch: used(pinned.Scratch)}
}

// totals is what Stats reads.
type totals struct {
	makers.Counters                    // of workers
	tiers                              atomic.Pointer[tier.Stats]
	batches, nodes, edges, rows, bytes atomic.Uint64
	links                              [3]atomic.Uint64 // as layout.LinkCounts
	ready, wait, body, idle            makers.Histogram
}

// count adds a delivered batch.
func (c *totals) count(s *slots.Slot) {
	nodes, edges, rows, bytes := int64(0), int64(0), int64(0), int64(0)
	for _, n := range s.Sample.NumNodes[len(s.Sample.NumNodes)-1] {
		nodes += n
	}
	for i := range s.Recipe.Arrays {
		switch a := &s.Recipe.Arrays[i]; {
		case a.Kind != layout.Indices && !a.IsColumn() || s.IsView(i):
		case a.Kind == layout.Indices:
			edges += s.Tensor(i).Len()
		default:
			t := s.Tensor(i)
			rows += t.Len()
			bytes += int64(len(t.Bytes()))
		}
	}
	for e := range s.LinkCounts {
		for i, n := range s.LinkCounts[e] {
			c.links[i].Add(uint64(n))
		}
	}
	c.batches.Add(1)
	c.nodes.Add(uint64(nodes))
	c.edges.Add(uint64(edges))
	c.rows.Add(uint64(rows))
	c.bytes.Add(uint64(bytes))
}
