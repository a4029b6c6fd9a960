//go:build cuda && cgo && linux && (amd64 || arm64)

package cudatest

import (
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
)

// Space is where memory lies.
type Space int

// Host is page-locked or registered memory, which kernels reach over the bus; Device is memory of the device.
const (
	Host Space = iota
	Device
)

// Traffic is what kernels asked of a memory: warp instructions, the lanes that took part, and the 32-byte sectors and
// 128-byte lines that each instruction touched, added up. Caches are left out. Nothing is counted before
// Checks(t, "lines").
type Traffic struct {
	Instructions, Lanes, Sectors, Lines uint64
}

// Launches is how often a kernel has run since ResetStats. On a real device those are counted that came through kernels
// loaded since a test first asked.
func Launches(kernel string) int64 { return int64(launchesOf(kernel)) }

// Kernels returns the names of the kernels that the simulator has.
func Kernels(t testing.TB) []string {
	t.Helper()
	NeedSimulator(t)
	return strings.Fields(kernelNames())
}

func kernelCounts(t testing.TB, kernel string) counts {
	t.Helper()
	NeedSimulator(t)
	if settings := allSettings(); !strings.Contains(settings, "lines") {
		t.Fatalf("nothing is counted with %s: cudatest.Checks(t, \"lines\")", settings)
	}
	c, known := countsOf(kernel)
	if !known {
		t.Fatalf("there is no kernel %s in the simulator: make cudasim", kernel)
	}
	return c
}

// Reads is what a kernel has read of host or device memory since ResetStats, in all its launches.
func Reads(t testing.TB, kernel string, s Space) Traffic {
	t.Helper()
	return kernelCounts(t, kernel).traffic[s][0]
}

// Writes is what a kernel has written, atomics included.
func Writes(t testing.TB, kernel string, s Space) Traffic {
	t.Helper()
	return kernelCounts(t, kernel).traffic[s][1]
}

// Lines is the 128-byte lines that a kernel has read and written.
func Lines(t testing.TB, kernel string, s Space) uint64 {
	t.Helper()
	return Reads(t, kernel, s).Lines + Writes(t, kernel, s).Lines
}

// Sectors is the 32-byte sectors that a kernel has read and written.
func Sectors(t testing.TB, kernel string, s Space) uint64 {
	t.Helper()
	return Reads(t, kernel, s).Sectors + Writes(t, kernel, s).Sectors
}

// FreshBytes is the bytes of the host's memory, to 4 bytes, that a kernel has read and that none had read before.
func FreshBytes(t testing.TB, kernel string) uint64 {
	t.Helper()
	return kernelCounts(t, kernel).fresh
}

// Longest is the reads of the warp that waited for the most of them, of all launches of a kernel added up: instructions
// that wait for memory one after the other, unless the compiler has some of them overlap. Atomics are left out, and
// reads of lines that the warp has read not long before (8 KiB).
func Longest(t testing.TB, kernel string, s Space) uint64 {
	t.Helper()
	return kernelCounts(t, kernel).longest[s]
}

// LinesAt counts what all kernels have read of the allocation or registered range around an address since ResetStats:
// warp instructions, lanes, sectors, lines. All are 0 on a real device.
func LinesAt(a device.Address) [4]uint64 {
	if !simulated() {
		return [4]uint64{}
	}
	rw, _ := trafficAt(a)
	return [4]uint64{rw[0].Instructions, rw[0].Lanes, rw[0].Sectors, rw[0].Lines}
}

// ResetStats sets all counts to 0.
func ResetStats(t testing.TB) {
	t.Helper()
	forgetCounts()
}
