//go:build !purego

package sampling

import "golang.org/x/sys/cpu"

// haveSubset16 reports whether subset16 runs on this processor. It is a variable for tests.
var haveSubset16 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512CD && cpu.X86.HasAVX512VL

// subset16 is subset for 1 <= k <= 16 picks and k < n < 2^32: all draws at once, one a lane, then a bitonic sort. Where
// the masks take 80-400 ns for 15 picks it takes about 20, whatever the degree.
//
//go:noescape
func subset16(pos *int64, k int, stream uint64, start int64, n uint64)
