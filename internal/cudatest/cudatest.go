//go:build cuda && cgo && linux && (amd64 || arm64)

package cudatest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
)

// Simulated reports whether the driver is the simulator. With KHOP_CUDASIM_POSE=1 that poses as a real one.
func Simulated() bool { return simulated() }

// NeedSimulator skips a test of the simulator itself on a real device. Other tests need none of it.
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
	takeFindings() // of a test that did not look
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
func Findings() []string { return takeFindings() }

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
//
// A real device keeps its own order and has no checks. It is made to look as if it had less memory, or lacked what an
// attribute stands for; what it does lack skips the test, as other settings do.
func Configure(t testing.TB, settings string) {
	t.Helper()
	if !simulated() {
		pretendUntilEnd(t, settings)
		return
	}
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

func pretendUntilEnd(t testing.TB, settings string) {
	t.Helper()
	memory, attributes := uint64(0), map[int]int{}
	for _, s := range strings.Split(settings, ",") {
		name, text, _ := strings.Cut(s, "=")
		value, err := strconv.Atoi(text)
		number, isAttribute := strings.CutPrefix(name, "attr")
		switch {
		case name == "order" || name == "seed" || name == "checks":
		case name == "memory" && err == nil:
			memory = uint64(value)
		case isAttribute && err == nil:
			a, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			attributes[a] = value
			needAttribute(t, device.Attr(a), value)
		default:
			t.Skipf("a real device cannot be given %s", s)
		}
	}
	pretend(memory, attributes)
	t.Cleanup(func() { pretend(0, nil) })
}

func needAttribute(t testing.TB, a device.Attr, least int) {
	t.Helper()
	d, err := device.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if have := d.Attribute(a); have < least {
		t.Skipf("attribute %d of this device is %d, and cannot be %d", a, have, least)
	}
}

// Checks says which checks run until the test ends: see Configure. A real device has none, which skips the test.
func Checks(t testing.TB, checks string) {
	t.Helper()
	NeedSimulator(t)
	Configure(t, "checks="+checks)
}

// SetAttribute gives the device an attribute, by the driver's number, until the test ends.
func SetAttribute(t testing.TB, a device.Attr, value int) {
	t.Helper()
	Configure(t, fmt.Sprintf("attr%d=%d", int(a), value))
}

// SetMemory limits the memory of the device until the test ends.
func SetMemory(t testing.TB, bytes int64) {
	t.Helper()
	Configure(t, fmt.Sprintf("memory=%d", bytes))
}

// Fail lets the nth call of a driver function from now (1: the next) answer a code of the driver. "kernel:<name>" lets
// the nth run of a kernel fail; codes that lose a device, such as 700, then do so. Report forgets what has not come.
func Fail(t testing.TB, function string, nth, code int) {
	t.Helper()
	simulated() // puts between.c in front of a real driver
	failCall(function, nth, code)
}

// FailAllocations lets every call fail that takes or gives back memory, until Report: for a test of what allocates
// nothing any more.
func FailAllocations(t testing.TB) {
	t.Helper()
	for _, call := range []string{"cuMemAlloc", "cuMemHostAlloc", "cuMemHostRegister", "cuStreamCreateWithPriority",
		"cuModuleLoadDataEx", "cuMemFree", "cuMemFreeHost", "cuMemHostUnregister"} {
		Fail(t, call, 1, 700)
	}
}

// Schedule is a number that depends on every choice of a lane since the settings last changed.
func Schedule(t testing.TB) uint64 {
	t.Helper()
	NeedSimulator(t)
	return scheduleNow()
}

// Live is what a process has of a device. Of a real one, what was made since a test first asked.
type Live struct {
	Allocations, HostRanges, Streams, Events, Modules int
	Bytes                                             int64 // of device memory
}

// NowLive counts what is alive, for a test of what something leaves behind.
func NowLive(t testing.TB) Live {
	t.Helper()
	return liveNow()
}
