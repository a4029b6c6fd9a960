//go:build !amd64 || purego

package sparse

import "unsafe"

// variants returns those that this processor runs, the best first.
func variants() []variant { return []variant{plain} }

// Only amd64 computes in assembly: variants never returns what would come here.

func (r *spmmRun) sum(v variant, halves bool, lo, hi int) { panic("sparse: no such variant") }

func (r *denseRun) multiply(v variant) { panic("sparse: no such variant") }

func maskOf(v variant, width int) uint64 { panic("sparse: no such variant") }

func streamLines(v variant, dst, src unsafe.Pointer, n int) { panic("sparse: no such variant") }

func (r *sddmmRun) vectors(v variant, lo, hi int64) { panic("sparse: no such variant") }
