package tier

import "context"

// Remote brings rows of node columns that no disk of this machine has. A loader uses it as it uses a disk: it samples
// batches ahead, fetches rows before they are due, many at a time, and keeps those that are needed soonest in a cache
// (loader.DiskOptions). Its methods may be called by any number of goroutines once Open has returned.
type Remote interface {
	// Has reports whether this Remote brings the rows of a column; others come as they would without it.
	Has(c *Column) bool
	// Open is called once, with the id of the dataset in hexadecimal, and compares the remote dataset with the columns
	// that Has has chosen. With an error, no loader is made.
	Open(ctx context.Context, dataset string, columns []Column) error
	// Fetch brings rows of the column numbered i in Open, one after another. Rows may repeat. When ctx ends, Fetch
	// returns. When it has returned, nothing writes to the memory any more.
	Fetch(ctx context.Context, i int, rows []int64, to []byte) error
	// Close ends all fetches. It is called also if Open was not.
	Close() error
}
