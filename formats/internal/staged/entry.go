package staged

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
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
	"github.com/khop-gnn/khop/formats/internal/origin"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/machine"
)

// Dataset is what an entry is made of.
type Dataset struct {
	Object   func(file int) *ranges.Object // where it lies
	Key      string                        // tells apart contents, and where they come from
	Source   string                        // where it lies, for people
	Manifest []byte                        // nil: it is a source, of which nobody knows checksums
	Chunk    int64                         // bytes of a chunk
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
		e.files = append(e.files, &file{})
	}
	err := c.locked(ctx, func() error {
		x, states, err := c.entryOf(d.Key)
		others := x.Chunk != e.x.Chunk || !slices.Equal(x.Files, e.x.Files) || len(states) != units
		if err != nil || others { // it is made anew
			err = errors.Join(os.RemoveAll(e.path()), c.make(d.Key, e.x, d.Manifest))
		}
		if err == nil {
			e.states, err = os.OpenFile(e.path(statesName), os.O_RDWR, 0)
		}
		if err == nil {
			err = e.mend()
		}
		if err != nil {
			return err
		}
		now := time.Now()
		if err := os.Chtimes(e.path(lockName), now, now); err != nil {
			return err
		}
		e.lock, err = lock(ctx, e.path(lockName), true)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Entry) path(names ...string) string {
	return filepath.Join(append([]string{e.cache.Dir, e.of.Key}, names...)...)
}

// Dir returns the folder that has the dataset.
func (e *Entry) Dir() string { return e.path(origin.Data) }

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
		f.object = e.of.Object(i)
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
		var without int
		without, _, f.roomErr = e.reserve(ctx, []part{e.all(i)}, false)
		f.whole = without < 0
	})
	return f.whole, f.roomErr
}

// part is some units of a file.
type part struct{ file, from, to int }

// all returns all units of a file.
func (e *Entry) all(i int) part { return part{i, 0, e.x.units(&e.x.Files[i])} }

// reserve takes room for parts, as far as there is some, for the first ones first. It returns the first file of which
// a unit has none; -1: all have room; and the bytes of what is not there. whole: ErrRoom, and nothing is taken, where
// the disk has no room for all.
func (e *Entry) reserve(ctx context.Context, parts []part, whole bool) (without int, missing int64, err error) {
	without = -1
	err = e.cache.locked(ctx, func() error {
		states, want := make([][]byte, len(parts)), int64(0)
		for k, p := range parts {
			states[k] = make([]byte, p.to-p.from)
			if _, err := e.states.ReadAt(states[k], int64(e.first[p.file]+p.from)); err != nil {
				return err
			}
			for u, s := range states[k] {
				n := e.x.bytes(&e.x.Files[p.file], p.from+u)
				if s != there {
					missing += min(n, math.MaxInt64-missing)
				}
				if s == absent {
					want += min(n, math.MaxInt64-want)
				}
			}
		}
		if missing == 0 {
			return nil
		}
		left, err := e.cache.room(want)
		if err != nil {
			return err
		}
		if free, err := transaction.FreeSpace(e.cache.Dir); err == nil && missing > free {
			if left = min(left, free); whole {
				return fmt.Errorf("%s: %w: %s are needed, and its disk has %s free: make room there, or name a folder "+
					"on another disk", e.cache.Dir, ErrRoom, machine.Bytes(missing), machine.Bytes(free))
			}
		}
		for k, p := range parts {
			run := part{p.file, p.from, p.from} // units that get room
			for u, s := range states[k] {
				n, unit := e.x.bytes(&e.x.Files[p.file], p.from+u), p.from+u
				switch {
				case s != absent:
				case n <= left:
					if left -= n; run.to < unit {
						if err := e.note(run, reserved); err != nil {
							return err
						}
						run.from = unit
					}
					run.to = unit + 1
				case without < 0:
					without = p.file
				}
			}
			if err := e.note(run, reserved); err != nil {
				return err
			}
		}
		return nil
	})
	return without, missing, err
}

// note writes what the bytes of units say, and no other bytes: others may bring the units beside them meanwhile, which
// takes no lock of the cache.
func (e *Entry) note(p part, state byte) error {
	_, err := e.states.WriteAt(bytes.Repeat([]byte{state}, p.to-p.from), int64(e.first[p.file]+p.from))
	return err
}

// stripes is how many locks there are for units that are being brought.
const stripes = 64

// group returns which units are brought by one request: of a dataset each has one, and a checksum.
func (e *Entry) group(unit int) int {
	if e.of.Sums != nil {
		return unit
	}
	size := int(ranges.RangeBytes / e.x.Chunk)
	return (unit + size - 1) / size
}

// Bring brings a unit of a file, unless it is there. ErrRoom where it has none.
func (e *Entry) Bring(ctx context.Context, i, unit int) error {
	if e.Has(i, unit) {
		return nil
	}
	if _, err := e.Reserve(ctx, i); err != nil {
		return err
	}
	return e.bring(ctx, part{i, unit, unit + 1})
}

// bring brings units of a group for which there is room, one behind the other, unless they are there.
func (e *Entry) bring(ctx context.Context, p part) error {
	l, err := lock(ctx, e.path(fillName, strconv.Itoa((e.first[p.file]+e.group(p.from))%stripes)), false)
	if err != nil {
		return err
	}
	defer l.Close()
	states := make([]byte, p.to-p.from)
	if _, err := e.states.ReadAt(states, int64(e.first[p.file]+p.from)); err != nil {
		return err
	}
	for len(states) > 0 { // units of one state after another
		n, s := 1, states[0]
		for n < len(states) && states[n] == s {
			n++
		}
		run := part{p.file, p.to - len(states), p.to - len(states) + n}
		if s == absent {
			return e.noRoom(e.x.bytes(&e.x.Files[p.file], run.from))
		}
		if s == reserved {
			if err := e.fill(ctx, run); err != nil {
				return err
			}
		}
		states = states[n:]
	}
	return nil
}

// fill reads units into their file.
func (e *Entry) fill(ctx context.Context, p part) error {
	f, err := e.open(p.file)
	if err != nil {
		return err
	}
	if err := e.compared(p.file, f, p.from, func() (uint64, error) { return e.fetch(ctx, f, p) }); err != nil {
		return err
	}
	if err := f.data.Sync(); err != nil {
		return err
	}
	return e.note(p, there)
}

func (e *Entry) noRoom(n int64) error {
	return fmt.Errorf("%s: %w: %s bytes are needed, and it may have %s in all: let it have more, or remove folders "+
		"there that nobody needs", e.cache.Dir, ErrRoom, humanize.Comma(n), humanize.Comma(e.cache.Size))
}

// fetch reads units into their file, and returns their checksum where there is one to compare it with.
func (e *Entry) fetch(ctx context.Context, f *file, p part) (uint64, error) {
	h := xxh3.New()
	for _, span := range e.spans(p) {
		err := f.object.Fetch(ctx, span[0], span[1]-span[0], func(b []byte, at int64) error {
			_, err := direct.WriteAt(f.data, b, at)
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

// spans returns where the bytes of units lie in their file.
func (e *Entry) spans(p part) (list [][2]int64) {
	f := &e.x.Files[p.file]
	if p.from == 0 {
		list = [][2]int64{{0, f.Body}, {f.Body + f.Size, f.Bytes}}
	}
	if p.to > 1 {
		from, _ := e.x.span(f, max(p.from, 1))
		_, to := e.x.span(f, p.to-1)
		list = append(list, [2]int64{from, to})
	}
	return list
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
	span := e.spans(part{i, unit, unit + 1})[0]
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
	var parts []part
	for i := range e.x.Files {
		parts = append(parts, part{i, 0, 1})
	}
	return e.bringAll(ctx, parts, func(int64, int64) {})
}

// Whole brings files whole. ErrRoom, before anything is brought, where they have no room. progress receives bytes.
func (e *Entry) Whole(ctx context.Context, files []int, progress func(done, total int64)) error {
	var parts []part
	for _, i := range files {
		parts = append(parts, e.all(i))
	}
	return e.bringAll(ctx, parts, progress)
}

// Range brings the bytes of a file from one on to another. ErrRoom, before anything is brought, where they have none.
func (e *Entry) Range(ctx context.Context, i int, from, to int64) error {
	f := &e.x.Files[i]
	at := func(b int64) int64 { return min(max(b-f.Body, 0), f.Size) }
	return e.bringAll(ctx, []part{{i, 0, 1},
		{i, 1 + int(at(from)/e.x.Chunk), 1 + int((at(to)+e.x.Chunk-1)/e.x.Chunk)}}, func(int64, int64) {})
}

// bringAll brings parts of files.
func (e *Entry) bringAll(ctx context.Context, parts []part, progress func(done, total int64)) error {
	whole := true
	for range e.missing(parts) {
		whole = false
		break
	}
	if whole {
		return nil
	}
	without, total, err := e.reserve(ctx, parts, true)
	switch {
	case err != nil:
		return err
	case without >= 0:
		return fmt.Errorf("%s: %w", e.x.Files[without].Path, e.noRoom(total))
	}
	var mu sync.Mutex
	done := int64(0)
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(ranges.InFlight)
	for p := range e.missing(parts) {
		if inner.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := e.bring(inner, p); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for u := p.from; u < p.to; u++ {
				done += e.x.bytes(&e.x.Files[p.file], u)
			}
			progress(done, total)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// missing yields what is not there of parts: units of a group that lie one behind the other together.
func (e *Entry) missing(parts []part) iter.Seq[part] {
	return func(yield func(part) bool) {
		for _, p := range parts {
			for u := p.from; u < p.to; u++ {
				if e.Has(p.file, u) {
					continue
				}
				from := u
				for u+1 < p.to && e.group(u+1) == e.group(from) && !e.Has(p.file, u+1) {
					u++
				}
				if !yield(part{p.file, from, u + 1}) {
					return
				}
			}
		}
	}
}
