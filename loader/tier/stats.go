package tier

import (
	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/pinned"
)

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
	// "tier".
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
