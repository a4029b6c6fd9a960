package diskio

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// A page of the system has 1<<pageShift bytes, and it brings and keeps no less: 4 KiB, or up to 64 KiB on processors by
// Arm. Tests change it.
var pageShift = bits.TrailingZeros(uint(os.Getpagesize()))

func pageBytes() int64 { return 1 << pageShift }

// Pages is arrays of mapped files that are larger than memory, such as the indices of a graph. Whoever is about to read
// parts of them says so to an Asker, which has the pages read that are not in memory: many at a time, by a Reader,
// through the page cache of the system. The mapping then has them without a fault.
//
// The system decides what stays in memory. Pages keep a list of those that were asked for last, of opt.Bytes, and
// do not read these again, but for once a turn of the list's hand: by that the system learns that a page is in use,
// since it looks at no mapping that is read at random. A page of the list that it took back all the same is read by a
// page fault: later, but right. So nothing depends on what is asked for but the time.
//
// It is safe for concurrent use. Close it after all of its Askers.
type Pages struct {
	reader  *Reader
	arrays  []pagedArray
	most    int64 // pages of the list
	memory  pinned.Options
	counted int64

	// Bits by page: it is in the list, and it was asked for since the hand came by (F. J. Corbató, "A paging experiment
	// with the Multics system", 1968).
	listed, used []atomic.Uint64

	mu   sync.Mutex // guards the following; pages leave the list under it
	n    int64      // pages in the list
	hand int        // word of the bits

	wanted, read, requests, bytes atomic.Int64
}

// pagedArray is an array of Pages.
type pagedArray struct {
	bytes  []byte
	size   int64 // of an element
	file   *File
	offset int64 // in the file
	bits   int64 // the bit of the file's first page; the array begins at a later one
	layout Layout
}

// PagesOptions are those of Pages.
type PagesOptions struct {
	// Bytes of pages are in the list at most; one page at least.
	Bytes int64
	// Reader is how they are read.
	Reader ReaderOptions
}

// OpenPages opens the files that arrays are mapped from. The errors are those of Open.
func OpenPages(arrays []Mapped, opt PagesOptions) (*Pages, error) {
	p := &Pages{most: max(opt.Bytes>>pageShift, 1), memory: opt.Reader.Memory}
	var files []*File
	bits := int64(0)
	for _, a := range arrays {
		f, offset, err := openPaged(a.Bytes)
		if err != nil {
			return nil, errors.Join(err, closeFiles(files))
		}
		files = append(files, f)
		first, end := offset>>pageShift, ceil(offset+int64(len(a.Bytes)), pageBytes())>>pageShift
		p.arrays = append(p.arrays, pagedArray{bytes: a.Bytes, size: a.RowBytes, file: f, offset: offset,
			bits: bits - first, layout: Layout{RowBytes: pageBytes(), Rows: end}})
		bits += end - first
	}
	p.counted = listBytes(bits)
	if err := p.memory.Ledger.Take(p.memory.Purpose, p.counted); err != nil {
		return nil, errors.Join(err, closeFiles(files))
	}
	p.listed, p.used = make([]atomic.Uint64, bits/64+1), make([]atomic.Uint64, bits/64+1)
	var err error
	if p.reader, err = newReader(files, opt.Reader); err != nil {
		p.memory.Ledger.Give(p.memory.Purpose, p.counted)
		return nil, err
	}
	p.reader.probe = p.reader.describe()
	for i := range p.arrays {
		shape := p.reader.opt.Shape
		shape.Gap = 0 // a page that no request needs costs as much memory as another
		p.arrays[i].layout.Shape = shape
	}
	return p, nil
}

func listBytes(pages int64) int64 { return 2 * 8 * (pages/64 + 1) }

// PagesBytes is the memory of Pages over arrays of n bytes, with default options.
func PagesBytes(arrays int64) int64 { return listBytes(arrays>>pageShift+2) + StagingBytes }

// openPaged opens the file that b is mapped from, to be read through the page cache, and says where in it b begins.
func openPaged(b []byte) (*File, int64, error) {
	f, offset, err := openBuffered(b, "pages are kept in the page cache")
	if err == nil {
		f.page, f.sector = pageBytes(), pageBytes()
		readAtRandom(f.file)
	}
	return f, offset, err
}

// AtRandom tells the system whether pages are read at random from now on: without it a page fault reads its neighbours
// as well, which is of use to who goes through the arrays in order.
func (p *Pages) AtRandom(on bool) {
	for i := range p.arrays {
		pinned.ReadAtRandom(p.arrays[i].bytes, on)
	}
}

// Probe returns how pages are read.
func (p *Pages) Probe() disk.Probe { return p.reader.Probe() }

// Count returns what was asked for so far.
func (p *Pages) Count() disk.PageCounts {
	return disk.PageCounts{Wanted: p.wanted.Load(), Read: p.read.Load(), Requests: p.requests.Load(),
		Bytes: p.bytes.Load()}
}

// Close closes the files.
func (p *Pages) Close() error {
	p.AtRandom(false)
	p.memory.Ledger.Give(p.memory.Purpose, p.counted)
	p.counted = 0
	return p.reader.Close()
}

// enter adds pages of a file that were read to the list, in place of others where it is full.
func (p *Pages) enter(x *pagedArray, pages []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, page := range pages {
		at := x.bits + int64(page)
		if bit := uint64(1) << (at % 64); p.listed[at/64].Or(bit)&bit == 0 {
			p.n++
		}
	}
	for p.n > p.most {
		word := &p.listed[p.hand]
		cold := word.Load() &^ p.used[p.hand].Swap(0)
		for ; cold != 0 && p.n > p.most; cold &= cold - 1 {
			word.And(^(cold & -cold))
			p.n--
		}
		if p.n > p.most {
			p.hand = (p.hand + 1) % len(p.listed)
		}
	}
}

// Asker asks for pages. One goroutine uses it at a time.
type Asker struct {
	pages   *Pages
	ctx     context.Context // of the batch at hand
	missing [][]uint32      // [array] pages of the file that are to be read
	plans   []*Plan         // [array]
	reads   []*transfer     // [array] under way
	wanted  int64
	waited  time.Duration
}

// AskerBytes is the memory of an Asker who is asked for mostAsked pages at a time, and of who keeps as many positions.
const AskerBytes = mostAsked * (4 + 8 + 48 + 8)

// mostAsked is how many elements should be wanted between two calls of Bring, about.
const mostAsked = 1 << 15

// Ask returns an Asker. Its memory is counted until Close.
func (p *Pages) Ask() (*Asker, error) {
	if err := p.memory.Ledger.Take(p.memory.Purpose, AskerBytes); err != nil {
		return nil, err
	}
	n := len(p.arrays)
	a := &Asker{pages: p, ctx: context.Background(), missing: make([][]uint32, n), plans: make([]*Plan, n),
		reads: make([]*transfer, n)}
	for i := range a.plans {
		a.plans[i] = &Plan{}
	}
	return a, nil
}

// Close gives the memory back.
func (a *Asker) Close() {
	if a != nil && a.pages != nil {
		a.pages.memory.Ledger.Give(a.pages.memory.Purpose, AskerBytes)
		a.pages = nil
	}
}

// Begin begins a batch: waiting ends when its context does.
func (a *Asker) Begin(ctx context.Context) { a.ctx, a.waited = ctx, 0 }

// Waited returns how long the batch has waited for the disk so far.
func (a *Asker) Waited() time.Duration { return a.waited }

// Array returns the number of an array among those of the Pages, -1 for another one.
func (a *Asker) Array(t unified.Tensor) int {
	b := t.Bytes()
	return slices.IndexFunc(a.pages.arrays, func(x pagedArray) bool { return len(b) > 0 && &b[0] == &x.bytes[0] })
}

// Want says that elements from .. to-1 of an array will be read.
func (a *Asker) Want(array int, from, to int64) {
	if from >= to {
		return
	}
	x, p := &a.pages.arrays[array], a.pages
	first, last := (x.offset+from*x.size)>>pageShift, (x.offset+to*x.size-1)>>pageShift
	a.wanted += last - first + 1
	for page := first; page <= last; page++ {
		at := x.bits + page
		word, bit := at/64, uint64(1)<<(at%64)
		if p.listed[word].Load()&bit != 0 {
			if p.used[word].Load()&bit != 0 {
				continue
			}
			p.used[word].Or(bit)
		}
		a.missing[array] = append(a.missing[array], uint32(page))
	}
}

// Bring waits until what was wanted is in memory. Its errors are a ReadError and the context's.
func (a *Asker) Bring() error {
	p := a.pages
	p.wanted.Add(a.wanted)
	a.wanted = 0
	reads := false
	for i, pages := range a.missing {
		if len(pages) > 0 {
			reads = true
			slices.Sort(pages)
			a.missing[i] = slices.Compact(pages)
			p.read.Add(int64(len(a.missing[i])))
			a.start(i)
		}
	}
	if !reads {
		return nil
	}
	begin := time.Now()
	var err error
	for i, t := range a.reads {
		switch {
		case t == nil:
			continue
		case err != nil:
			t.finish(err)
		default:
			err = t.wait(a.ctx)
		}
		if err == nil {
			p.enter(&p.arrays[i], a.missing[i])
		} else {
			a.plans[i] = &Plan{} // requests that are under way still look at the old one
		}
		a.reads[i], a.missing[i] = nil, a.missing[i][:0]
	}
	a.waited += time.Since(begin)
	return err
}

// start begins to read what is missing of an array.
func (a *Asker) start(i int) {
	x, plan := &a.pages.arrays[i], a.plans[i]
	plan.reset(0)
	for _, page := range a.missing[i] {
		plan.Reads = append(plan.Reads, Read{Row: page})
	}
	x.layout.merge(plan)
	last := &plan.extents[len(plan.extents)-1]
	last.bytes = min(last.bytes, x.offset+int64(len(x.bytes))-last.offset) // the file may end there
	a.pages.requests.Add(int64(len(plan.extents)))
	for k := range plan.extents {
		a.pages.bytes.Add(plan.extents[k].bytes)
	}
	a.reads[i] = &transfer{file: x.file, layout: &x.layout, plan: plan, rowAt: func(uint32) []byte { return nil },
		done: make(chan struct{})}
	a.pages.reader.start(a.reads[i])
}

// CanPage reports whether an array is mapped from a file, so that Pages can have it, and if not, why.
func CanPage(t unified.Tensor) error {
	f, _, err := pinned.OpenMapped(t.Bytes())
	if err != nil {
		return err
	}
	return f.Close()
}

// Mapping returns an array as OpenPages takes it.
func Mapping(t unified.Tensor) Mapped {
	b := t.Bytes()
	return Mapped{Bytes: b, RowBytes: int64(len(b)) / cmp.Or(t.Len(), 1)}
}
