package tier

import "context"

// Remote brings rows of columns of nodes that no disk of this machine has. A loader asks it as it asks a disk: batches
// are sampled ahead, rows come before they are due, many at a time, and a cache keeps those that are needed soonest
// (loader.DiskOptions). Its methods may be called by any number of goroutines once Open has returned.
type Remote interface {
	// Has reports whether rows of a column come from here; the others come as they would without.
	Has(c *Column) bool
	// Open is called once, with the id of the dataset in hexadecimal, and compares what is there with the columns that
	// Has has chosen. The error ends the making of a loader.
	Open(ctx context.Context, dataset string, columns []Column) error
	// Fetch brings rows of the column numbered i in Open, one after another. Rows may repeat. Nothing writes to the
	// memory any more when it returns, which it does when ctx ends.
	Fetch(ctx context.Context, i int, rows []int64, to []byte) error
	// Close ends what is under way. One that was not opened is closed, too.
	Close() error
}
