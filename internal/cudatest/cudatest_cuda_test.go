//go:build cuda && cgo && linux && (amd64 || arm64)

package cudatest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/expect"
)

// increment is a module with one kernel of the simulator's own tests: a real driver would run what is written here.
const increment = `.version 7.8
.target sm_70
.address_size 64
.visible .entry sim_increase(
	.param .align 8 .b8 cells[16]
)
{
	ret;
}
`

type fixture struct {
	*device.Device
	stream *device.Stream
	kernel *device.Kernel
	cells  device.Address
	t      *testing.T
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		expect.OK(t, err)
		return v
	}
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{Device: Open(t), t: t}
	m := must(f.LoadKernels([]byte(increment), map[string]**device.Kernel{"sim_increase": &f.kernel}))(t)
	f.stream = must(f.NewStream())(t)
	memory := must(f.Alloc(4000))(t)
	f.cells = memory.Address()
	t.Cleanup(func() {
		expect.OK(t, errors.Join(memory.Close(), f.stream.Close(), m.Close()))
	})
	return f
}

func (f *fixture) run(n uint64) error {
	if err := f.stream.Fill32(f.cells, 0, 1000); err != nil {
		return err
	}
	type cells struct {
		at device.Address
		n  uint64
	}
	if err := (device.Launcher[cells]{Kernel: f.kernel}).Launch(f.stream, 4, 256, 0, cells{f.cells, n}); err != nil {
		return err
	}
	return f.stream.Synchronize()
}

func TestFindingsNameTheLine(t *testing.T) {
	NeedSimulator(t)
	f := newFixture(t)
	expect.OK(t, f.run(1000))
	if found := Findings(); found != nil {
		t.Fatal(found)
	}
	err := f.run(1001)
	expect.That(t, errors.Is(err, device.ErrDeviceLost), "got %v, want a lost device", err)
	found := Findings()
	if len(found) != 1 || !strings.Contains(found[0], "OUT OF BOUNDS") ||
		!strings.Contains(found[0], "internal/cudasim/testdata/copy.cu:") {
		t.Errorf("found %q", found)
	}
}

func TestCountsAreOfOneKernel(t *testing.T) {
	Checks(t, "lines")
	f := newFixture(t)
	ResetStats(t)
	for range 3 {
		expect.OK(t, f.run(1000))
	}
	n := Launches("sim_increase")
	expect.That(t, n == 3, "%d launches", n)
	want := Traffic{Instructions: 3 * 32, Lanes: 3000, Sectors: 3 * 125, Lines: 3 * 32}
	r, w := Reads(t, "sim_increase", Device), Writes(t, "sim_increase", Device)
	expect.That(t, r == want && w == want, "read %+v, wrote %+v, want %+v", r, w, want)
	if n := Lines(t, "sim_increase", Host) + Sectors(t, "sim_increase", Host); n != 0 {
		t.Errorf("%d lines and sectors of the host", n)
	}
	at := LinesAt(f.cells + 8)
	expect.That(t, at[3] == want.Lines, "%d lines around the address", at[3])
}

func TestSettingsEndWithTheTest(t *testing.T) {
	NeedSimulator(t)
	before := allSettings()
	EachOrder(t, func(t *testing.T) {
		f := newFixture(t)
		expect.OK(t, f.run(1000))
		first := Schedule(t)
		SetMemory(t, 1<<20)
		SetAttribute(t, device.Attr(113), 0)
		Checks(t, "addresses")
		_, total, err := f.Memory()
		expect.That(t, err == nil && total == 1<<20, "%d bytes in all, %v", total, err)
		if _, err := f.Alloc(1 << 20); !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("got %v, want out of memory", err)
		}
		expect.OK(t, f.run(1000))
		again := Schedule(t)
		expect.That(t, again == first, "the same launch ran in another order: %x, %x", first, again)
	})
	after := allSettings()
	expect.That(t, after == before, "%s became %s", before, after)
}

// Drivers before CUDA 13 tell the board's UUID and the instance's own; later ones the instance's alone.
func TestAnInstanceOfMIGHasANameOfItsOwn(t *testing.T) {
	NeedSimulator(t)
	for _, driver := range []int{12040, 13000} {
		Configure(t, fmt.Sprintf("mig=1,driver=%d", driver))
		d := expect.Must(device.Open(0))(t)
		const want = "MIG-6b686f70-2d63-7564-612d-6d69672d3030"
		expect.That(t, d.UUID() == want && device.Named(want) == 0, "driver %d: %s", driver, d.UUID())
		expect.OK(t, d.Close())
	}
}

func TestFailuresComeWhenAsked(t *testing.T) {
	f := newFixture(t)
	before := NowLive(t)
	Fail(t, "cuMemAlloc", 1, 2)
	_, err := f.Alloc(64)
	expect.That(t, errors.Is(err, device.ErrOutOfMemory), "got %v, want out of memory", err)
	Fail(t, "kernel:sim_increase", 2, 700)
	expect.OK(t, f.run(1000))
	if err := f.run(1000); !errors.Is(err, device.ErrDeviceLost) {
		t.Errorf("got %v, want a lost device", err)
	}
	found := Findings()
	expect.That(t, found == nil, "a failure on purpose is not a finding: %q", found)
	after := NowLive(t)
	expect.That(t, after == before, "%+v became %+v", before, after)
}
