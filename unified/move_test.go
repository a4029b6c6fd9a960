package unified

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

func TestDeviceNames(t *testing.T) {
	for name, want := range map[string]int{"cpu": -1, "cuda": 0, "cuda:0": 0, "cuda:7": 7} {
		if got, err := ParseDevice(name); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:99999999", "CUDA", "cuda0"} {
		if _, err := ParseDevice(name); err == nil {
			t.Errorf("%q is a device", name)
		}
		if p, err := OpenDevice(name); err == nil {
			p.Close()
			t.Errorf("%q was opened", name)
		}
	}
}

func TestADeviceThatIsNotThereSaysWhy(t *testing.T) {
	_, err := OpenDevice("cuda:99")
	if !errors.Is(err, device.ErrNoDevice) || len(err.Error()) <= len(device.ErrNoDevice.Error()) {
		t.Errorf("%v", err)
	}
}

func TestOnTheCPUMovingIsAView(t *testing.T) {
	p, err := OpenDevice("cpu")
	if err != nil || p.CUDA() != nil || p.String() != "cpu" {
		t.Fatal(p, err)
	}
	defer p.Close()
	s := []int64{1, 2, 3, 4}
	for _, target := range []Target{p.Unified(), p.Memory(), {}} {
		m := expect.Must(FromSlice(s).To(context.Background(), target))(t)
		if &m.Bytes()[0] != &FromSlice(s).Bytes()[0] || m.Placement() != Host || m.Address() != 0 {
			t.Errorf("%v is not the view that it was", m)
		}
		if err := m.Advise(p, ReadMostly); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil || m.Valid() || m.Close() != nil {
			t.Errorf("closed: %v, %v", m, err)
		}
	}
	if !slices.Equal(s, []int64{1, 2, 3, 4}) {
		t.Error(s)
	}
}

func TestUnifiedMemoryMovesToTheHostAsACopy(t *testing.T) {
	data := []byte{1, 2, 3, 4}
	x := expect.Must(NewPlaced(Pinned, Uint8, data, 4))(t)
	m, err := x.To(context.Background(), Target{})
	if err != nil || m.Placement() != Host || !slices.Equal(m.Bytes(), data) || &m.Bytes()[0] == &data[0] {
		t.Fatal(m, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestTensorsOnADeviceAreNotViewed(t *testing.T) {
	x := expect.Must(NewPlaced(Device, Int32, make([]byte, 64), 4, 4))(t)
	rows, err := x.Rows(1, 3)
	if err != nil || rows.Placement() != Device || rows.Address() != x.Address()+16 {
		t.Errorf("%v at %#x of %#x, %v", rows, rows.Address(), x.Address(), err)
	}
	flat, err := rows.Reshape(8)
	if err != nil || flat.Placement() != Device || flat.Address() != rows.Address() {
		t.Errorf("%v, %v", flat, err)
	}
	if _, err := View[int32](flat); !errors.Is(err, ErrShape) {
		t.Errorf("viewed on the host: %v", err)
	}
	if x := FromSlice([]int32{1}); x.Address() != 0 {
		t.Error("pageable memory has an address on a device")
	}
	b := Buffer{pinned.Buffer{Options: pinned.Options{Place: Device}}}
	if _, err := Grow[int32](&b, 1, 0); !errors.Is(err, pinned.ErrPlacement) {
		t.Errorf("a slice of device memory: %v", err)
	}
	if err := b.Claim(1); !errors.Is(err, pinned.ErrPlacement) {
		t.Errorf("device memory without a device: %v", err)
	}
}
