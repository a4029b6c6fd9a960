package formats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/formats/internal/staged"
	"github.com/khop-gnn/khop/internal/ranges"
)

// partial is what of a dataset from elsewhere need not be on this machine: columns that have several numbers a row,
// which loaders gather rows of. All else is brought whole when the dataset is opened, since it is read at any place and
// time. It is safe for concurrent use.
//
// Bytes that are not there cannot be read by mistake: their pages are protected until they are.
type partial struct {
	d     *Dataset
	files []*partialFile
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

// isPartial reports whether a file is one that need not be there.
func (f *contentFile) isPartial(chunk int64) bool {
	page := int64(os.Getpagesize())
	return canProtect && f.column != nil && len(f.typ.Shape) > 0 && f.part.Bytes >= leastPartial &&
		f.part.BodyOffset%page == 0 && chunk%page == 0
}

// partly prepares the dataset, whose entry has the heads of all files, and all of those that are not partial.
func (d *Dataset) partly(ctx context.Context, entry *staged.Entry) error {
	p := &partial{d: d}
	bodies := map[*Part][]byte{}
	for _, v := range d.verified {
		bodies[v.part] = v.body
	}
	for i, f := range d.manifest.files() {
		if !f.isPartial(d.manifest.ChunkBytes) || entry.Missing(i) == 0 {
			continue
		}
		file := &partialFile{partial: p, index: i, body: bodies[f.part], chunk: d.manifest.ChunkBytes,
			column: f.typ.Name}
		file.units = make([]unit, (int64(len(file.body))+file.chunk-1)/file.chunk)
		if err := file.hide(entry); err != nil {
			return err
		}
		p.files = append(p.files, file)
		of := slices.IndexFunc(d.files, func(o openedFile) bool { return o.path == d.filePath(f.part) })
		d.files[of].partial = true
	}
	if len(p.files) > 0 {
		p.ctx, p.end = context.WithCancel(ctx)
		d.partial = p
	}
	return nil
}

// hide protects what is not there.
func (f *partialFile) hide(entry *staged.Entry) error {
	for c := range f.units {
		if f.units[c].there = entry.Has(f.index, c+1); f.units[c].there {
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

// of returns the file that b lies in, and where; nil where b is not part of one.
func (p *partial) of(b []byte) (f *partialFile, from int64) {
	if len(b) == 0 {
		return nil, 0
	}
	for _, f := range p.files {
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
	kept, err = p.d.entry.Reserve(p.ctx, f.index)
	return true, kept, p.explain(err)
}

// ChunkBytes returns the most bytes of a chunk.
func (p *partial) ChunkBytes() int64 { return p.d.manifest.ChunkBytes }

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
	if err := f.d.entry.Bring(ctx, f.index, c+1); err != nil {
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
		return to, from, p.explain(p.d.entry.Read(p.ctx, f.index, c+1, to))
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
	for _, f := range p.files {
		for c := range f.units {
			if !p.d.entry.Has(f.index, c+1) && !yield(f, c) {
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
	return elsewhereError(p.d.source, err)
}

// close ends what is being brought.
func (p *partial) close() {
	p.end()
	p.along.Wait()
}

// Partial returns a value by which package loader brings parts of the dataset that are not on this machine; nil if all
// are.
func (d *Dataset) Partial() any {
	if d.partial == nil {
		return nil
	}
	return d.partial
}

// wholeFiles returns the files that must be there when a dataset is opened, by their numbers: all, or those that are
// not partial.
func (m *Manifest) wholeFiles(lazy bool) (list []int) {
	files := m.files()
	for i := range files {
		if !lazy || !files[i].isPartial(m.ChunkBytes) {
			list = append(list, i)
		}
	}
	return slices.Clip(list)
}
