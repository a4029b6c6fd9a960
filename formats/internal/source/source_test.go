package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// limited returns a ledger; nil without a limit.
func limited(limit int64) *pinned.Ledger {
	if limit == 0 {
		return nil
	}
	l := &pinned.Ledger{}
	l.SetLimit(limit)
	return l
}

func TestSpoolGivesBackWhatItTook(t *testing.T) {
	for _, memory := range []int64{1, 400, 12 << 20, 0} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			dir := t.TempDir()
			s := &Spool{Budget: &Budget{Dir: dir, Memory: limited(memory)}}
			var want []byte
			for i := range 300 {
				p := bytes.Repeat([]byte{byte(i)}, i*i/2)
				expect.Must(s.Write(p))(t)
				want = append(want, p...)
			}
			for range 2 {
				if got, err := s.Bytes(); err != nil || !bytes.Equal(got, want) || s.Len() != int64(len(want)) {
					t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
				}
			}
			for range 2 { // what was given back is not given back again
				expect.OK(t, s.Close())
			}
			if l := s.Budget.Ledger(); l.Peak() > memory/4 || l != nil && l.Left() != memory {
				t.Errorf("a peak of %d, %d left", l.Peak(), l.Left())
			}
			left, _ := os.ReadDir(dir)
			expect.That(t, len(left) == 0, "left behind: %v", left)
		})
	}
}

// Few bytes lie anywhere in memory, unless there is room for more.
func TestFewEdgesAreReadBackWhateverWasExpected(t *testing.T) {
	for expected := range int64(64) {
		s := &EdgeStore{Spool: Spool{Budget: &Budget{}}}
		s.Spool.Expect(expected)
		expect.OK(t, s.Append([]int64{expected}, []int64{1}))
		err := s.Each(func(src, dst []int64) error {
			if len(src) != 1 || src[0] != expected || dst[0] != 1 {
				return fmt.Errorf("%d -> %d", src, dst)
			}
			return nil
		})
		err = errors.Join(err, s.Close())
		expect.That(t, err == nil, "%d bytes were expected: %v", expected, err)
	}
}

func TestAFullDiskIsNamed(t *testing.T) {
	s := &Spool{Budget: &Budget{Dir: "/data"}, size: 12345}
	err := NoSpace(s.Budget, s.size, &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	expect.That(t, errors.Is(err, formats.ErrSpace) && strings.Contains(err.Error(), "/data") &&
		strings.Contains(err.Error(), "12345"), "got %v", err)
	_, err = (&Spool{Budget: &Budget{Dir: "/no/such/folder", Memory: limited(1)}}).Write([]byte("ab"))
	expect.That(t, err != nil, "a temporary file was made nowhere")
}

func TestWriteRowsClearsEachRow(t *testing.T) {
	const rows, width = 700, 1000 // several batches
	var b bytes.Buffer
	expect.OK(t, WriteRows(context.Background(), &b, rows, width,
		func(i int64, row []float32) { row[i%width] = float32(i) }))
	x := expect.Must(unified.New(unified.Float32, bytes.Clone(b.Bytes()), rows, width))(t)
	v, _ := unified.View[float32](x)
	for i, got := range v {
		if want := float32(i / width); i%width == i/width && got != want || i%width != i/width && got != 0 {
			t.Fatalf("row %d column %d is %v", i/width, i%width, got)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	expect.Is(t, WriteRows(ctx, &b, rows, width, func(int64, []float32) {}), context.Canceled, "cancelled")
}

func TestOpenRefusesADirectory(t *testing.T) {
	_, err := Open(t.TempDir())
	expect.That(t, err != nil && strings.Contains(err.Error(), "directory"), "got %v", err)
}

func TestTextsKeepTheLastMegabytesInMemory(t *testing.T) {
	dir, ledger := t.TempDir(), limited(40<<20)
	x := &Texts{Budget: &Budget{Dir: dir, Memory: ledger}}
	var want [][]byte
	for i := range 150 { // some 50 MB
		b := bytes.Repeat([]byte{byte(i)}, i*i*47)
		if i%10 == 0 {
			b = nil
		}
		expect.OK(t, x.Append(b))
		want = append(want, b)
	}
	for i, b := range want {
		expect.That(t, bytes.Equal(x.At(int64(i)), b), "string %d of %d bytes: got %d bytes", i, len(b),
			len(x.At(int64(i))))
	}
	expect.That(t, x.Len() == 150 && ledger.Peak() <= 36<<20, "%d strings, a peak of %d bytes", x.Len(), ledger.Peak())
	err := x.Close()
	expect.That(t, err == nil && ledger.Total() == 0, "closed: %v, %d bytes are counted", err, ledger.Total())
	left, _ := os.ReadDir(dir)
	expect.That(t, len(left) == 0, "left behind: %v", left)
}

// TestTheWindowOfAFileIsCounted: what a Zstandard file makes the reader keep is its own choice.
func TestTheWindowOfAFileIsCounted(t *testing.T) {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(16<<20))
	if err == nil {
		_, err = w.Write(make([]byte, 20<<20))
		err = errors.Join(err, w.Close())
	}
	path := filepath.Join(t.TempDir(), "x.zst")
	err = errors.Join(err, os.WriteFile(path, b.Bytes(), 0o600))
	expect.OK(t, err)
	f := expect.Must(Open(path))(t)
	expect.Says(t, f.Count(limited(15<<20)), pinned.ErrLimit, path, "under a limit of 15 MiB")
	l := limited(20 << 20)
	if err := f.Count(l); err != nil || l.Total() != 16<<20 {
		t.Errorf("%v, %d bytes are counted", err, l.Total())
	}
	if n, err := io.Copy(io.Discard, f); n != 20<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	err = f.Close()
	expect.That(t, err == nil && l.Total() == 0, "closed: %v, %d bytes are counted", err, l.Total())
}

func TestARecordWithoutEndIsRefused(t *testing.T) {
	p := NewPaced(context.Background(), io.LimitReader(zeros{}, 1<<40))
	for range 3 {
		if n, err := io.CopyN(io.Discard, p, MaxRecord); err != nil {
			t.Fatal(n, err)
		}
		p.Next()
	}
	n, err := io.Copy(io.Discard, p)
	expect.That(t, n == MaxRecord && err != nil, "%d bytes, %v", n, err)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestALargeFileIsReadAheadOfTheCache: where it is not in the page cache, and within the memory, all of which it gives
// back.
func TestALargeFileIsReadAheadOfTheCache(t *testing.T) {
	defer func(file int64, block int) { aheadFile, aheadBlock = file, block }(aheadFile, aheadBlock)
	aheadFile, aheadBlock = 1<<20, 1<<16
	path := filepath.Join(t.TempDir(), "x")
	data := bytes.Repeat([]byte("0123456789abcde"), 1<<17)
	expect.OK(t, os.WriteFile(path, data, 0o600))
	drop(t, path)
	for _, limit := range []int64{1 << 22, 1 << 20} {
		tree := expect.Must(OpenTree(path, &Budget{Memory: limited(limit)}))(t)
		raw := expect.Must(tree.At("x").Raw())(t)
		l := raw.budget.Ledger()
		a := raw.Ahead(100, raw.Size)
		switch {
		case limit == 1<<20 && (a != nil || l.Left() != limit):
			t.Errorf("of %d bytes %d are left", limit, l.Left())
		case limit == 1<<20:
		case a == nil:
			t.Log("the file system does not read past the page cache")
		default:
			for at := int64(100); at < raw.Size; {
				b, err := a.From(at)
				expect.Ensure(t, err == nil && bytes.Equal(b, data[at:at+int64(len(b))]), "byte %d: %d bytes, %v", at,
					len(b), err)
				at += int64(len(b))
			}
			expect.That(t, l.Left() <= limit-3<<16, "only %d bytes are counted", limit-l.Left())
		}
		err := errors.Join(raw.Close(), tree.Close())
		expect.That(t, err == nil && l.Left() == limit, "%d of %d bytes are left, %v", l.Left(), limit, err)
	}
}
