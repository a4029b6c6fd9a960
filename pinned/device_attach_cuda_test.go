//go:build cuda

package pinned

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
)

func newStream(t *testing.T, dev *device.Device) *device.Stream {
	t.Helper()
	s := expect.Must(dev.NewStream())(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// readBack returns what the device finds at the address of an attachment: it copies it to device memory and from there
// to the host.
func readBack(t *testing.T, dev *device.Device, a *Attachment) []byte {
	t.Helper()
	s := expect.Must(dev.NewStream())(t)
	defer s.Close()
	n := int64(len(a.Bytes()))
	there := expect.Must(Allocate(n, Options{Device: dev}))(t)
	defer there.Close()
	back := expect.Must(Allocate(n, Options{Device: dev, Place: Pinned}))(t)
	defer back.Close()
	for at := int64(0); at < n; {
		step := a.Contiguous(at)
		var err error
		if a.Rung() == RungPageTables { // not known to the driver: only kernels address it
			err = s.CopyToDevice(there.Address(), a.Bytes())
		} else {
			err = s.Copy(there.Address()+device.Address(at), a.Address()+device.Address(at), step)
		}
		expect.Ensure(t, err == nil, "copy %d bytes at %d: %v", step, at, err)
		at += step
	}
	expect.OK(t, errors.Join(s.CopyToHost(back.Bytes(), there.Address()), s.Synchronize()))
	return bytes.Clone(back.Bytes())
}

// best returns the best rung that the machine has for b, from a rung on.
func best(t *testing.T, dev *device.Device, b []byte, from Rung) Rung {
	t.Helper()
	for _, s := range Ladder(dev, b) {
		if s.Refused == "" && s.Rung >= from {
			return s.Rung
		}
	}
	t.Fatalf("no rung from %v on", from)
	return 0
}

// unchanged fails the test if closing what it attached has left something.
func unchanged(t *testing.T, ledger *Ledger) {
	t.Helper()
	attached.Lock()
	defer attached.Unlock()
	expect.That(t, len(attached.all) == 0 && ledger.Total() == 0 && ledger.DeviceTotal() == 0,
		"left: %d entries, %d bytes of host memory, %d of device memory", len(attached.all), ledger.Total(),
		ledger.DeviceTotal())
}

const testChunk = 1 << 16 // so that a small file takes several registrations

// inThreePlaces returns memory of a file on disk, of one on tmpfs, whose path it returns, and of none.
func inThreePlaces(t *testing.T, n int) (disk, shm, anonymous *Region, path string) {
	t.Helper()
	disk, _ = mapped(t, t.TempDir(), n)
	shm, path = mapped(t, onTmpfs(t), n)
	anonymous = expect.Must(Allocate(int64(n), Options{}))(t)
	t.Cleanup(func() { _ = anonymous.Close() })
	return disk, shm, anonymous, path
}

func TestDeviceFindsTheBytesOnEveryRung(t *testing.T) {
	dev := cudatest.Open(t)
	disk, shm, anonymous, shmPath := inThreePlaces(t, 300_001)
	copy(anonymous.Bytes(), disk.Bytes())
	heap := bytes.Clone(disk.Bytes())
	for _, c := range []struct {
		name  string
		bytes []byte
		from  Rung
	}{
		{"file", disk.Bytes(), 0},
		{"file, in place", disk.Bytes(), RungInPlace},
		{"file, copied", disk.Bytes(), RungCopy},
		{"file, memory of the driver", disk.Bytes(), RungHostAlloc},
		{"part of a file", disk.Bytes()[70_000:200_000], 0},
		{"one byte of a file", disk.Bytes()[4095:4096], 0},
		{"file on tmpfs", shm.Bytes(), 0},
		{"file on tmpfs, in place", shm.Bytes(), RungInPlace},
		{"part of a file on tmpfs, in place", shm.Bytes()[5000:290_000], RungInPlace},
		{"anonymous", anonymous.Bytes(), RungReadOnly},
		{"anonymous, copied", anonymous.Bytes(), RungCopy},
		{"Go heap", heap, 0},
		{"part of the Go heap", heap[3:100], 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			deviceFindsTheBytes(t, dev, c.bytes, c.from, c.name != "anonymous")
			n := mappings(t, filepath.Dir(shmPath))
			expect.That(t, n == 1, "the file on tmpfs is mapped %d times", n)
		})
	}
}

// deviceFindsTheBytes attaches bytes from a rung on; counted says whether the ledger counts what that takes.
func deviceFindsTheBytes(t *testing.T, dev *device.Device, data []byte, from Rung, counted bool) {
	t.Helper()
	var ledger Ledger
	var told []int64
	want := best(t, dev, data, from)
	opt := AttachOptions{Ledger: &ledger, Purpose: Columns, From: from, chunk: testChunk,
		Progress: func(done, total int64) {
			expect.That(t, total >= int64(len(data)) && done <= total, "%d of %d are done", done, total)
			told = append(told, done)
		}}
	a := expect.Must(Attach(context.Background(), dev, data, opt))(t)
	if a.Rung() != want || a.Address() == 0 || a.Address() != addressOf(a.Bytes()) {
		t.Errorf("%v at %#x; want %v; refused: %v", a.Rung(), a.Address(), want, a.Reasons())
	}
	for i, s := range a.Reasons() {
		expect.That(t, s.Refused != "" && s.Rung == RungPageTables+Rung(i), "reason %d: %+v", i, s)
	}
	expect.That(t, len(a.Reasons()) == int(want-RungPageTables), "%d reasons against the rungs before %v",
		len(a.Reasons()), want)
	expect.That(t, bytes.Equal(readBack(t, dev, a), data), "the device finds other bytes")
	n := len(told)
	expect.That(t, n >= (len(data)+testChunk-1)/testChunk, "progress was told %d times", n)
	if n := ledger.Used(Columns); counted && n < int64(len(data)) && want != RungPageTables {
		t.Errorf("%d bytes are counted", n)
	}
	err := a.Close()
	expect.That(t, err == nil && a.Close() == nil, "%v", err)
	expect.That(t, a.Bytes() == nil && a.Address() == 0 && a.Contiguous(0) == 0, "closed, but it still has bytes")
	unchanged(t, &ledger)
}

// mappings counts the mappings of files in a folder.
func mappings(t *testing.T, dir string) int {
	t.Helper()
	maps := expect.Must(os.ReadFile("/proc/self/maps"))(t)
	return strings.Count(string(maps), " "+dir+"/")
}

// onTmpfs returns a folder on tmpfs, which is a folder of the test's own.
func onTmpfs(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "khop-test-")
	expect.Ensure(t, err == nil && fileSystem(dir) == "tmpfs", "no tmpfs at /dev/shm: %v", err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestNoBytesAttachToNothing(t *testing.T) {
	dev := cudatest.Open(t)
	for _, b := range [][]byte{nil, {}, make([]byte, 5)[:0]} {
		a, err := Attach(context.Background(), dev, b, AttachOptions{})
		expect.That(t, err == nil && a.Address() == 0 && a.Rung() == 0 && a.Close() == nil, "%+v, %v", a, err)
		a, err = Upload(context.Background(), dev, newStream(t, dev), b, AttachOptions{})
		expect.That(t, err == nil && a.Address() == 0 && a.Close() == nil, "%+v, %v", a, err)
	}
}

func TestAttachingAgainSharesWhatIsThere(t *testing.T) {
	dev := cudatest.Open(t)
	file, _ := mapped(t, t.TempDir(), 300_000)
	for _, from := range []Rung{0, RungCopy, RungHostAlloc} {
		var ledger Ledger
		opt := AttachOptions{Ledger: &ledger, From: from, chunk: testChunk}
		first := expect.Must(Attach(context.Background(), dev, file.Bytes(), opt))(t)
		taken := ledger.Total()
		again, err := Attach(context.Background(), dev, file.Bytes(), opt)
		expect.Ensure(t, err == nil && again.Address() == first.Address() && ledger.Total() == taken,
			"again at %#x, first at %#x, %v", again.Address(), first.Address(), err)
		part, err := Attach(context.Background(), dev, file.Bytes()[1000:2000], opt)
		expect.Ensure(t, err == nil && part.Address() == first.Address()+1000 && len(part.Bytes()) == 1000,
			"a part at %#x, all at %#x, %v", part.Address(), first.Address(), err)
		if err := errors.Join(first.Close(), again.Close()); err != nil || ledger.Total() != taken {
			t.Errorf("closed while a part is in use: %v, %d bytes left", err, ledger.Total())
		}
		expect.That(t, bytes.Equal(readBack(t, dev, part), file.Bytes()[1000:2000]), "the part is gone")
		expect.OK(t, part.Close())
		unchanged(t, &ledger)
	}
}

func TestWritableMemoryIsCopiedForEachAttachment(t *testing.T) {
	dev := cudatest.Open(t)
	b := []byte("before")
	first := expect.Must(Attach(context.Background(), dev, b, AttachOptions{From: RungCopy}))(t)
	defer first.Close()
	copy(b, "after ")
	second := expect.Must(Attach(context.Background(), dev, b, AttachOptions{From: RungCopy}))(t)
	defer second.Close()
	expect.That(t, string(first.Bytes()) == "before" && string(second.Bytes()) == "after ", "%q and %q", first.Bytes(),
		second.Bytes())
}

// A caller that has a reason of its own against better rungs gets it back, and no rung beyond the last.
func TestRungsAreTriedFromOneToAnother(t *testing.T) {
	dev := cudatest.Open(t)
	file, _ := mapped(t, t.TempDir(), 300_000)
	var ledger Ledger
	opt := AttachOptions{Ledger: &ledger, From: RungCopy, Last: RungCopy, Why: "it is slow", chunk: testChunk}
	expect.That(t, !Attached(file.Bytes()), "it is attached already")
	a := expect.Must(Attach(context.Background(), dev, file.Bytes(), opt))(t)
	for _, s := range a.Reasons() {
		expect.That(t, (s.Refused == opt.Why) == (s.Rung == RungReadOnly), "%v: %s", s.Rung, s.Refused)
	}
	expect.That(t, a.Rung() == RungCopy && Attached(file.Bytes()[100:200]) && len(a.Reasons()) == 3, "%v, %v", a.Rung(),
		a.Reasons())
	err := a.Close()
	expect.That(t, err == nil && !Attached(file.Bytes()), "after Close it is attached: %v", err)
	opt.Available = 200_000
	if _, err := Attach(context.Background(), dev, file.Bytes(), opt); !errors.Is(err, errMemory) ||
		!strings.Contains(err.Error(), RungHostAlloc.String()+": not asked for") {
		t.Errorf("%v, want %v and no memory of the driver", err, errMemory)
	}
	unchanged(t, &ledger)
}

func TestOverlappingRangesAreCopied(t *testing.T) {
	dev := cudatest.Open(t)
	file, _ := mapped(t, onTmpfs(t), 300_000)
	var ledger Ledger
	opt := AttachOptions{Ledger: &ledger, From: RungInPlace, chunk: testChunk}
	low := expect.Must(Attach(context.Background(), dev, file.Bytes()[:200_000], opt))(t)
	high := expect.Must(Attach(context.Background(), dev, file.Bytes()[100_000:], opt))(t)
	expect.That(t,
		low.Rung() == RungInPlace && high.Rung() == RungCopy && strings.Contains(high.Reasons()[2].Refused, "overlaps"),
		"%v and %v: %v", low.Rung(), high.Rung(), high.Reasons())
	expect.That(t, bytes.Equal(readBack(t, dev, high), file.Bytes()[100_000:]), "the device finds other bytes")
	expect.OK(t, errors.Join(low.Close(), high.Close()))

	opt.From = RungCopy
	high = expect.Must(Attach(context.Background(), dev, file.Bytes()[100_000:], opt))(t)
	opt.From = RungInPlace
	low = expect.Must(Attach(context.Background(), dev, file.Bytes()[:200_000], opt))(t)
	if high.Rung() != RungCopy || low.Rung() != RungInPlace {
		t.Errorf("a copy is in the way: %v", low.Reasons())
	}
	expect.OK(t, errors.Join(low.Close(), high.Close()))
	unchanged(t, &ledger)
}

func TestCancellingHalfWayLeavesNothing(t *testing.T) {
	dev := cudatest.Open(t)
	disk, shm, anonymous, _ := inThreePlaces(t, 300_000)
	cause := errors.New("enough")
	for _, c := range []struct {
		bytes []byte
		from  Rung
	}{{disk.Bytes(), 0}, {anonymous.Bytes(), RungInPlace}, {shm.Bytes(), RungInPlace}, {disk.Bytes(), RungCopy},
		{disk.Bytes(), RungHostAlloc}} {
		var ledger Ledger
		ctx, cancel := context.WithCancelCause(context.Background())
		opt := AttachOptions{Ledger: &ledger, From: c.from, chunk: testChunk, Progress: func(done, _ int64) {
			if done > testChunk {
				cancel(cause)
			}
		}}
		if a, err := Attach(ctx, dev, c.bytes, opt); !errors.Is(err, cause) {
			t.Fatalf("%v, %v; want the cause", a, err)
		}
		unchanged(t, &ledger)
		a, err := Attach(context.Background(), dev, c.bytes, AttachOptions{Ledger: &ledger, From: c.from,
			chunk: testChunk})
		expect.Ensure(t, err == nil, "cancelled once, it cannot be attached any more: %v", err)
		expect.OK(t, a.Close())
	}
}

func TestTooLittleHostMemorySaysHowMuch(t *testing.T) {
	dev := cudatest.Open(t)
	disk, path := mapped(t, t.TempDir(), 300_000)
	var ledger Ledger
	_, err := Attach(context.Background(), dev, disk.Bytes(), AttachOptions{Ledger: &ledger, From: RungReadOnly,
		Available: 200_000})
	if !errors.Is(err, errMemory) || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "303 kB (296 KiB) are needed") ||
		!strings.Contains(err.Error(), "(183 KiB) of the 200 kB (195 KiB)") ||
		!strings.Contains(err.Error(), "memory.max") {
		t.Errorf("%v", err)
	}
	unchanged(t, &ledger)

	shm, _ := mapped(t, onTmpfs(t), 300_000)
	a, err := Attach(context.Background(), dev, shm.Bytes(), AttachOptions{Ledger: &ledger, From: RungInPlace,
		Available: 200_000})
	expect.Ensure(t, err == nil, "a file on tmpfs is in memory already, but %v", err)
	expect.OK(t, a.Close())

	ledger.SetLimit(100_000)
	expect.Is(t,
		expect.Err(Attach(context.Background(), dev, disk.Bytes(), AttachOptions{Ledger: &ledger, From: RungReadOnly})),
		ErrLimit, "beyond the ledger's limit")
	unchanged(t, &ledger)
}

func TestAFileCutShortIsNotAttached(t *testing.T) {
	dev := cudatest.Open(t)
	for _, from := range []Rung{0, RungCopy, RungHostAlloc} {
		dir := t.TempDir()
		file, path := mapped(t, dir, 300_000)
		expect.OK(t, os.Truncate(path, 100_000))
		var ledger Ledger
		if _, err := Attach(context.Background(), dev, file.Bytes(), AttachOptions{Ledger: &ledger, From: from,
			chunk: testChunk}); !errors.Is(err, ErrFault) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("from %v: %v, want ErrFault with the path", from, err)
		}
		unchanged(t, &ledger)
	}
}

func TestGoroutinesAttachAndCloseTheSameFile(t *testing.T) {
	dev := cudatest.Open(t)
	file, _ := mapped(t, t.TempDir(), 300_000)
	var ledger Ledger
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 8 {
				a, err := Attach(context.Background(), dev, file.Bytes()[i*10:],
					AttachOptions{Ledger: &ledger, chunk: testChunk})
				if err != nil {
					t.Error(err)
					return
				}
				if a.Bytes()[0] != file.Bytes()[i*10] {
					t.Error("other bytes")
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	unchanged(t, &ledger)
}

func TestUploadedBytesAreOnTheDevice(t *testing.T) {
	dev := cudatest.Open(t)
	file, path := mapped(t, t.TempDir(), 5*testChunk+12_345)
	for _, n := range []int{1, 1000, testChunk, len(file.Bytes())} {
		var ledger Ledger
		last := int64(0)
		a := expect.Must(Upload(context.Background(), dev, newStream(t, dev), file.Bytes()[:n],
			AttachOptions{Ledger: &ledger, Purpose: Columns, chunk: testChunk, Progress: func(done, total int64) {
				expect.That(t, done > last && total == int64(n), "%d of %d after %d", done, total, last)
				last = done
			}}))(t)
		expect.That(t, a.Rung() == RungDevice && last == int64(n) && len(a.Bytes()) == n, "%v, %d of %d told", a.Rung(),
			last, n)
		expect.That(t, ledger.DeviceUsed(Columns) >= int64(n) && ledger.Total() == 0,
			"%d bytes uploaded: %d on the device and %d on the host are counted", n, ledger.DeviceUsed(Columns),
			ledger.Total())
		expect.That(t, bytes.Equal(readBack(t, dev, a), file.Bytes()[:n]), "the device finds other bytes")
		expect.OK(t, a.Close())
		unchanged(t, &ledger)
	}

	var ledger Ledger
	ledger.SetDeviceLimit(100_000)
	expect.Is(t,
		expect.Err(Upload(context.Background(), dev, newStream(t, dev), file.Bytes(), AttachOptions{Ledger: &ledger})),
		ErrLimit, "beyond the limit")
	ledger.SetDeviceLimit(0)
	if _, err := Upload(context.Background(), dev, newStream(t, dev), bytesAt(uintptr(addressOf(file.Bytes())), 1<<46),
		AttachOptions{Ledger: &ledger}); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("more than any device has: %v", err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	_, err := Upload(ctx, dev, newStream(t, dev), file.Bytes(), AttachOptions{Ledger: &ledger, chunk: testChunk,
		Progress: func(int64, int64) { cancel(cause) }})
	expect.Is(t, err, cause, "cancelled")
	expect.OK(t, os.Truncate(path, testChunk))
	expect.Is(t,
		expect.Err(Upload(context.Background(), dev, newStream(t, dev), file.Bytes(), AttachOptions{Ledger: &ledger})),
		ErrFault, "a file cut short")
	unchanged(t, &ledger)
}

func TestMemoryOutlivesTheDeviceThatItWasAttachedWith(t *testing.T) {
	file, _ := mapped(t, t.TempDir(), 100_000)
	for _, from := range []Rung{RungHostAlloc, RungCopy, RungReadOnly} {
		dev := expect.Must(device.Open(0))(t)
		first := expect.Must(Attach(context.Background(), dev, file.Bytes(), AttachOptions{From: from}))(t)
		expect.OK(t, dev.Close())
		dev = cudatest.Open(t)
		second := expect.Must(Attach(context.Background(), dev, file.Bytes(), AttachOptions{From: from}))(t)
		expect.OK(t, first.Close())
		expect.That(t, bytes.Equal(readBack(t, dev, second), file.Bytes()), "other bytes")
		expect.OK(t, second.Close())
		unchanged(t, nil)
	}
}
