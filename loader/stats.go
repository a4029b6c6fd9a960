package loader

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
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
}

// DiskStats says what was read from disk for columns that stay there.
type DiskStats struct {
	disk.Counts
	Probe disk.Probe `json:"probe"`
	// CacheRows are the rows that caches hold at most, Lookahead the batches that are known ahead at present.
	CacheRows int64 `json:"cache_rows"`
	Lookahead int   `json:"lookahead"`
	// Pack is how rows of each column are packed; empty without PackBytes.
	Pack []disk.PackState `json:"pack,omitempty"`
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
	// NegativesMissed are those that were refused at every try (sampling.Negatives).
	NegativesMissed uint64 `json:"negatives_missed"`

	Sample  Durations `json:"sample"`  // a worker's time to sample
	Gather  Durations `json:"gather"`  // a worker's time to gather
	Disk    Durations `json:"disk"`    // a worker's time to wait for a disk (Residence Disk)
	Deliver Durations `json:"deliver"` // how long a finished batch stood ready before the loop asked for it
	Wait    Durations `json:"wait"`    // how long the loop waited for a batch
	Body    Durations `json:"body"`    // how long the loop body took

	Device  string `json:"device"`  // where batches are made
	Replays uint64 `json:"replays"` // batches that a device sampled again, into more memory

	// DeviceRows are the rows that a device has gathered up to the last epoch's end, DeviceHits those of them that its
	// cache had, DevicePeers those that other devices' caches had, DeviceSaved the bytes of both, which were not read
	// over the bus.
	DeviceRows  int64 `json:"device_rows"`
	DeviceHits  int64 `json:"device_hits"`
	DevicePeers int64 `json:"device_peers"`
	DeviceSaved int64 `json:"device_saved"`

	OnDisk *DiskStats `json:"on_disk,omitempty"` // columns on disk; nil where there are none
	// TopologyOnDisk is the topology on disk; nil where it is not there.
	TopologyOnDisk *TopologyStats `json:"topology_on_disk,omitempty"`

	Memory     Memory `json:"memory"`      // held now
	MemoryPeak int64  `json:"memory_peak"` // the most that was ever held
	// DeviceMemory is what is held in device memory now, DeviceMemoryPeak the most that ever was.
	DeviceMemory     Memory `json:"device_memory"`
	DeviceMemoryPeak int64  `json:"device_memory_peak"`

	Slots     int `json:"slots"`      // in all
	SlotsHeld int `json:"slots_held"` // by batches that were kept

	Meters *Meters `json:"meters,omitempty"` // what loading costs since Loader.Meter; nil where that was not called
}

// Stats returns what the loader has done so far. It may be called at any time, also after Close.
func (l *Loader) Stats() Stats {
	c := &l.stats
	s := Stats{
		Batches: c.batches.Load(), Nodes: c.nodes.Load(), Edges: c.edges.Load(), Rows: c.rows.Load(),
		Bytes: c.bytes.Load(), Sample: c.sample.durations(), Gather: c.gather.durations(), Deliver: c.ready.durations(),
		Wait: c.wait.durations(), Body: c.body.durations(), Disk: c.disk.durations(), OnDisk: l.onDisk(),
		TopologyOnDisk: l.paged.stats(),
		Links:          c.links[0].Load(), Negatives: c.links[1].Load(), NegativesMissed: c.links[2].Load(),
		Device: l.opt.Device.Name, Replays: c.replays.Load(),
		Memory: l.memory(), MemoryPeak: l.ledger.Peak(), Slots: len(l.slots),
		DeviceMemory: l.deviceMemory(), DeviceMemoryPeak: l.ledger.DevicePeak(),
		Meters: l.metering.report(),
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
func (l *Loader) onDisk() *DiskStats {
	if l.ahead == nil {
		return nil
	}
	s := &DiskStats{Probe: l.split.Files.Probe()}
	s.Counts, s.Pack, s.CacheRows, s.Lookahead = l.ahead.Report()
	return s
}

func (l *Loader) memory() Memory {
	return Memory{
		Topology: l.ledger.Used(pinned.Topology), Columns: l.ledger.Used(pinned.Columns),
		Batches: l.ledger.Used(pinned.Batches), Scratch: l.ledger.Used(pinned.Scratch),
	}
}

func (l *Loader) deviceMemory() Memory {
	return Memory{
		Topology: l.ledger.DeviceUsed(pinned.Topology), Columns: l.ledger.DeviceUsed(pinned.Columns),
		Batches: l.ledger.DeviceUsed(pinned.Batches), Scratch: l.ledger.DeviceUsed(pinned.Scratch),
	}
}

// counters is what Stats reads.
type counters struct {
	replays                            atomic.Uint64
	tiers                              atomic.Pointer[tier.Stats]
	batches, nodes, edges, rows, bytes atomic.Uint64
	links                              [3]atomic.Uint64 // as ArrayLinkCounts
	sample, gather, disk               histogram
	ready, wait, body                  histogram
}

// count adds a delivered batch.
func (c *counters) count(s *slot) {
	nodes, edges, rows, bytes := int64(0), int64(0), int64(0), int64(0)
	for _, n := range s.sample.NumNodes[len(s.sample.NumNodes)-1] {
		nodes += n
	}
	for i := range s.recipe.arrays {
		switch a := &s.recipe.arrays[i]; {
		case a.Kind != ArrayIndices && !a.IsColumn() || s.isView(i):
		case a.Kind == ArrayIndices:
			edges += s.tensor(i).Len()
		default:
			t := s.tensor(i)
			rows += t.Len()
			bytes += int64(len(t.Bytes()))
		}
	}
	for e := range s.linkCounts {
		for i, n := range s.linkCounts[e] {
			c.links[i].Add(uint64(n))
		}
	}
	c.batches.Add(1)
	c.nodes.Add(uint64(nodes))
	c.edges.Add(uint64(edges))
	c.rows.Add(uint64(rows))
	c.bytes.Add(uint64(bytes))
}

// histogram counts durations in buckets of a sixteenth of a power of two. It is safe for concurrent use.
type histogram struct {
	n, sum, max atomic.Uint64
	buckets     [64 * 16]atomic.Uint32
}

func (h *histogram) add(d time.Duration) {
	v := uint64(max(0, d))
	h.n.Add(1)
	h.sum.Add(v)
	h.buckets[bucketOf(v)].Add(1)
	for {
		m := h.max.Load()
		if v <= m || h.max.CompareAndSwap(m, v) {
			return
		}
	}
}

// bucketOf returns the bucket of v: its highest bit and the four after it.
func bucketOf(v uint64) int {
	if v < 16 {
		return int(v)
	}
	e := bits.Len64(v) - 5
	return e<<4 + int(v>>e)
}

// topOf returns the greatest value of a bucket.
func topOf(bucket int) uint64 {
	if bucket < 32 {
		return uint64(bucket)
	}
	e := bucket>>4 - 1
	return uint64(bucket&15+16+1)<<e - 1
}

func (h *histogram) durations() Durations {
	d := Durations{Count: h.n.Load(), Sum: time.Duration(h.sum.Load()), Max: time.Duration(h.max.Load())}
	d.P50, d.P90, d.P99 = h.quantile(0.5, d), h.quantile(0.9, d), h.quantile(0.99, d)
	return d
}

func (h *histogram) quantile(q float64, d Durations) time.Duration {
	rank, seen := uint64(q*float64(d.Count)), uint64(0)
	for i := range h.buckets {
		seen += uint64(h.buckets[i].Load())
		if seen > rank {
			return min(time.Duration(topOf(i)), d.Max)
		}
	}
	return d.Max
}
