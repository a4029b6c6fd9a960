//go:build !purego

package sampling

import "golang.org/x/sys/cpu"

// haveRelabel32 reports whether relabel32 and loadSources32 run on this processor, haveSubset16 whether subset8 and
// subset16 do, haveLook8 whether look8 and what goes with it does. They are variables for tests.
var (
	haveRelabel32 = true
	haveSubset16  = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512CD && cpu.X86.HasAVX512VL
	haveLook8     = haveSubset16 && cpu.X86.HasPOPCNT
)
