package direct

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestFilesAreReadAndWrittenPastTheCache writes a file, reads random ranges of it, and compares them. Where the file
// system refuses, it must do so by the errors that callers look at.
func TestFilesAreReadAndWrittenPastTheCache(t *testing.T) {
	f := expect.Must(os.Create(filepath.Join(t.TempDir(), "x")))(t)
	defer f.Close()
	const n = 3*bounceBytes + 5*Align
	b := Buffer(n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	if err := Set(f, true); err != nil {
		t.Skip(err)
	}
	if _, err := f.WriteAt(b, 0); Refused(err) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	expect.OK(t, errors.Join(Set(f, false), f.Truncate(n-100)))
	d := expect.Must(Open(f))(t)
	defer d.Close()
	for range 200 {
		lo := r.IntN(n - 100)
		got := make([]byte, r.IntN(n-100-lo+1))
		if k, err := ReadAt(d, got, int64(lo)); err != nil || k != len(got) || !bytes.Equal(got, b[lo:lo+k]) {
			t.Fatalf("bytes %d to %d: %d read, %v", lo, lo+len(got), k, err)
		}
	}
	expect.Is(t, expect.Err(ReadAt(d, make([]byte, 200), n-200)), io.ErrUnexpectedEOF, "beyond the end")
}

// TestAFileIsWrittenBehindItsOwner writes files in pieces of any length, through memory that the file system takes and
// through memory that it refuses, and compares what is there.
func TestAFileIsWrittenBehindItsOwner(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 100 {
		f := expect.Must(os.Create(filepath.Join(t.TempDir(), "x")))(t)
		defer f.Close()
		b, err := NewBehind(f, Align*(1+r.IntN(3)))
		if err != nil {
			t.Skip(err)
		}
		if i%2 == 1 { // memory that no transfer past the cache takes
			b.buf, b.spare = make([]byte, Align+1)[1:1:Align+1], make([]byte, Align+1)[1:1:Align+1]
		}
		want := make([]byte, r.IntN(8*Align))
		for i := range want {
			want[i] = byte(r.Uint32())
		}
		for rest := want; len(rest) > 0; {
			n := 1 + r.IntN(min(len(rest), 2*Align))
			k, err := b.Write(rest[:n])
			expect.Ensure(t, err == nil && k == n, "seed %d: %d of %d bytes, %v", seed, k, n, err)
			rest = rest[n:]
		}
		err = b.Close()
		expect.Ensure(t, err == nil, "seed %d: %v", seed, err)
		if _, err := f.WriteString("tail"); err != nil { // not aligned, from where it ended
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := os.ReadFile(f.Name())
		expect.Ensure(t, err == nil && bytes.Equal(got, append(want, "tail"...)),
			"seed %d: %d bytes written, %d are there, %v", seed, len(want)+4, len(got), err)
	}
}

// TestAnErrorOfWritingBehindIsNotLost closes the file under blocks that are full, and under one that is not.
func TestAnErrorOfWritingBehindIsNotLost(t *testing.T) {
	for _, n := range []int{1, Align, 2*Align - 1, 5 * Align} {
		f := expect.Must(os.Create(filepath.Join(t.TempDir(), "x")))(t)
		b, err := NewBehind(f, Align)
		if err != nil {
			t.Skip(err)
		}
		expect.OK(t, f.Close())
		_, _ = b.Write(make([]byte, n))
		if err := b.Close(); err == nil || n >= Align && !errors.Is(err, os.ErrClosed) {
			t.Errorf("%d bytes to a closed file: %v", n, err)
		}
	}
}

// TestWhatWaitsForTheDiskIsWrittenAllTheSame has goroutines write pieces of two files, as in a small control group.
func TestWhatWaitsForTheDiskIsWrittenAllTheSame(t *testing.T) {
	defer func(was func() int64) { window = was }(window)
	window = func() int64 { return 10_000 }
	want := bytes.Repeat([]byte("0123456789abcde"), 20_000)
	for range 2 {
		f := expect.Must(os.Create(filepath.Join(t.TempDir(), "x")))(t)
		var all sync.WaitGroup
		for lo := 0; lo < len(want); lo += 70_001 {
			all.Go(func() {
				n, err := WriteAt(f, want[lo:min(lo+70_001, len(want))], int64(lo))
				expect.That(t, err == nil && n == min(70_001, len(want)-lo), "%d: %d, %v", lo, n, err)
			})
		}
		all.Wait()
		expect.That(t, bytes.Equal(expect.Must(os.ReadFile(f.Name()))(t), want), "other bytes")
		expect.OK(t, f.Close()) // of which the second file need not know
		n, err := NewWriter(f).Write(want)
		expect.That(t, n == 0 && errors.Is(err, os.ErrClosed), "%d, %v", n, err)
	}
}
