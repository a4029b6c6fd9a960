package unified

import (
	"errors"
	"testing"

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
	}
}

func TestATensorOfTheHostIsReadWhereItLies(t *testing.T) {
	data := []byte{1, 2, 3, 4}
	for _, place := range []Placement{Host, Pinned} {
		x := expect.Must(NewPlaced(place, Uint8, data, 4))(t)
		host, release, err := x.OnHost()
		expect.OK(t, err)
		if &host.Bytes()[0] != &data[0] || host.Placement() != place || release() != nil {
			t.Errorf("%v is not the view that it was", host)
		}
	}
	empty, _, err := expect.Must(NewPlaced(Device, Uint8, nil, 0))(t).OnHost()
	if err != nil || empty.Placement() != Host {
		t.Errorf("%v, %v", empty, err)
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
