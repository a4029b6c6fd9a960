//go:build cuda

package pinned

import (
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
)

// onePiece gives out pieces of one allocation on a device, and remembers which.
type onePiece struct {
	memory []byte
	at     int
	out    map[*byte]int
}

func (p *onePiece) Take(n int64) ([]byte, error) {
	if p.at+int(n) > len(p.memory) {
		return nil, device.ErrOutOfMemory
	}
	b := p.memory[p.at : p.at+int(n) : p.at+int(n)]
	p.at += int(n)
	p.out[&b[0]] = int(n)
	return b, nil
}

func (p *onePiece) Give(b []byte) error {
	if p.out[&b[0]] != len(b) {
		panic("what comes back is not what was taken")
	}
	delete(p.out, &b[0])
	return nil
}

func TestAProviderGivesDeviceMemory(t *testing.T) {
	d := cudatest.Open(t)
	before := cudatest.NowLive(t)
	whole := expect.Must(Allocate(1<<20, Options{Device: d}))(t)
	var l Ledger
	p := &onePiece{memory: whole.Bytes(), out: map[*byte]int{}}
	b := Buffer{Options: Options{Device: d, From: p, Ledger: &l, Purpose: Batches}}
	for _, n := range []int64{1000, 700_000} { // a quarter more would not fit the second time
		expect.OK(t, b.Grow(n, 0))
		end := whole.Address() + device.Address(whole.Len())
		if a := b.Address(); a < whole.Address() || a+device.Address(n) > end || len(p.out) != 1 {
			t.Errorf("%d bytes at %#x, %d pieces are out", n, a, len(p.out))
		}
		expect.That(t, l.DeviceTotal() >= n && l.Total() == 0, "%d bytes on the device and %d on the host are counted",
			l.DeviceTotal(), l.Total())
	}
	expect.That(t, b.Grow(1<<20, 0) != nil, "more than the provider has")
	if err := b.Close(); err != nil || len(p.out) != 0 || l.DeviceTotal() != 0 {
		t.Errorf("error %v, %d pieces are out, %d bytes are counted", err, len(p.out), l.DeviceTotal())
	}
	expect.OK(t, whole.Close())
	after := cudatest.NowLive(t)
	expect.That(t, after == before, "left: %+v, was %+v", after, before)
}
