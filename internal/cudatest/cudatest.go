//go:build cuda && cgo && linux && (amd64 || arm64)

package cudatest

import (
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/device"
)

// Simulated reports whether the driver is the simulator.
func Simulated() bool { return simulated() }

// NeedSimulator skips a test on a real device.
func NeedSimulator(t testing.TB) {
	t.Helper()
	if !simulated() {
		t.Skip("needs the simulated device: make cudasim, and KHOP_CUDA_DRIVER=dist/libcudasim.so")
	}
}

// Open opens device 0 for a test, which fails where there is none. When the test ends, whatever the simulator has found
// fails it, and the device is closed.
func Open(t testing.TB) *device.Device {
	t.Helper()
	if simulated() {
		takeFindings() // of a test that did not look
	}
	d, err := device.Open(0)
	if err != nil {
		t.Fatalf("%v; for the simulated device run make cudasim and set KHOP_CUDA_DRIVER=dist/libcudasim.so", err)
	}
	t.Cleanup(func() {
		Report(t)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Report fails a test on whatever the simulator has found since it was last asked, with the lines of the kernels.
// Findings, failures that Fail announced and the loss of the device are forgotten.
func Report(t testing.TB) {
	t.Helper()
	for _, f := range Findings() {
		t.Error(f)
	}
}

// Findings is Report for tests that expect some: it returns them and forgets them. On a real device there are none.
func Findings() []string {
	if !simulated() {
		return nil
	}
	return takeFindings()
}

// EachOrder runs a test once for each of several orders of blocks, warps, lanes and streams: forward, reverse, and
// random ones from fixed seeds. On a real device it runs once.
func EachOrder(t *testing.T, test func(t *testing.T)) {
	if !simulated() {
		t.Run("device", test)
		return
	}
	for _, order := range []string{"order=forward", "order=reverse", "order=random,seed=1", "order=random,seed=2"} {
		t.Run(order, func(t *testing.T) {
			Configure(t, order)
			test(t)
		})
	}
}

// Configure changes settings of the simulator until the test ends. They are those of KHOP_CUDASIM: order (forward,
// reverse, random), seed, checks (all, default, none, or some of addresses, races, lines, lazy and host joined by +),
// memory, driver, devices, peers, attr<number>; separated by commas.
func Configure(t testing.TB, settings string) {
	t.Helper()
	NeedSimulator(t)
	before := allSettings()
	if wrong := setConfig(settings); wrong != "" {
		t.Fatalf("%s: %s", settings, wrong)
	}
	t.Cleanup(func() {
		restoreDefaults()
		if wrong := setConfig(before); wrong != "" {
			t.Errorf("%s: %s", before, wrong)
		}
	})
}

// Checks says which checks run until the test ends: see Configure.
func Checks(t testing.TB, checks string) {
	t.Helper()
	Configure(t, "checks="+checks)
}

// SetAttribute gives the device an attribute, by the driver's number, until the test ends.
func SetAttribute(t testing.TB, a device.Attr, value int) {
	t.Helper()
	Configure(t, fmt.Sprintf("attr%d=%d", int(a), value))
}

// SetMemory gives the device so many bytes of memory until the test ends.
func SetMemory(t testing.TB, bytes int64) {
	t.Helper()
	Configure(t, fmt.Sprintf("memory=%d", bytes))
}

// Fail lets the nth call of a driver function from now (1: the next) answer a code of the driver. "kernel:<name>" lets
// the nth run of a kernel fail; codes that lose a device, such as 700, then do so. Report forgets what has not come.
func Fail(t testing.TB, function string, nth, code int) {
	t.Helper()
	NeedSimulator(t)
	failCall(function, nth, code)
}

// Schedule is a number that depends on every choice of a lane since the settings last changed.
func Schedule(t testing.TB) uint64 {
	t.Helper()
	NeedSimulator(t)
	return scheduleNow()
}

// Live is what a process has of a device.
type Live struct {
	Allocations, HostRanges, Streams, Events, Modules int
	Bytes                                             int64 // of device memory
}

// NowLive counts what is alive, for a test of what something leaves behind.
func NowLive(t testing.TB) Live {
	t.Helper()
	NeedSimulator(t)
	return liveNow()
}
