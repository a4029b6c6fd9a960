package direct

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestFilesAreReadAndWrittenPastTheCache writes a file, reads random ranges of it, and compares them. Where the file
// system refuses, it must do so by the errors that callers look at.
func TestFilesAreReadAndWrittenPastTheCache(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
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
	if err := errors.Join(Set(f, false), f.Truncate(n-100)); err != nil {
		t.Fatal(err)
	}
	d, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 200 {
		lo := r.IntN(n - 100)
		got := make([]byte, r.IntN(n-100-lo+1))
		if k, err := ReadAt(d, got, int64(lo)); err != nil || k != len(got) || !bytes.Equal(got, b[lo:lo+k]) {
			t.Fatalf("bytes %d to %d: %d read, %v", lo, lo+len(got), k, err)
		}
	}
	if _, err := ReadAt(d, make([]byte, 200), n-200); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("beyond the end: %v", err)
	}
}

// TestAFileIsReadAheadFromAnyPlace reads ranges of a file by blocks, some of which the reader leaves out.
func TestAFileIsReadAheadFromAnyPlace(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 100_000)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		first := r.Int64N(int64(len(b)))
		end := first + r.Int64N(int64(len(b))-first) + 1
		a, err := NewAhead(f, first, end, Align*(1+r.IntN(3)))
		if Refused(err) || errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		for at := first; at < end && r.IntN(40) > 0; {
			got, err := a.From(at)
			if err != nil || len(got) == 0 || !bytes.Equal(got, b[at:at+int64(len(got))]) {
				t.Fatalf("byte %d of %d to %d: %d bytes, %v", at, first, end, len(got), err)
			}
			at += 1 + r.Int64N(2*int64(len(got)))
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	a, err := NewAhead(f, 0, int64(len(b))+1, Align)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.From(int64(len(b)) - 1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that is cut short: %v", err)
	}
}
