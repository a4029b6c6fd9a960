package unified

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

func TestATensorOfTheHostIsReadWhereItLies(t *testing.T) {
	data := []byte{1, 2, 3, 4}
	for _, place := range []pinned.Placement{pinned.Host, pinned.Pinned} {
		x := expect.Must(NewPlaced(place, Uint8, data, 4))(t)
		host, release, err := x.OnHost()
		expect.OK(t, err)
		expect.That(t, &host.Bytes()[0] == &data[0] && host.Placement() == place && release() == nil,
			"%v is not the view that it was", host)
	}
	empty, _, err := expect.Must(NewPlaced(pinned.Device, Uint8, nil, 0))(t).OnHost()
	expect.That(t, err == nil && empty.Placement() == pinned.Host, "%v, %v", empty, err)
}

func TestTensorsOnADeviceAreNotViewed(t *testing.T) {
	x := expect.Must(NewPlaced(pinned.Device, Int32, make([]byte, 64), 4, 4))(t)
	rows, err := x.Rows(1, 3)
	expect.That(t, err == nil && rows.Placement() == pinned.Device && rows.Address() == x.Address()+16,
		"%v at %#x of %#x, %v", rows, rows.Address(), x.Address(), err)
	flat, err := rows.Reshape(8)
	expect.That(t, err == nil && flat.Placement() == pinned.Device && flat.Address() == rows.Address(), "%v, %v",
		flat, err)
	expect.Is(t, expect.Err(View[int32](flat)), ErrShape, "viewed on the host")
	x = FromSlice([]int32{1})
	expect.That(t, x.Address() == 0, "pageable memory has an address on a device")
	b := Buffer{pinned.Buffer{Options: pinned.Options{Place: pinned.Device}}}
	expect.Is(t, expect.Err(Grow[int32](&b, 1, 0)), pinned.ErrPlacement, "a slice of device memory")
	expect.Is(t, b.Claim(1), pinned.ErrPlacement, "device memory without a device")
}
