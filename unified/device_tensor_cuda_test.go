//go:build cuda

package unified

import (
	"errors"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// elements returns a tensor's elements, wherever they are.
func elements(t *testing.T, x Tensor) []float32 {
	t.Helper()
	host, release, err := x.OnHost()
	expect.OK(t, err)
	defer func() { expect.OK(t, release()) }()
	return slices.Clone(expect.Must(View[float32](host))(t))
}

func TestBuffersHoldDeviceMemory(t *testing.T) {
	dev := cudatest.Open(t)
	s := expect.Must(dev.NewStream())(t)
	defer s.Close()
	var ledger pinned.Ledger
	there := Buffer{pinned.Buffer{Options: pinned.Options{Ledger: &ledger, Device: dev}}}
	stage := Buffer{pinned.Buffer{Options: pinned.Options{Ledger: &ledger, Device: dev, Place: pinned.Pinned}}}
	for _, n := range []int64{10, 5000, 100} {
		in := expect.Must(Grow[float32](&stage, n, 0))(t)
		for i := range n {
			in[i] = float32(i + n)
		}
		expect.OK(t, there.Claim(n*4))
		x, err := there.Tensor(Float32, n)
		expect.Ensure(t,
			err == nil && x.Placement() == pinned.Device && x.Address() == there.Address() && x.Address() != 0,
			"%v at %#x, %v", x, x.Address(), err)
		staged, err := stage.Tensor(Float32, n)
		if err != nil || staged.Placement() != pinned.Pinned || staged.Address() != stage.Address() ||
			staged.Address() == 0 {
			t.Fatalf("%v at %#x, %v", staged, staged.Address(), err)
		}
		expect.OK(t, errors.Join(s.CopyToDevice(x.Address(), staged.Bytes()), s.Synchronize()))
		expect.That(t, slices.Equal(elements(t, x), in[:n]), "%d elements went to the device and others came back", n)
	}
	if ledger.DeviceTotal() < 5000*4 || ledger.Total() < 5000*4 ||
		ledger.DeviceTotal() != there.Options.Size(there.Cap()) {
		t.Errorf("host %d, device %d", ledger.Total(), ledger.DeviceTotal())
	}
	err := errors.Join(there.Close(), stage.Close())
	expect.That(t, err == nil && ledger.Total() == 0 && ledger.DeviceTotal() == 0, "closed: %v, host %d, device %d",
		err, ledger.Total(), ledger.DeviceTotal())

	ledger.SetDeviceLimit(1 << 20)
	expect.Is(t, there.Claim(1<<20+1), pinned.ErrLimit, "beyond the limit")
	ledger.SetDeviceLimit(0)
	if err := there.Claim(1 << 46); !errors.Is(err, device.ErrOutOfMemory) || ledger.DeviceTotal() != 0 {
		t.Errorf("more than any device has: %v, %d bytes counted", err, ledger.DeviceTotal())
	}
	expect.Is(t, there.Claim(100), nil, "refused once, the buffer is of no use")
	expect.OK(t, there.Close())
}
