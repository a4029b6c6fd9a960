//go:build !purego

package sampling

// haveRelabel32 reports whether relabel32 and loadSources32 run on this processor. It is a variable for tests.
var haveRelabel32 = true
