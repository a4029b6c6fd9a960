package loader

import "github.com/khop-gnn/khop/internal/enum"

// HostPages says on which pages of host memory a device reads columns that its memory does not have.
type HostPages uint8

const (
	// PagesByLadder takes the best rung of the ladder, which is the file's own pages wherever the driver registers
	// them: a copy reads all of the column first, and takes as much memory again.
	PagesByLadder HostPages = iota
	// PagesMeasured gathers random rows of a part of each column in New, from the file's own pages and from a copy on
	// huge pages, and copies the column where that is faster by more than a tenth and memory allows it. Columns below
	// 64 MiB, and those that another placed source of the process has attached, are taken as PagesByLadder does.
	PagesMeasured
)

var hostPages = []string{"ladder", "measured"}

// String returns the name on the command line.
func (p HostPages) String() string { return enum.Name(hostPages, p) }

// UnmarshalText is the inverse of String.
func (p *HostPages) UnmarshalText(text []byte) error {
	return enum.Parse(ErrOptions, "host pages", hostPages, text, p)
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
