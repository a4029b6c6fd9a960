//go:build cuda

package pinned

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
)

// The driver's codes that these tests let it answer.
const (
	outOfMemory   = 2
	notPermitted  = 800
	launchFailure = 719
)

// nothingLeft returns a function that fails the test if the driver holds other than it did when nothingLeft was called.
func nothingLeft(t *testing.T, ledger *Ledger) func() {
	before := cudatest.NowLive(t)
	return func() {
		t.Helper()
		now := cudatest.NowLive(t)
		expect.That(t, now == before, "the driver holds %+v, before it held %+v", now, before)
		unchanged(t, ledger)
	}
}

func TestAttributesDecideTheRung(t *testing.T) {
	disk, _ := mapped(t, t.TempDir(), 300_000)
	shm, _ := mapped(t, onTmpfs(t), 300_000)
	for _, c := range []struct {
		name      string
		attribute device.Attr
		value     int
		disk, shm Rung
	}{
		{"read-only registration", device.AttrReadOnlyRegister, 1, RungReadOnly, RungReadOnly},
		{"no read-only registration", device.AttrReadOnlyRegister, 0, RungCopy, RungInPlace},
		{"host page tables", device.AttrPageableUsesHostPageTables, 1, RungPageTables, RungPageTables},
		{"pageable access alone", device.AttrPageableAccess, 1, RungReadOnly, RungReadOnly},
		{"no registration", device.AttrHostRegister, 0, RungHostAlloc, RungHostAlloc},
	} {
		t.Run(c.name, func(t *testing.T) {
			cudatest.SetAttribute(t, c.attribute, c.value)
			dev := cudatest.Open(t)
			var ledger Ledger
			check := nothingLeft(t, &ledger)
			for want, b := range map[*Rung][]byte{&c.disk: disk.Bytes(), &c.shm: shm.Bytes()} {
				a, err := Attach(context.Background(), dev, b, AttachOptions{Ledger: &ledger, chunk: testChunk})
				expect.OK(t, err)
				if a.Rung() != *want {
					t.Errorf("%v, want %v; refused: %v", a.Rung(), *want, a.Reasons())
				}
				if inPlace := &a.Bytes()[0] == &b[0]; inPlace != (*want <= RungReadOnly) {
					t.Errorf("%v, but in place: %v", *want, inPlace)
				}
				readAndClose(t, dev, a, b)
			}
			check()
		})
	}
}

func TestARefusedRegistrationTakesTheNextRung(t *testing.T) {
	disk, _ := mapped(t, t.TempDir(), 300_000)
	shm, _ := mapped(t, onTmpfs(t), 300_000)
	pieces := (300_000 + testChunk - 1) / testChunk
	for nth := 1; nth <= pieces; nth++ {
		for _, call := range []string{"cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2"} {
			refuse(t, call, nth, disk.Bytes(), 0, RungCopy)
			refuse(t, call, nth, shm.Bytes(), 0, RungInPlace)
			refuse(t, call, nth, shm.Bytes(), RungInPlace, RungCopy)
			refuse(t, call, nth, disk.Bytes(), RungCopy, RungHostAlloc)
		}
	}
}

// refuse lets the nth call of a driver function fail while b is attached, and expects another rung.
func refuse(t *testing.T, call string, nth int, b []byte, from, want Rung) {
	t.Helper()
	dev := cudatest.Open(t)
	var ledger Ledger
	check := nothingLeft(t, &ledger)
	cudatest.Fail(t, call, nth, notPermitted)
	a, err := Attach(context.Background(), dev, b, AttachOptions{Ledger: &ledger, From: from, chunk: testChunk})
	expect.Ensure(t, err == nil, "%s of piece %d: %v", call, nth, err)
	said := false
	for _, s := range a.Reasons() {
		said = said || strings.Contains(s.Refused, "CUDA_ERROR_NOT_PERMITTED")
	}
	if a.Rung() != want || !said {
		t.Errorf("%s of piece %d: %v, want %v; refused: %v", call, nth, a.Rung(), want, a.Reasons())
	}
	readAndClose(t, dev, a, b)
	check()
}

// readAndClose fails the test unless the device finds the bytes of b, and closes what attached them.
func readAndClose(t *testing.T, dev *device.Device, a *Attachment, b []byte) {
	t.Helper()
	expect.That(t, bytes.Equal(readBack(t, dev, a), b), "the device finds other bytes")
	expect.OK(t, a.Close())
}

func TestEverythingRefusedNamesEveryReason(t *testing.T) {
	dev := cudatest.Open(t)
	disk, path := mapped(t, t.TempDir(), 300_000)
	var ledger Ledger
	check := nothingLeft(t, &ledger)
	cudatest.Fail(t, "cuMemHostRegister_v2", 1, notPermitted) // read-only
	cudatest.Fail(t, "cuMemHostRegister_v2", 3, notPermitted) // the second piece of the copy
	cudatest.Fail(t, "cuMemHostAlloc", 1, outOfMemory)
	a, err := Attach(context.Background(), dev, disk.Bytes(), AttachOptions{Ledger: &ledger, chunk: testChunk})
	refused, full := errors.Is(err, &device.Error{Code: notPermitted}), errors.Is(err, device.ErrOutOfMemory)
	expect.Ensure(t, a == nil && refused && full, "%v, %v", a, err)
	for _, part := range []string{path, "attribute 100", "tmpfs", "CUDA_ERROR_NOT_PERMITTED",
		"CUDA_ERROR_OUT_OF_MEMORY", RungReadOnly.String(), RungInPlace.String(), RungCopy.String(),
		RungHostAlloc.String()} {
		expect.That(t, strings.Contains(err.Error(), part), "no %q in %v", part, err)
	}
	check()
}

func TestALostDeviceEndsTheClimb(t *testing.T) {
	dev := cudatest.Open(t)
	disk, _ := mapped(t, t.TempDir(), 300_000)
	var ledger Ledger
	check := nothingLeft(t, &ledger)
	cudatest.Fail(t, "cuMemHostRegister_v2", 2, launchFailure)
	if _, err := Attach(context.Background(), dev, disk.Bytes(), AttachOptions{Ledger: &ledger,
		chunk: testChunk}); !errors.Is(err, device.ErrDeviceLost) || strings.Contains(err.Error(), RungCopy.String()) {
		t.Errorf("%v, want ErrDeviceLost, and no rung tried after it", err)
	}
	check()
	expect.Is(t, expect.Err(Attach(context.Background(), dev, disk.Bytes(), AttachOptions{Ledger: &ledger})),
		device.ErrDeviceLost, "attached to a lost device")
	check()
}

func TestClosingOnALostDeviceSucceeds(t *testing.T) {
	dev := cudatest.Open(t)
	disk, _ := mapped(t, t.TempDir(), 300_000)
	var ledger Ledger
	var all []*Attachment
	check := nothingLeft(t, &ledger)
	for i, from := range []Rung{RungReadOnly, RungCopy, RungHostAlloc} {
		a := expect.Must(Attach(context.Background(), dev, disk.Bytes()[i*8192:][:8192],
			AttachOptions{Ledger: &ledger, From: from}))(t)
		all = append(all, a)
	}
	s := newStream(t, dev)
	a := expect.Must(Upload(context.Background(), dev, s, disk.Bytes(), AttachOptions{Ledger: &ledger}))(t)
	all = append(all, a)
	cudatest.Fail(t, "cuStreamSynchronize", 1, launchFailure)
	if err := s.Synchronize(); !errors.Is(err, device.ErrDeviceLost) {
		t.Fatalf("the device is well: %v", err)
	}
	for _, a := range all {
		if err := a.Close(); err != nil {
			t.Errorf("%v: %v", a.Rung(), err)
		}
	}
	expect.OK(t, s.Close())
	check()
}

func TestAnUploadThatFailsLeavesNothing(t *testing.T) {
	disk, _ := mapped(t, t.TempDir(), 300_000)
	for _, c := range []struct {
		call string
		nth  int
	}{{"cuMemAlloc_v2", 1}, {"cuMemHostAlloc", 1}, {"cuMemHostAlloc", 2}, {"cuEventCreate", 2},
		{"cuEventSynchronize", 3},
		{"cuMemcpyHtoDAsync_v2", 2}, {"cuEventRecord", 2}} {
		dev := cudatest.Open(t)
		var ledger Ledger
		s := newStream(t, dev)
		check := nothingLeft(t, &ledger)
		cudatest.Fail(t, c.call, c.nth, outOfMemory)
		a, err := Upload(context.Background(), dev, s, disk.Bytes(), AttachOptions{Ledger: &ledger, chunk: testChunk})
		expect.That(t, errors.Is(err, device.ErrOutOfMemory), "call %d of %s fails: %v, %v", c.nth, c.call, a, err)
		check()
		cudatest.Report(t) // forgets a failure that has not come
	}
}

func TestUploadsAreWholeInEveryOrder(t *testing.T) {
	disk, _ := mapped(t, t.TempDir(), 300_000)
	cudatest.EachOrder(t, func(t *testing.T) {
		dev := cudatest.Open(t)
		a, err := Upload(context.Background(), dev, newStream(t, dev), disk.Bytes(), AttachOptions{chunk: 8192})
		expect.OK(t, err)
		defer a.Close()
		expect.That(t, bytes.Equal(readBack(t, dev, a), disk.Bytes()), "the device finds other bytes")
	})
}

func TestDeviceMemoryTooSmall(t *testing.T) {
	cudatest.SetMemory(t, 1<<20)
	dev := cudatest.Open(t)
	var ledger Ledger
	s := newStream(t, dev)
	check := nothingLeft(t, &ledger)
	_, err := Upload(context.Background(), dev, s, make([]byte, 2<<20), AttachOptions{Ledger: &ledger})
	expect.That(t, errors.Is(err, device.ErrOutOfMemory), "%v, want ErrOutOfMemory", err)
	b := Buffer{Options: Options{Ledger: &ledger, Device: dev}}
	if err := b.Grow(900_000, 0); err != nil || b.Cap() != 900_000 {
		t.Errorf("what just fits: %v, capacity %d", err, b.Cap())
	}
	expect.Is(t, b.Grow(950_000, 1), ErrPlacement, "device memory kept something")
	if err := b.Grow(2<<20, 0); !errors.Is(err, device.ErrOutOfMemory) || b.Cap() != 0 {
		t.Errorf("%v, want ErrOutOfMemory; capacity %d", err, b.Cap())
	}
	expect.OK(t, b.Close())
	check()
}

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
