package formats

import "testing"

// SmallChunks makes chunks of 64 KiB, and columns partial that have as much, for tests of other packages' types.
func SmallChunks(t testing.TB, opt WriterOptions) WriterOptions {
	was := leastPartial
	leastPartial = 64 << 10
	t.Cleanup(func() { leastPartial = was })
	opt.chunkBytes = 64 << 10
	return opt
}

// ScratchDir is a temporary directory in memory where there is one.
var ScratchDir = scratchDir

// Impatient makes clients that do not wait for long.
var Impatient = impatient
