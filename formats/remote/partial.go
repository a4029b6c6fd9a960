package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/staged"
)

// partial is what of a dataset from elsewhere need not be on this machine: columns that have several numbers a row,
// which loaders gather rows of. All else is brought whole when the dataset is opened, since it is read at any place and
// time. It is safe for concurrent use.
//
// Bytes that are not there cannot be read by mistake: their pages are protected until they are.
type partial struct {
	*source
	late  []*partialFile
	ctx   context.Context // ends what is brought
	end   context.CancelFunc
	along sync.WaitGroup // columns that are being brought along
}

// partialFile is the file of such a column.
type partialFile struct {
	*partial
	index  int // in the entry
	body   []byte
	chunk  int64
	units  []unit
	begin  sync.Once // of bringing it along
	column string
}

// unit is a chunk of it.
type unit struct {
	mu    sync.Mutex
	there bool // it can be read
}

// leastPartial is the bytes of the elements from which on a column is not brought whole. Tests change it.
var leastPartial int64 = 64 << 20

// canBeLate reports whether a file is one that need not be there.
func (s *source) canBeLate(i int) bool {
	f, page := &s.files[i], int64(os.Getpagesize())
	return canProtect && f.Column != nil && len(f.Column.Shape) > 0 && f.Bytes >= leastPartial &&
		f.BodyOffset%page == 0 && s.manifest.ChunkBytes%page == 0
}

// Mapped implements formats.Source: it protects what is not there of files that come late.
func (s *source) Mapped(ctx context.Context, bodies [][]byte) (late []int, _ any, err error) {
	p := &partial{source: s}
	for i, body := range bodies {
		if !s.canBeLate(i) || s.entry.Missing(i) == 0 {
			continue
		}
		f := &partialFile{partial: p, index: i, body: body, chunk: s.manifest.ChunkBytes,
			column: s.files[i].Column.Name}
		f.units = make([]unit, (int64(len(f.body))+f.chunk-1)/f.chunk)
		if err := f.hide(); err != nil {
			return nil, nil, err
		}
		p.late, late = append(p.late, f), append(late, i)
	}
	if late == nil {
		return nil, nil, nil
	}
	p.ctx, p.end = context.WithCancel(ctx)
	s.partial = p
	return late, p, nil
}

// hide protects what is not there.
func (f *partialFile) hide() error {
	for c := range f.units {
		if f.units[c].there = f.entry.Has(f.index, c+1); f.units[c].there {
			continue
		}
		if err := protect(f.bytes(c), false); err != nil {
			return fmt.Errorf("protect what is not there of column %q: %w", f.column, err)
		}
	}
	return nil
}

// bytes returns a chunk.
func (f *partialFile) bytes(c int) []byte {
	from := int64(c) * f.chunk
	return f.body[from:min(from+f.chunk, int64(len(f.body)))]
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// of returns the file that b lies in, and where; nil where b is not part of one.
func (p *partial) of(b []byte) (f *partialFile, from int64) {
	if len(b) == 0 {
		return nil, 0
	}
	for _, f := range p.late {
		if at := int64(addressOf(b)) - int64(addressOf(f.body)); at >= 0 && at < int64(len(f.body)) {
			return f, at
		}
	}
	return nil, 0
}

// Absent reports whether b lies in a column that was not there whole when the dataset was opened, and whether the cache
// has room for all of the column. It reserves that room.
func (p *partial) Absent(b []byte) (absent, kept bool, err error) {
	f, _ := p.of(b)
	if f == nil {
		return false, true, nil
	}
	kept, err = p.entry.Reserve(p.ctx, f.index)
	return true, kept, p.explain(err)
}

// ChunkBytes returns the most bytes of a chunk.
func (p *partial) ChunkBytes() int64 { return p.manifest.ChunkBytes }

// Bring has the chunks there that b lies in, and begins to bring the others of the column.
func (p *partial) Bring(b []byte) error {
	f, from := p.of(b)
	if f == nil {
		return nil
	}
	f.begin.Do(f.bringAlong)
	for c := from / f.chunk; c*f.chunk < from+int64(len(b)); c++ {
		if err := f.bring(p.ctx, int(c)); err != nil {
			return p.explain(err)
		}
	}
	return nil
}

// bring has a chunk there.
func (f *partialFile) bring(ctx context.Context, c int) error {
	u := &f.units[c]
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.there {
		return nil
	}
	if err := f.entry.Bring(ctx, f.index, c+1); err != nil {
		return err
	}
	if err := protect(f.bytes(c), true); err != nil {
		return err
	}
	u.there = true
	return nil
}

// bringAlong brings all chunks in order, while others are brought because they are needed. What fails then is left to
// who needs it.
func (f *partialFile) bringAlong() {
	f.along.Go(func() {
		for c := range f.units {
			if f.bring(f.ctx, c) != nil {
				return
			}
		}
	})
}

// Chunk returns the chunk of a column in which its byte at lies, and where it begins. One that the cache has no room
// for is read into the memory that it is given.
func (p *partial) Chunk(column []byte, at int64, to []byte) (chunk []byte, from int64, err error) {
	f, _ := p.of(column)
	c := int(at / f.chunk)
	from = int64(c) * f.chunk
	err = f.bring(p.ctx, c)
	if errors.Is(err, staged.ErrRoom) {
		to = to[:len(f.bytes(c))]
		return to, from, p.explain(p.entry.Read(p.ctx, f.index, c+1, to))
	}
	return f.bytes(c), from, p.explain(err)
}

// Missing returns the bytes that are not there of all that need not be, and the requests that bring them.
func (p *partial) Missing() (bytes, requests int64) {
	for f, c := range p.missing {
		n := int64(len(f.bytes(c)))
		bytes += n
		requests += (n + ranges.RangeBytes - 1) / ranges.RangeBytes
	}
	return bytes, requests
}

// Probe brings a chunk, which stays there if the cache has room for it, and returns its bytes.
func (p *partial) Probe() (int64, error) {
	for f, c := range p.missing {
		_, _, err := p.Chunk(f.body, int64(c)*f.chunk, make([]byte, f.chunk))
		return int64(len(f.bytes(c))), err
	}
	return 0, nil
}

// missing calls yield for each chunk that the cache does not have.
func (p *partial) missing(yield func(f *partialFile, c int) bool) {
	for _, f := range p.late {
		for c := range f.units {
			if !p.entry.Has(f.index, c+1) && !yield(f, c) {
				return
			}
		}
	}
}

// explain names the dataset.
func (p *partial) explain(err error) error {
	if err == nil {
		return nil
	}
	return explain(p.at, err)
}
