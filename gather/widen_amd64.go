//go:build !purego

package gather

import "golang.org/x/sys/cpu"

// widenVectors says that there are kernels. Processors with AVX2 convert float16, too.
var widenVectors = cpu.X86.HasAVX2
