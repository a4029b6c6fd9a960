package source

import (
	"errors"
	"io"
	"os"

	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/direct/ahead"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/pinned"
)

// Raw is an open file, as it lies on the disk or in an archive.
type Raw struct {
	io.ReaderAt
	io.Closer
	Size int64
	Path string // what messages call it

	mem    []byte
	file   *os.File
	budget *Budget
	bring  func(from, to int64) error // has bytes of the file there; nil: all are
}

// brought is a file whose bytes are brought before they are read.
type brought struct {
	io.ReaderAt
	bring func(from, to int64) error
}

// ReadAt reads.
func (b brought) ReadAt(p []byte, at int64) (int, error) {
	if err := b.bring(at, at+int64(len(p))); err != nil {
		return 0, err
	}
	return b.ReaderAt.ReadAt(p, at)
}

// Map returns the bytes of the file, valid until Close, or nil where the system does not map it.
func (r *Raw) Map() ([]byte, error) {
	if r.mem != nil || r.file == nil {
		return r.mem, nil
	}
	if r.bring != nil {
		if err := r.bring(0, r.Size); err != nil {
			return nil, err
		}
	}
	region, err := pinned.Map(r.file)
	if err != nil {
		return nil, err
	}
	r.mem, r.Closer = region.Bytes(), closers{region, r.Closer}
	return r.mem, nil
}

// Whole returns the bytes of the file, valid until Close: a copy in temporary room where the system does not map it.
func (r *Raw) Whole(b *Budget) ([]byte, error) {
	mem, err := r.Map()
	if err == nil && (mem != nil || r.Size == 0) {
		return mem, nil
	}
	s := &Spool{Budget: b}
	r.Closer = closers{s, r.Closer}
	n, err := io.Copy(s, io.NewSectionReader(r, 0, r.Size))
	if err == nil && n < r.Size {
		err = Error(r.Path, "", -1, "", wholefile.EndsEarly(n, r.Size))
	}
	if err != nil {
		return nil, err
	}
	return s.Bytes()
}

// Blocks hands on the bytes of a file in order.
type Blocks interface {
	// From returns bytes from a place of the file on, at least one, which is not before that of the last call. They are
	// valid until the next call.
	From(at int64) ([]byte, error)
}

// The least file that Ahead reads, and how many bytes at a time. Tests change them.
var (
	aheadFile  int64 = 256 << 20
	aheadBlock       = 4 << 20
)

// Ahead returns the bytes from a place to another, in order, which are read ahead and past the page cache. Its memory
// is counted until Close of the file. It returns nil where mapping the file is better: a small file, one of which half
// is in the page cache, one of a file system without this; or where the memory is little.
func (r *Raw) Ahead(at, end int64) Blocks {
	if r.file == nil || r.bring != nil || end-at < aheadFile || direct.Cached(r.file, r.Size) > 0.5 {
		return nil
	}
	l, n := r.budget.Ledger(), ahead.Memory(aheadBlock)
	if l.Left()/16 < n || l.Take(pinned.Sources, n) != nil {
		return nil
	}
	a, err := ahead.New(r.file, at, end, aheadBlock)
	if err != nil {
		l.Give(pinned.Sources, n)
		return nil
	}
	r.Closer = closers{a, closing(func() error { l.Give(pinned.Sources, n); return nil }), r.Closer}
	return a
}

// closing is a function that closes something.
type closing func() error

// Close implements io.Closer.
func (c closing) Close() error { return c() }

// closers are closed one after the other.
type closers []io.Closer

func (c closers) Close() (err error) {
	for _, x := range c {
		err = errors.Join(err, x.Close())
	}
	return err
}
