//go:build cuda

package unified

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/pinned/pinnedtest"
)

func openProcessor(t *testing.T) *Processor {
	t.Helper()
	cudatest.Open(t) // for what it finds
	p := expect.Must(OpenDevice("cuda:0"))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil || p.Close() != nil {
			t.Error(err)
		}
	})
	return p
}

func move(t *testing.T, x Tensor, to Target) *Moved {
	t.Helper()
	m, err := x.To(context.Background(), to)
	if err != nil {
		t.Fatalf("%v to %v: %v", x, to.Placement(), err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil || m.Close() != nil || m.Valid() {
			t.Error(err)
		}
	})
	return m
}

// elements returns a tensor's elements, wherever they are.
func elements(t *testing.T, x Tensor) []float32 {
	t.Helper()
	v := expect.Must(View[float32](move(t, x, Target{}).Tensor))(t)
	return slices.Clone(v)
}

func TestTensorsMoveBetweenAllPlaces(t *testing.T) {
	p := openProcessor(t)
	if p.String() != "cuda:0" || p.CUDA() == nil {
		t.Errorf("%v", p)
	}
	s := make([]float32, 3*1000)
	for i := range s {
		s[i] = float32(i)
	}
	x := expect.Must(FromSlice(s).Reshape(1000, 3))(t)
	targets := []Target{{}, p.Unified(), p.Memory()}
	for _, first := range targets {
		at := move(t, x, first)
		for _, second := range targets {
			y := move(t, at.Tensor, second)
			if y.Placement() != second.Placement() || !slices.Equal(y.Shape(), x.Shape()) || y.DType() != x.DType() {
				t.Errorf("%v moved to %v: %v", at, second.Placement(), y)
			}
			if (y.Address() == 0) != (second.Placement() == Host) {
				t.Errorf("%v has address %#x", y, y.Address())
			}
			if first == second && y.Address() != at.Address() {
				t.Errorf("%v was copied to where it is", at)
			}
			rows := expect.Must(y.Rows(100, 200))(t)
			if rows.Address() != 0 && rows.Address() != y.Address()+100*12 {
				t.Errorf("rows of %v at %#x are at %#x", y, y.Address(), rows.Address())
			}
			if !slices.Equal(elements(t, rows), s[300:600]) || !slices.Equal(elements(t, y.Tensor), s) {
				t.Errorf("%v to %v: other elements", first.Placement(), second.Placement())
			}
			if _, err := View[float32](y.Tensor); (err == nil) != (second.Placement() != Device) {
				t.Errorf("%v viewed on the host: %v", y, err)
			}
		}
	}
}

func TestAMappedFileBecomesUnifiedWithoutACopy(t *testing.T) {
	p := openProcessor(t)
	path := filepath.Join(t.TempDir(), "f")
	mapped := pinnedtest.Map(t, path, 0, make([]byte, 100_000))
	x := expect.Must(New(Float32, mapped, 25_000))(t)
	m := expect.Must(x.To(context.Background(), p.Unified()))(t)
	inPlace := &m.Bytes()[0] == &x.Bytes()[0]
	for _, s := range pinned.Ladder(p.CUDA(), mapped) {
		if s.Refused == "" {
			if inPlace != (s.Rung <= pinned.RungReadOnly) {
				t.Errorf("in place: %v, by %v", inPlace, s.Rung)
			}
			break
		}
	}
	for _, a := range []Advice{ReadMostly, PreferredLocation, AccessedBy} {
		for _, y := range []Tensor{x, m.Tensor, {}} {
			if err := y.Advise(p, a); err != nil {
				t.Errorf("advice %d on %v: %v", a, y, err)
			}
		}
	}
	if Place(m.Tensor) != Device || Place(m.Tensor, x) != Host {
		t.Error("a unified tensor is not taken for one")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestAdviceThatMeansNothingIsNoError(t *testing.T) {
	cudatest.SetAttribute(t, device.AttrPageableAccess, 1)
	p := openProcessor(t)
	x := FromSlice(make([]float32, 1000))
	for _, target := range []Target{{}, p.Unified(), p.Memory()} {
		for _, a := range []Advice{ReadMostly, PreferredLocation, AccessedBy} {
			if err := move(t, x, target).Advise(p, a); err != nil {
				t.Errorf("advice %d on %v memory: %v", a, target.Placement(), err)
			}
		}
	}
	cudatest.Fail(t, "cuMemAdvise", 1, 719)
	if err := x.Advise(p, ReadMostly); !errors.Is(err, device.ErrDeviceLost) {
		t.Errorf("advice on a lost device: %v", err)
	}
}

func TestEmptyTensorsMove(t *testing.T) {
	p := openProcessor(t)
	x := expect.Must(New(Float32, nil, 0, 7))(t)
	targets := []Target{{}, p.Unified(), p.Memory()}
	for _, first := range targets {
		for _, second := range targets {
			y := move(t, move(t, x, first).Tensor, second)
			if y.Placement() != second.Placement() || y.Width() != 7 || y.Address() != 0 {
				t.Errorf("%v", y)
			}
		}
	}
	if m := move(t, Tensor{}, p.Memory()); m.Valid() {
		t.Errorf("no tensor became %v", m)
	}
}

func TestBuffersHoldDeviceMemory(t *testing.T) {
	p := openProcessor(t)
	s := expect.Must(p.CUDA().NewStream(device.PriorityLow))(t)
	defer s.Close()
	var ledger pinned.Ledger
	there := Buffer{pinned.Buffer{Options: pinned.Options{Ledger: &ledger, Device: p.CUDA()}}}
	stage := Buffer{pinned.Buffer{Options: pinned.Options{Ledger: &ledger, Device: p.CUDA(), Place: Pinned}}}
	for _, n := range []int64{10, 5000, 100} {
		in := expect.Must(Grow[float32](&stage, n, 0))(t)
		for i := range n {
			in[i] = float32(i + n)
		}
		expect.OK(t, there.Claim(n*4))
		x, err := there.Tensor(Float32, n)
		if err != nil || x.Placement() != Device || x.Address() != there.Address() || x.Address() == 0 {
			t.Fatalf("%v at %#x, %v", x, x.Address(), err)
		}
		staged, err := stage.Tensor(Float32, n)
		if err != nil || staged.Placement() != Pinned || staged.Address() != stage.Address() || staged.Address() == 0 {
			t.Fatalf("%v at %#x, %v", staged, staged.Address(), err)
		}
		expect.OK(t, errors.Join(s.CopyToDevice(x.Address(), staged.Bytes()), s.Synchronize()))
		if !slices.Equal(elements(t, x), in[:n]) {
			t.Errorf("%d elements went to the device and others came back", n)
		}
	}
	if ledger.DeviceTotal() < 5000*4 || ledger.Total() < 5000*4 ||
		ledger.DeviceTotal() != there.Options.Size(there.Cap()) {
		t.Errorf("host %d, device %d", ledger.Total(), ledger.DeviceTotal())
	}
	if err := errors.Join(there.Close(), stage.Close()); err != nil || ledger.Total() != 0 ||
		ledger.DeviceTotal() != 0 {
		t.Errorf("closed: %v, host %d, device %d", err, ledger.Total(), ledger.DeviceTotal())
	}

	ledger.SetDeviceLimit(1 << 20)
	if err := there.Claim(1<<20 + 1); !errors.Is(err, pinned.ErrLimit) {
		t.Errorf("beyond the limit: %v", err)
	}
	ledger.SetDeviceLimit(0)
	if err := there.Claim(1 << 46); !errors.Is(err, device.ErrOutOfMemory) || ledger.DeviceTotal() != 0 {
		t.Errorf("more than any device has: %v, %d bytes counted", err, ledger.DeviceTotal())
	}
	if err := there.Claim(100); err != nil {
		t.Errorf("refused once, the buffer is of no use: %v", err)
	}
	if err := there.Close(); err != nil {
		t.Error(err)
	}
}
