// Package cudatest helps tests of device code: it opens the device under test, fails a test on whatever the simulated
// driver finds in it, and reads that driver's counts.
//
// # Basics
//
// Open gives a test its device; what the simulator finds until the test ends fails the test. EachOrder runs a test in
// several orders of the lanes and streams: what depends on one of them is a bug. Launches, Reads, Writes and LinesAt
// count what kernels did. Configure, Fail and SetMemory make the device another one, or let it fail. All of it is built
// with -tags cuda only.
//
// # Caveats
//
// The driver is one for the process: tests that use this package must not run in parallel. A real driver finds nothing
// and counts no lines: what needs that skips the test. Launches, NowLive, Fail and SetMemory work there, too, for
// kernels and memory that were made after the first call of this package.
package cudatest
