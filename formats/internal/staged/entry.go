package staged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/internal/ranges"
)

// Dataset is what an entry is made of.
type Dataset struct {
	Object   func(path string, size int64) *ranges.Object // a file, of a size that is known
	Key      string                                       // tells apart contents, and where they come from
	Source   string                                       // where it lies, for people
	Manifest []byte                                       // nil: it is a source, of which nobody knows checksums
	Chunk    int64                                        // bytes of a chunk
	Files    []File
	// Sums returns the checksums of a file: of head and tail, and of each chunk. nil where there is no manifest.
	Sums func(file int) (head uint64, chunks []uint64, err error)
}

// Entry is a dataset in the cache. It is safe for concurrent use. The owner calls Close.
type Entry struct {
	cache  *Cache
	of     Dataset
	x      index
	first  []int // of each file, the number of its first unit among all
	lock   *os.File
	states *os.File
	files  []*file
}

// file is a file of an entry.
type file struct {
	object *ranges.Object

	once sync.Once
	data *os.File
	head uint64
	sums []uint64
	err  error

	room    sync.Once
	whole   bool // all of it is reserved
	roomErr error
}

// Open makes the entry of a dataset, or finds it. Nothing is brought.
func Open(ctx context.Context, c Cache, d Dataset) (*Entry, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	e := &Entry{cache: &c, of: d, x: index{d.Source, d.Chunk, d.Files}}
	units := 0
	for i := range d.Files {
		e.first = append(e.first, units)
		units += e.x.units(&d.Files[i])
		e.files = append(e.files, &file{object: d.Object(d.Files[i].Path, d.Files[i].Bytes)})
	}
	err := c.locked(ctx, func() error {
		if _, states, err := c.entryOf(d.Key); err != nil || len(states) != units {
			if err := errors.Join(os.RemoveAll(e.path()), c.make(d.Key, e.x, d.Manifest)); err != nil {
				return err
			}
		}
		now := time.Now()
		if err := os.Chtimes(e.path(lockName), now, now); err != nil {
			return err
		}
		var err error
		e.lock, err = lock(ctx, e.path(lockName), true)
		return err
	})
	if err == nil {
		e.states, err = os.OpenFile(e.path(statesName), os.O_RDWR, 0)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Entry) path(names ...string) string {
	return filepath.Join(append([]string{e.cache.Dir, e.of.Key}, names...)...)
}

// Dir returns the folder that has the dataset.
func (e *Entry) Dir() string { return e.path(dataName) }

// Close lets the cache remove the entry, when every process has closed it.
func (e *Entry) Close() error {
	var errs []error
	for _, f := range e.files {
		if f.data != nil {
			errs = append(errs, f.data.Close())
		}
	}
	for _, f := range []*os.File{e.states, e.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// open opens a file, and has its checksums decoded.
func (e *Entry) open(i int) (*file, error) {
	f := e.files[i]
	f.once.Do(func() {
		if e.of.Sums != nil {
			f.head, f.sums, f.err = e.of.Sums(i)
		}
		if f.err == nil {
			f.data, f.err = os.OpenFile(filepath.Join(e.Dir(), filepath.FromSlash(e.x.Files[i].Path)), os.O_RDWR, 0)
		}
	})
	return f, f.err
}

// state returns the byte of a unit.
func (e *Entry) state(i, unit int) (byte, error) {
	var b [1]byte
	_, err := e.states.ReadAt(b[:], int64(e.first[i]+unit))
	return b[0], err
}

// Has reports whether a unit is there.
func (e *Entry) Has(i, unit int) bool {
	s, err := e.state(i, unit)
	return err == nil && s == there
}

// Missing returns the bytes of a file that are not there.
func (e *Entry) Missing(i int) (n int64) {
	f := &e.x.Files[i]
	for u := range e.x.units(f) {
		if !e.Has(i, u) {
			n += e.x.bytes(f, u)
		}
	}
	return n
}

// Reserve takes room for all of a file, or for as many of its units as there is room for, the first ones. It reports
// whether all of it has room. It does so once.
func (e *Entry) Reserve(ctx context.Context, i int) (whole bool, err error) {
	f := e.files[i]
	f.room.Do(func() {
		f.roomErr = e.cache.locked(ctx, func() (err error) {
			f.whole, err = e.reserve(i, e.x.units(&e.x.Files[i]))
			return err
		})
	})
	return f.whole, f.roomErr
}

// reserve takes room for the first units of a file, as far as there is some. It reports whether all have it. The cache
// is locked.
func (e *Entry) reserve(i, units int) (all bool, err error) {
	f := &e.x.Files[i]
	states := make([]byte, units)
	if _, err := e.states.ReadAt(states, int64(e.first[i])); err != nil {
		return false, err
	}
	want := int64(0)
	for u, s := range states {
		if s == absent {
			want += e.x.bytes(f, u)
		}
	}
	left := int64(0)
	if want > 0 {
		if left, err = e.cache.room(want); err != nil {
			return false, err
		}
	}
	for u, s := range states {
		if n := e.x.bytes(f, u); s == absent && n <= left {
			states[u] = reserved
			left -= n
		}
	}
	_, err = e.states.WriteAt(states, int64(e.first[i]))
	return !slices.Contains(states, absent), err
}

// stripes is how many locks there are for units that are being brought.
const stripes = 64

// Bring brings a unit of a file, unless it is there. ErrRoom where it has none.
func (e *Entry) Bring(ctx context.Context, i, unit int) error {
	if e.Has(i, unit) {
		return nil
	}
	if unit > 0 {
		if _, err := e.Reserve(ctx, i); err != nil {
			return err
		}
	}
	l, err := lock(ctx, e.path(fillName, strconv.Itoa((e.first[i]+unit)%stripes)), false)
	if err != nil {
		return err
	}
	defer l.Close()
	switch s, err := e.state(i, unit); {
	case err != nil || s == there:
		return err
	case s == absent:
		return e.noRoom(e.x.bytes(&e.x.Files[i], unit))
	}
	f, err := e.open(i)
	if err != nil {
		return err
	}
	if err := e.fill(ctx, i, f, unit); err != nil {
		return err
	}
	if err := f.data.Sync(); err != nil {
		return err
	}
	_, err = e.states.WriteAt([]byte{there}, int64(e.first[i]+unit))
	return err
}

func (e *Entry) noRoom(n int64) error {
	return fmt.Errorf("%s: %w: %s bytes are needed, and it may have %s in all: let it have more, or remove folders "+
		"there that nobody needs", e.cache.Dir, ErrRoom, humanize.Comma(n), humanize.Comma(e.cache.Size))
}

// fill reads a unit into its file.
func (e *Entry) fill(ctx context.Context, i int, f *file, unit int) error {
	return e.compared(i, f, unit, func() (uint64, error) {
		h := xxh3.New()
		for _, span := range e.spans(i, unit) {
			err := f.object.Fetch(ctx, span[0], span[1]-span[0], func(p []byte, at int64) error {
				_, err := f.data.WriteAt(p, at)
				return err
			})
			if err == nil && e.of.Sums != nil {
				n := span[1] - span[0]
				_, err = io.CopyN(h, io.NewSectionReader(f.data, span[0], n), n)
			}
			if err != nil {
				return 0, err
			}
		}
		return h.Sum64(), nil
	})
}

// compared has a unit read, and compares it with its checksum; a second time where that does not fit.
func (e *Entry) compared(i int, f *file, unit int, read func() (uint64, error)) (err error) {
	for range 2 {
		sum, e2 := read()
		if e2 != nil {
			return e2
		}
		if err = e.compare(i, f, unit, sum); err == nil {
			return nil
		}
	}
	return err
}

// spans returns where the bytes of a unit lie in its file.
func (e *Entry) spans(i, unit int) [][2]int64 {
	f := &e.x.Files[i]
	if unit == 0 {
		return [][2]int64{{0, f.Body}, {f.Body + f.Size, f.Bytes}}
	}
	from, to := e.x.span(f, unit)
	return [][2]int64{{from, to}}
}

// compare returns an error where a unit is not what the manifest says.
func (e *Entry) compare(i int, f *file, unit int, sum uint64) error {
	if e.of.Sums == nil {
		return nil
	}
	want := f.head
	if unit > 0 {
		want = f.sums[unit-1]
	}
	if sum == want {
		return nil
	}
	span := e.spans(i, unit)[0]
	return fmt.Errorf("%s: %w: bytes %s to %s do not fit the checksum in its dataset.json", f.object.At(),
		arrayfile.ErrCorrupt, humanize.Comma(span[0]), humanize.Comma(span[1]))
}

// Read reads a chunk that has no room into memory, and compares it with its checksum.
func (e *Entry) Read(ctx context.Context, i, unit int, to []byte) error {
	f, err := e.open(i)
	if err != nil {
		return err
	}
	from, _ := e.x.span(&e.x.Files[i], unit)
	return e.compared(i, f, unit, func() (uint64, error) {
		err := f.object.Fetch(ctx, from, int64(len(to)), func(p []byte, at int64) error {
			copy(to[at-from:], p)
			return nil
		})
		return xxh3.Hash(to), err
	})
}

// Heads brings the heads and tails of all files. ErrRoom where these have none.
func (e *Entry) Heads(ctx context.Context) error {
	err := e.cache.locked(ctx, func() error {
		for i := range e.x.Files {
			if _, err := e.reserve(i, 1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(ranges.InFlight)
	for i := range e.x.Files {
		g.Go(func() error { return e.Bring(ctx, i, 0) })
	}
	return g.Wait()
}

// Whole brings files whole. ErrRoom, before anything is brought, where they have no room. progress is told of bytes.
func (e *Entry) Whole(ctx context.Context, files []int, progress func(done, total int64)) error {
	done, total := int64(0), int64(0)
	for _, i := range files {
		whole, err := e.Reserve(ctx, i)
		if err != nil {
			return err
		}
		if !whole {
			return fmt.Errorf("%s: %w", e.x.Files[i].Path, e.noRoom(e.x.Files[i].Bytes))
		}
		total += e.Missing(i)
	}
	var mu sync.Mutex
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(ranges.InFlight)
	for _, i := range files {
		f := &e.x.Files[i]
		for u := range e.x.units(f) {
			if inner.Err() != nil || e.Has(i, u) {
				continue
			}
			g.Go(func() error {
				if err := e.Bring(inner, i, u); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				done += e.x.bytes(f, u)
				progress(done, total)
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
