package loader

import (
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
)

// ReadWith lets loaders read columns on disk with other options until the test ends.
func ReadWith(t testing.TB, opt disk.ReaderOptions) {
	had := readerOptions
	readerOptions = opt
	t.Cleanup(func() { readerOptions = had })
}
