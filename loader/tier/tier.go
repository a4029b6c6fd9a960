// Package tier says what a tier of memory is: what brings the rows of columns to batches. Package loader has seven. Six
// are chosen by Residence and the options of devices: the source's memory (mapped), copies of it (resident), files
// (disk), copies through page-locked memory to a device, the cache of a device, and the caches of its peers. One is of
// columns from elsewhere for which this machine has no room.
// loader.Hooks takes another one, from any module; examples/tier has one whose rows come over a pipe.
//
// A placed source opens a Tier once. Each worker of its loaders has a Reader, and makes one batch at a time: it begins
// to fetch the rows of all arrays, then finishes. Between both it does what else there is to do.
package tier

import (
	"context"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Tier brings rows of columns from one place. A Tier is used for one placed source. Its methods other than Open and
// Close may be called by any number of goroutines.
type Tier interface {
	// Cost returns the anonymous memory that the tier takes for batches within a bound: Columns for all loaders
	// together, Batches and Scratch for each. It is called for several bounds, also before Open.
	Cost(b Bound) Memory
	// Open makes the rows of columns available. The error ends the making of a loader.
	Open(ctx context.Context, env Env) error
	// Reader returns what reads for one worker of a loader.
	Reader(w Worker) (Reader, error)
	// Stats says what was read so far.
	Stats() (Stats, error)
	// Close frees all memory. All readers are closed by then. A Tier that was not opened is closed too.
	Close() error
}

// Chooser is a Tier that does not have all columns. Those that Has refuses come as they would without the tier.
type Chooser interface {
	Tier
	Has(c *Column) bool
}

// Reader fetches rows for one worker. One goroutine at a time uses it, for one slot at a time.
type Reader interface {
	// Begin begins to fetch the rows of an array of the slot's batch. It reports whether they are all there: else they
	// are once Finish has returned, and the memory of w.IDs may change before.
	Begin(ctx context.Context, s Slot, w Want) (done bool, err error)
	// Finish waits for all that was begun for the slot, and returns how long it waited for rows.
	Finish(ctx context.Context, s Slot) (waited time.Duration, err error)
	// Cancel gives up what was begun since the last Finish: nothing writes to the slot any more when it returns.
	Cancel()
	// Close frees the reader. Nothing is under way.
	Close() error
}

// Done is the rest of a Reader whose Begin has always fetched all rows when it returns.
type Done struct{}

// Finish has nothing to wait for.
func (Done) Finish(context.Context, Slot) (time.Duration, error) { return 0, nil }

// Cancel has nothing to give up.
func (Done) Cancel() {}

// Close has nothing to free.
func (Done) Close() error { return nil }

// Early is a Reader that knows which rows a batch will need before it is sampled.
type Early interface {
	Reader
	// Expect begins to fetch for the slot, whose Turn says which batch it gets, and returns how long it waited for
	// rows. Begin then says which rows those are.
	Expect(ctx context.Context, s Slot) (waited time.Duration, err error)
}

// Slot is the memory of a batch that is being made.
type Slot interface {
	// Turn counts the batches of the epoch, or the part of one, that the loader makes, from 1 on. It is 0 for a batch
	// on trial, or that was asked for alone.
	Turn() uint64
	// Room returns host memory for this number of bytes of the rows of an array: the rows themselves where batches are
	// made on the CPU, else page-locked memory, from where they go to the device. A later call for the same array
	// returns the same memory where that has room.
	Room(array int, bytes int64) ([]byte, error)
	// Rows takes the memory of an array for n rows, which is on the device where batches are made there, and returns
	// it. What Room returned stays valid only where it had as much.
	Rows(array int, n int64) (unified.Tensor, error)
}

// Want is the rows that an array of a batch wants.
type Want struct {
	Array  int            // the number of the array in Loader.Arrays
	Column int            // the number of its column in Env.Columns
	IDs    unified.Tensor // int32 or int64 [n]: row i of the array is row IDs[i] of the column
}

// Column is a column of the source.
type Column struct {
	Name     string
	NodeType int            // -1: it is of the edges
	Type     string         // the name of its node type; "": it is of the edges
	Data     unified.Tensor // [rows, ...], where the source has it
	Most     int64          // rows that the arrays of a batch have of it at most, in all
}

// Bound is what loaders that share a placed source have at most.
type Bound struct {
	Columns         []Column // that the tier has
	Loaders         int      // that share the tier
	Workers, Slots  int      // of each
	Sampled, Worker int64    // bytes of a batch without rows, and of a sampler's scratch
	Batch           int64    // bytes of a batch
}

// Env is what a tier works with.
type Env struct {
	Columns  []Column                // that the tier has; Want.Column counts them
	Ledger   *pinned.Ledger          // counts memory, and keeps limits
	Progress func(done, total int64) // bytes; never nil
}

// Worker is who a Reader reads for.
type Worker struct {
	Loader     any            // tells apart the loaders that share a tier
	Ledger     *pinned.Ledger // of the loader
	Goroutines int            // that may copy rows at a time
	// Stream is where a device's worker enqueues what brings rows; nil on the CPU, and for tiers that fill host memory.
	Stream *device.Stream
}

// Memory is bytes of anonymous memory by purpose. Mapped files are not in it.
type Memory struct {
	Topology int64 `json:"topology"` // copies of the graph
	Columns  int64 `json:"columns"`  // copies and caches of columns
	Batches  int64 `json:"batches"`  // slots
	Scratch  int64 `json:"scratch"`  // what samplers and tiers need besides
}

// Total returns the sum over all purposes.
func (m Memory) Total() int64 {
	return sat.Add(sat.Add(m.Topology, m.Columns), sat.Add(m.Batches, m.Scratch))
}

// Add returns the sum, purpose by purpose.
func (m Memory) Add(n Memory) Memory {
	return Memory{sat.Add(m.Topology, n.Topology), sat.Add(m.Columns, n.Columns), sat.Add(m.Batches, n.Batches),
		sat.Add(m.Scratch, n.Scratch)}
}

// Stats says what a tier has brought, as far as it counts that.
type Stats struct {
	Rows  int64 // in all
	Hits  int64 // out of a cache of the tier's own
	Peers int64 // out of a peer's cache
	Saved int64 // bytes that caches have spared
}

// Add adds what another tier has brought.
func (s *Stats) Add(t Stats) {
	s.Rows += t.Rows
	s.Hits += t.Hits
	s.Peers += t.Peers
	s.Saved += t.Saved
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

// TopologyStats says what was read from disk of a topology that stays there, for all loaders that share it. How long
// workers waited for it is in Stats.Disk.
type TopologyStats struct {
	disk.PageCounts
	Bytes int64 `json:"topology_bytes"` // of the arrays on disk
	// CacheBytes of pages are taken to be in memory at most: Options.Disk.CacheBytes.
	CacheBytes int64      `json:"cache_bytes"`
	Probe      disk.Probe `json:"probe"`
}

// PlacedArray says where the kernels of a device find an array of the source.
type PlacedArray struct {
	Array string      `json:"array"` // "indptr", "column feature"
	Bytes int64       `json:"bytes"`
	Rung  pinned.Rung `json:"rung"`
	// Refused are the better ways to let the device address it, and why they were not taken.
	Refused []pinned.Step `json:"refused,omitempty"`
	// CachedRows are the rows of a column, or the edges, that are in device memory besides.
	CachedRows int64 `json:"cached_rows,omitempty"`
	// PeerRows are the rows that are read from the memory of other devices.
	PeerRows int64 `json:"peer_rows,omitempty"`
	// Pages is what measuring its pages found, with PagesMeasured; nil where nothing was to be chosen.
	Pages *PageTrial `json:"pages,omitempty"`
	// Carry is who brings the device the rows of a column, where kernels do not read them: "copies", "disk" or
	// "tier". Of a topology that the CPU samples it is "disk".
	Carry string `json:"carry,omitempty"`
}

// PageTrial is what measuring the pages of a column found.
type PageTrial struct {
	// Copied says whether the column was copied to huge pages.
	Copied bool `json:"copied"`
	// Bytes are those of the rows that were gathered each time; 0 where nothing was measured.
	Bytes int64 `json:"bytes"`
	// Registered and Copy are the least times on the device, in milliseconds: from the file's own pages, and from a
	// copy on huge pages.
	Registered float64 `json:"registered_ms"`
	Copy       float64 `json:"copy_ms"`
	// Why says what decided.
	Why string `json:"why"`
}
