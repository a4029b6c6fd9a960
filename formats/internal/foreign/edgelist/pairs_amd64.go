//go:build !purego

package edgelist

import "golang.org/x/sys/cpu"

// pairsVectors says that this processor has what pairs32 needs.
var pairsVectors = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2
