// Package tier defines a tier of memory, which brings the rows of columns to batches. Package loader has seven.
// Residence and the options of devices choose six of them: the source's memory (mapped), copies of it (resident), files
// (disk), copies through page-locked memory to a device, the cache of a device, and the caches of its peers. The
// seventh is for columns of other machines for which this one has no room. loader.Hooks takes another tier, from any
// module; examples/tier has one whose rows come over a pipe.
//
// A placed source opens a Tier once. Each worker of its loaders has a Reader, and makes one batch at a time: it begins
// to fetch the rows of all arrays, does its other work, and finishes.
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
	// together, Batches and Scratch for each. It is called with several bounds, also before Open.
	Cost(b Bound) Memory
	// Open makes the rows of columns available. With an error, no loader is made.
	Open(ctx context.Context, env Env) error
	// Reader returns the Reader of one worker of a loader.
	Reader(w Worker) (Reader, error)
	// Stats returns the counts so far.
	Stats() (Stats, error)
	// Close frees all memory. All readers are closed by then. It is called also if Open was not.
	Close() error
}

// Chooser is a Tier that does not have all columns. Columns that Has refuses come as they would without the tier.
type Chooser interface {
	Tier
	Has(c *Column) bool
}

// Reader fetches rows for one worker. One goroutine at a time uses it, for one slot at a time.
type Reader interface {
	// Begin begins to fetch the rows of an array of the slot's batch. done reports whether all rows are complete;
	// otherwise they are when Finish has returned, and the memory of w.IDs may change before that.
	Begin(ctx context.Context, s Slot, w Want) (done bool, err error)
	// Finish waits for all fetches of the slot, and returns how long it waited for rows.
	Finish(ctx context.Context, s Slot) (waited time.Duration, err error)
	// Cancel drops the fetches since the last Finish: when it returns, nothing writes to the slot any more.
	Cancel()
	// Close frees the reader. No fetch is running.
	Close() error
}

// Done has the other methods of a Reader whose Begin always fetches all rows before it returns.
type Done struct{}

// Finish does nothing.
func (Done) Finish(context.Context, Slot) (time.Duration, error) { return 0, nil }

// Cancel does nothing.
func (Done) Cancel() {}

// Close does nothing.
func (Done) Close() error { return nil }

// Early is a Reader that knows which rows a batch will need before it is sampled.
type Early interface {
	Reader
	// Expect begins to fetch rows for the slot, whose Turn says which batch it gets, and returns how long it waited for
	// rows. Begin later names the rows.
	Expect(ctx context.Context, s Slot) (waited time.Duration, err error)
}

// Slot is the memory of a batch that is being made.
type Slot interface {
	// Turn counts the batches that the loader makes in the epoch, or the part of one, from 1 on. It is 0 for a trial
	// batch, and for the answer to a request.
	Turn() uint64
	// Room returns host memory for this number of bytes of the rows of an array: the rows themselves if batches are
	// made on the CPU, else page-locked memory, from where they go to the device. A later call for the same array
	// returns the same memory, if that has room.
	Room(array int, bytes int64) ([]byte, error)
	// Rows takes the memory of an array for n rows, on the device if batches are made there, and returns it. Memory
	// from Room stays valid only if it had room for as much.
	Rows(array int, n int64) (unified.Tensor, error)
}

// Want names the rows of an array of a batch.
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
	Most     int64          // the most rows of it in all arrays of a batch together
}

// Bound has the greatest sizes of loaders that share a placed source.
type Bound struct {
	Columns         []Column // that the tier has
	Loaders         int      // that share the tier
	Workers, Slots  int      // of each
	Sampled, Worker int64    // bytes of a batch without rows, and of a sampler's scratch
	Batch           int64    // bytes of a batch
}

// Env has what a tier needs.
type Env struct {
	Columns  []Column                // that the tier has; Want.Column counts them
	Ledger   *pinned.Ledger          // counts memory, and keeps limits
	Progress func(done, total int64) // bytes; never nil
}

// Worker is the worker that a Reader reads for.
type Worker struct {
	Loader     any            // differs between the loaders that share a tier
	Ledger     *pinned.Ledger // of the loader
	Goroutines int            // that may copy rows at the same time
	// Stream is the stream on which a device's worker enqueues copies of rows; nil on the CPU, and for tiers that fill
	// host memory.
	Stream *device.Stream
}

// Memory is bytes of anonymous memory by purpose. Mapped files are not in it.
type Memory struct {
	Topology int64 `json:"topology"` // copies of the graph
	Columns  int64 `json:"columns"`  // copies and caches of columns
	Batches  int64 `json:"batches"`  // slots
	Scratch  int64 `json:"scratch"`  // other memory of samplers and tiers
}

// Total returns the sum over all purposes.
func (m Memory) Total() int64 {
	return sat.Add(sat.Add(m.Topology, m.Columns), sat.Add(m.Batches, m.Scratch))
}

// Stats counts what a tier has brought, as far as the tier counts.
type Stats struct {
	Rows  int64 // in all
	Hits  int64 // from the tier's own cache
	Peers int64 // from a peer's cache
	Saved int64 // bytes not read because of caches
}

// Add adds the counts of another tier.
func (s *Stats) Add(t Stats) {
	s.Rows += t.Rows
	s.Hits += t.Hits
	s.Peers += t.Peers
	s.Saved += t.Saved
}

// DiskStats counts the reads from disk for columns that stay there.
type DiskStats struct {
	disk.Counts
	Probe disk.Probe `json:"probe"`
	// CacheRows are the most rows that caches hold, Lookahead the batches that are known ahead now.
	CacheRows int64 `json:"cache_rows"`
	Lookahead int   `json:"lookahead"`
	// Pack is how rows of each column are packed; empty without PackBytes.
	Pack []disk.PackState `json:"pack,omitempty"`
}

// TopologyStats counts the reads from disk of a topology that stays there, for all loaders that share it. How long
// workers waited for it is in Stats.Disk.
type TopologyStats struct {
	disk.PageCounts
	Bytes int64 `json:"topology_bytes"` // of the arrays on disk
	// CacheBytes is the most bytes of pages that are assumed to be in memory: Options.Disk.CacheBytes.
	CacheBytes int64      `json:"cache_bytes"`
	Probe      disk.Probe `json:"probe"`
}

// PlacedArray says where the kernels of a device find an array of the source.
type PlacedArray struct {
	Array string      `json:"array"` // "indptr", "column feature"
	Bytes int64       `json:"bytes"`
	Rung  pinned.Rung `json:"rung"`
	// Refused are the better rungs, and the reasons against them.
	Refused []pinned.Step `json:"refused,omitempty"`
	// CachedRows are the rows of a column, or the edges, of which device memory has copies.
	CachedRows int64 `json:"cached_rows,omitempty"`
	// PeerRows are the rows that are read from the memory of other devices.
	PeerRows int64 `json:"peer_rows,omitempty"`
	// Pages is the result of measuring its pages, with PagesMeasured; nil if there was no choice.
	Pages *PageTrial `json:"pages,omitempty"`
	// Carry says how the device gets the rows of a column, if kernels do not read them: "copies", "disk" or "tier". For
	// a topology that the CPU samples it is "disk".
	Carry string `json:"carry,omitempty"`
}

// PageTrial is the result of measuring the pages of a column.
type PageTrial struct {
	// Copied says whether the column was copied to huge pages.
	Copied bool `json:"copied"`
	// Bytes are the bytes of the rows gathered each time; 0 if nothing was measured.
	Bytes int64 `json:"bytes"`
	// Registered and Copy are the least times on the device, in milliseconds: from the file's own pages, and from a
	// copy on huge pages.
	Registered float64 `json:"registered_ms"`
	Copy       float64 `json:"copy_ms"`
	// Why is the reason for the choice.
	Why string `json:"why"`
}
