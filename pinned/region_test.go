package pinned

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestAllocationsAreZeroAlignedAndCounted(t *testing.T) {
	var ledger Ledger
	for _, n := range []int64{1, 4095, 4096, 4097, HugePage - 1, HugePage, 3*HugePage + 5} {
		before := ledger.Total()
		r := expect.Must(Allocate(n, Options{Ledger: &ledger, Purpose: Batches}))(t)
		b := r.Bytes()
		expect.That(t, int64(len(b)) == n && r.Len() == n && r.opt.Placement() == Host, "%d bytes asked, %d given, %v",
			n, len(b), r.opt.Placement())
		expect.That(t, len(bytes.Trim(b, "\x00")) == 0, "%d bytes are not zero", n)
		align := uintptr(os.Getpagesize())
		if n >= HugePage {
			align = HugePage
		}
		if at := uintptr(unsafe.Pointer(&b[0])); at%align != 0 && runtime.GOOS != "windows" {
			t.Errorf("%d bytes begin at %#x, not a multiple of %d", n, at, align)
		}
		got := ledger.Used(Batches) - before
		expect.That(t, got >= n && got < n+HugePage, "%d bytes are counted as %d", n, got)
		for i := range b { // every byte can be written
			b[i] = 1
		}
		expect.OK(t, r.Close())
		if err := r.Close(); err != nil || ledger.Total() != before {
			t.Errorf("closed twice: %v, and %d bytes are still counted", err, ledger.Total()-before)
		}
	}
	expect.That(t, ledger.Peak() >= 3*HugePage+5, "peak is %d", ledger.Peak())
}

func TestAllocateRefusesImpossibleSizes(t *testing.T) {
	for _, n := range []int64{-1, 1 << 60, 1<<63 - 1} {
		expect.Is(t, expect.Err(Allocate(n, Options{})), errTooLarge, "%d bytes", n)
	}
	r, err := Allocate(0, Options{})
	expect.That(t, err == nil && r.Len() == 0 && r.Close() == nil, "0 bytes: %v", err)
}

func TestTouchKeepsContents(t *testing.T) {
	r := expect.Must(Allocate(100_000, Options{}))(t)
	defer r.Close()
	for i := range r.Bytes() {
		r.Bytes()[i] = byte(i * 7)
	}
	r.Touch(1 << 40)
	for i, b := range r.Bytes() {
		expect.Ensure(t, b == byte(i*7), "byte %d is %d", i, b)
	}
}

func TestMappedFileIsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	want := bytes.Repeat([]byte("khop"), 5000)
	expect.OK(t, os.WriteFile(path, want, 0o600))
	r := expect.Must(MapFile(path))(t)
	defer r.Close()
	expect.That(t, bytes.Equal(r.Bytes(), want) && r.opt.Placement() == Host, "the mapping differs from the file")
}

func TestWhatCannotBeMappedIsAnError(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	expect.OK(t, os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{empty, dir, filepath.Join(dir, "missing")} {
		if r, err := MapFile(path); err == nil {
			r.Close()
			t.Errorf("%s was mapped", path)
		}
	}
}

func TestGuardTurnsATruncatedFileIntoAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut short on Windows")
	}
	path := filepath.Join(t.TempDir(), "f")
	expect.OK(t, os.WriteFile(path, make([]byte, 1<<16), 0o600))
	r := expect.Must(MapFile(path))(t)
	defer r.Close()
	expect.OK(t, os.Truncate(path, 4096))
	sum := 0
	read := func() error {
		for _, b := range r.Bytes() {
			sum += int(b)
		}
		return nil
	}
	err := Guard(read)
	expect.Ensure(t, errors.Is(err, ErrFault), "%v, want ErrFault", err)
	err = Guard(func() error { return os.ErrClosed })
	expect.That(t, errors.Is(err, os.ErrClosed), "Guard returned %v for an ordinary error", err)
	defer func() {
		p := recover()
		expect.That(t, p == "mine", "Guard swallowed a panic of the caller's: %v", p)
	}()
	_ = Guard(func() error { panic("mine") })
}

func TestLedgerRefusesMoreThanItsLimit(t *testing.T) {
	var ledger Ledger
	ledger.SetLimit(1 << 20)
	opt := Options{Ledger: &ledger}
	r, err := Allocate(1<<19, opt)
	expect.OK(t, err)
	_, err = Allocate(1<<20, opt)
	expect.That(t, errors.Is(err, ErrLimit), "%v, want ErrLimit", err)
	expect.OK(t, r.Close())
	r, err = Allocate(1<<20, opt)
	expect.Ensure(t, err == nil, "memory that was given back is not to be had: %v", err)
	r.Close()
	expect.That(t, ledger.Total() == 0 && ledger.Peak() == 1<<20, "total %d, peak %d", ledger.Total(), ledger.Peak())
}

func TestLedgerCountsDeviceMemoryApart(t *testing.T) {
	var l Ledger
	l.SetLimit(100)
	l.SetDeviceLimit(1000)
	expect.OK(t, l.take(Device, Columns, 900))
	expect.OK(t, l.take(Pinned, Columns, 100))
	for _, place := range []Placement{Host, Pinned, Device} {
		expect.Is(t, l.take(place, Columns, 101), ErrLimit, "%v memory beyond the limit", place)
	}
	expect.That(t, l.Total() == 100 && l.Used(Columns) == 100 && l.DeviceTotal() == 900 && l.DeviceUsed(Columns) == 900,
		"host %d, device %d", l.Total(), l.DeviceTotal())
	l.give(Device, Columns, 900)
	l.give(Pinned, Columns, 100)
	expect.That(t, l.Total() == 0 && l.DeviceTotal() == 0 && l.DevicePeak() == 900 && l.Peak() == 100,
		"host %d of %d, device %d of %d", l.Total(), l.Peak(), l.DeviceTotal(), l.DevicePeak())
}

func TestPlacementsNeedADevice(t *testing.T) {
	for _, place := range []Placement{Pinned, Device} {
		if r, err := Allocate(10, Options{Place: place}); !errors.Is(err, ErrPlacement) {
			r.Close()
			t.Errorf("%v memory without a device: %v", place, err)
		}
	}
	for place, want := range map[Placement]string{Host: "host", Pinned: "pinned", Device: "device", 9: "placement(9)"} {
		expect.That(t, place.String() == want, "%d is %q, want %q", place, place, want)
	}
}

func TestNilLedgerCountsNothing(t *testing.T) {
	var l *Ledger
	l.Give(Topology, -5)
	expect.That(t,
		l.Total() == 0 && l.Peak() == 0 && l.Used(Topology) == 0 && l.take(Device, Topology, 1) == nil &&
			l.DeviceTotal() == 0 && l.DevicePeak() == 0 && l.DeviceUsed(Topology) == 0, "a nil ledger counted")
}

func TestPopulateReadsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	expect.OK(t, os.WriteFile(path, bytes.Repeat([]byte{7}, 1<<16), 0o600))
	r := expect.Must(MapFile(path))(t)
	defer r.Close()
	for _, part := range [][]byte{r.Bytes(), r.Bytes()[5000:5001], r.Bytes()[4095:9000], nil} {
		err := Populate(part)
		expect.That(t, err == nil || errors.Is(err, errors.ErrUnsupported), "%d bytes: %v", len(part), err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	expect.OK(t, os.Truncate(path, 4096))
	if err := Populate(r.Bytes()); !errors.Is(err, ErrFault) && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a file that was cut short: %v, want ErrFault", err)
	}
}

func TestBufferGrowsAndKeeps(t *testing.T) {
	var ledger Ledger
	b := Buffer{Options: Options{Ledger: &ledger, Purpose: Scratch}}
	kept := int64(0)
	for _, n := range []int64{10, 5000, 5001, 100_000, 3 << 20} {
		expect.OK(t, b.Grow(n, kept))
		expect.Ensure(t, b.Cap() >= n, "%d bytes asked, %d given", n, b.Cap())
		for i := range kept {
			expect.Ensure(t, b.Bytes()[i] == byte(i*3), "byte %d was lost growing to %d", i, n)
		}
		for i := kept; i < n; i++ {
			b.Bytes()[i] = byte(i * 3)
		}
		kept = n
	}
	before := ledger.Total()
	err := b.Grow(kept/2, kept)
	expect.That(t, err == nil && ledger.Total() == before, "asking for less moved the buffer: %v", err)
	if err := b.Close(); err != nil || ledger.Total() != 0 || b.Cap() != 0 {
		t.Errorf("closed: %v, %d bytes counted", err, ledger.Total())
	}
	err = b.Grow(10, 0)
	expect.That(t, err == nil && b.Cap() >= 10, "a closed buffer cannot be used again: %v", err)
	b.Close()
}

func TestReserveTakesNoMoreThanAsked(t *testing.T) {
	var ledger Ledger
	b := Buffer{Options: Options{Ledger: &ledger}}
	defer b.Close()
	expect.OK(t, b.Reserve(1<<20))
	expect.That(t, ledger.Total() == 1<<20, "%d bytes taken for %d", ledger.Total(), 1<<20)
	err := b.Reserve(1 << 10)
	expect.That(t, err == nil && b.Cap() == 1<<20, "reserving less changed the buffer: %v, %d bytes", err, b.Cap())
}
