//go:build !purego

package sampling

import "golang.org/x/sys/cpu"

// haveSubset16 reports whether subset16 runs on this processor. It is a variable for tests.
var haveSubset16 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512CD && cpu.X86.HasAVX512VL
