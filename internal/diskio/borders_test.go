package diskio

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// plainPages counts what is read of arrays of which each page is read twice, when it is first wanted and once more, so
// that the system learns that it is in use.
type plainPages struct {
	rowBytes, bytes []int64   // of the arrays
	times           [][]int64 // [array][page of the file]
	wanted          [][]bool
	count           disk.PageCounts
}

// want notes the pages of elements from .. to-1, byte by byte.
func (p *plainPages) want(array int, from, to int64) {
	last := int64(-1)
	for at := 72 + from*p.rowBytes[array]; at < 72+to*p.rowBytes[array]; at++ {
		if page := at / PageBytes; page != last {
			last = page
			p.count.Wanted++
			p.wanted[array][page] = true
		}
	}
}

func (p *plainPages) bring() {
	for array, list := range p.wanted {
		for page, is := range list {
			if list[page] = false; is && p.times[array][page] < 2 {
				p.times[array][page]++
				p.count.Read++
				p.count.Bytes += min(PageBytes, 72+p.bytes[array]-int64(page)*PageBytes)
			}
		}
	}
}

// plainlyCounted are pages of arrays of four sizes, and a plain count of them.
func plainlyCounted(t *testing.T) (arrays []Mapped, p *Pages, plain *plainPages) {
	t.Helper()
	plain = &plainPages{}
	for _, c := range [][2]int{{64 * 1024, 4}, {30_011, 12}, {3 * PageBytes, 1}, {1, 8}} {
		m, _ := columnFile(t, t.TempDir(), c[0], c[1])
		arrays = append(arrays, m)
		pages := (72+len(m.Bytes))/PageBytes + 1
		plain.rowBytes, plain.bytes = append(plain.rowBytes, m.RowBytes), append(plain.bytes, int64(len(m.Bytes)))
		plain.times = append(plain.times, make([]int64, pages))
		plain.wanted = append(plain.wanted, make([]bool, pages))
	}
	return arrays, openPages(t, arrays, PagesOptions{Bytes: 1 << 30}), plain
}

// Each page of each array is told apart from all others, wherever elements begin and end: often where a page does, or
// one element beside.
func TestPagesAreReadAsAPlainCountHasIt(t *testing.T) {
	const seed = 20261123
	r := rand.New(rand.NewPCG(seed, 0))
	arrays, p, plain := plainlyCounted(t)
	a := askerOf(t, p)
	for round := range 120 {
		for range 1 + r.IntN(4) {
			i := r.IntN(len(arrays))
			rows := int64(len(arrays[i].Bytes)) / arrays[i].RowBytes
			from := r.Int64N(rows)
			to := min(rows, from+r.Int64N(1+r.Int64N(4000)))
			if r.IntN(4) == 0 {
				to = min(rows, from+1)
			}
			for _, end := range []*int64{&from, &to} {
				if page := (72 + *end*arrays[i].RowBytes) / PageBytes; page > 0 && r.IntN(3) == 0 {
					*end = max(0, min(rows, (page*PageBytes-72)/arrays[i].RowBytes+r.Int64N(3)-1))
				}
			}
			to = max(from, to)
			a.Want(i, from, to)
			plain.want(i, from, to)
		}
		expect.OK(t, a.Bring())
		plain.bring()
		got := p.Count()
		plain.count.Requests = got.Requests
		expect.Ensure(t, got == plain.count, "seed %d, round %d: %+v, want %+v", seed, round, got, plain.count)
	}
}

// Arrays of files can be paged, and are known again.
func TestArraysOfFilesCanBePaged(t *testing.T) {
	arrays, p, _ := plainlyCounted(t)
	a := askerOf(t, p)
	for i, m := range arrays {
		x := expect.Must(unified.New(unified.Uint8, m.Bytes, int64(len(m.Bytes))/m.RowBytes, m.RowBytes))(t)
		again := Mapping(x)
		if &again.Bytes[0] != &m.Bytes[0] || len(again.Bytes) != len(m.Bytes) || again.RowBytes != m.RowBytes {
			t.Errorf("array %d has rows of %d bytes, not %d", i, again.RowBytes, m.RowBytes)
		}
		before := expect.OpenFiles(t)
		if err := CanPage(x); err != nil || expect.OpenFiles(t) > before {
			t.Errorf("array %d of a file: %v, %d descriptors", i, err, expect.OpenFiles(t)-before)
		}
		expect.That(t, a.Array(x) == i, "array %d is number %d", i, a.Array(x))
	}
	expect.Is(t, CanPage(unified.FromSlice([]int32{1})), pinned.ErrNotMapped, "an array of no file")
}

// Without a file a pack plans as if it wrote: full chunks are counted.
func TestAPackWithoutAFileCountsWhatItWouldWrite(t *testing.T) {
	layout := Layout{RowBytes: 512, Rows: 1 << 20, Shape: disk.Shape{Page: 4096, Most: 4096, Sector: 512}}
	p := expect.Must(newPack(layout, 10, PackOptions{Bytes: 100 * 4096, Memory: 1 << 20}))(t)
	rows := int64(0)
	for want := uint32(0); ; want++ {
		place, ok := p.take(1, want)
		if !ok {
			break
		}
		rows++
		expect.Ensure(t, place == want, "row %d has place %d", want, place)
		full := rows / 8
		n := p.Count()
		expect.Ensure(t, n.Writes == full && n.Written == full*4096 && n.Requests == 0, "after %d rows: %+v", rows, n)
	}
	expect.That(t, rows == 100*8, "%d rows have a place", rows)
	chunks := p.claim(1, nil)
	n := p.Count()
	expect.That(t, len(chunks) == 100 && n.Requests == 100 && n.Bytes == 100*4096 && n.Useful == 800*512,
		"%d chunks are read: %+v", len(chunks), n)
	again := p.claim(1, nil)
	expect.That(t, len(again) == 0, "%d chunks come again", len(again))
	place, ok := p.take(2, 0)
	expect.That(t, ok && place/8 < 100, "a place after all were read: %d, %v", place, ok)
}

// Requests are begun in order, as many as may be under way, and none of a transfer that has ended.
func TestSoManyRequestsAreUnderWayAtATime(t *testing.T) {
	of := func(extents int) *transfer {
		x := &transfer{plan: &Plan{}, done: make(chan struct{})}
		x.plan.extents = make([]extent, extents)
		for i := range x.plan.extents {
			x.plan.extents[i].offset = int64(i)
		}
		return x
	}
	r := &Reader{limit: 3}
	first, ended, last := of(2), of(4), of(3)
	ended.ended = true
	r.queue = []*transfer{first, ended, last}
	take := func(want *transfer, offset int64) {
		t.Helper()
		if q, ok := r.pop(); ok != (want != nil) || ok && (q.of != want || q.extent.offset != offset) {
			t.Errorf("%v, %v, want the request at %d", q, ok, offset)
		}
	}
	take(first, 0)
	take(first, 1)
	take(last, 0)
	take(nil, 0) // as many as may be are under way
	r.waiting.Add(-1)
	take(last, 1)
	take(nil, 0)
	r.waiting.Store(0)
	take(last, 2)
	take(nil, 0)
	n := r.waiting.Load()
	expect.That(t, len(r.queue) == 0 && n == 1, "%d transfers wait, %d requests are under way", len(r.queue), n)
}

// Fetched rows are those of the file, in the order that was asked for; after Close there are none.
func TestFetchedRowsAreThoseOfTheFile(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 3000, 100)
	before := expect.OpenFiles(t)
	r, layouts, err := Open(background, []Mapped{m},
		ReaderOptions{Depth: 4, Shape: disk.Shape{Gap: 4096, Most: 1 << 16}})
	mustOpen(t, err)
	for _, rows := range [][]int64{{0}, {2999}, {0, 1, 2, 40, 41, 2000, 2999}, {}} {
		to := make([]byte, len(rows)*100)
		expect.OK(t, r.Fetch(background, 0, layouts[0], rows, to))
		for i, row := range rows {
			expect.That(t, bytes.Equal(to[100*i:100*i+100], m.Bytes[100*row:100*row+100]), "row %d of %v is another",
				row, rows)
		}
	}
	expect.OK(t, errors.Join(r.Close(), r.Close()))
	expect.Is(t, r.Fetch(background, 0, layouts[0], []int64{1}, make([]byte, 100)), ErrClosed, "after Close")
	if after := expect.OpenFiles(t); after > before+2 { // of Go's poller
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
}

// Whatever memory is refused, all that was taken before goes back, and so do the files.
func TestWhatIsRefusedMemoryLeavesNothing(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 4000, 512)
	array, _ := columnFile(t, t.TempDir(), 50_000, 4)
	if err := CanPage(unified.FromSlice(m.Bytes)); err != nil {
		t.Skip(err)
	}
	for name, open := range map[string]func(o pinned.Options) (func() error, error){
		"pages": func(o pinned.Options) (func() error, error) {
			p, err := OpenPages([]Mapped{array}, PagesOptions{Bytes: 1 << 20,
				Reader: ReaderOptions{Memory: o, Depth: 4}})
			if err != nil {
				return nil, err
			}
			a, err := p.Ask()
			if err != nil {
				return nil, errors.Join(err, p.Close())
			}
			return func() error { a.Close(); return p.Close() }, nil
		},
		"columns": func(o pinned.Options) (func() error, error) {
			r, layouts, err := Open(background, []Mapped{m}, ReaderOptions{Depth: 4, Memory: o,
				Shape: disk.Shape{Gap: 4096, Most: 1 << 16}})
			if err != nil {
				return nil, err
			}
			c, err := NewColumn(r, 0, layouts[0], ColumnOptions{Cache: o, Early: 4096,
				PlannerOptions: PlannerOptions{Slots: 200, Lookahead: 8, Along: 20, Memory: o}})
			if err != nil {
				return nil, errors.Join(err, r.Close())
			}
			return func() error { return errors.Join(c.Stop(), r.Close(), c.Close()) }, nil
		},
	} {
		t.Run(name, func(t *testing.T) { refuseEach(t, open) })
	}
}

// refuseEach opens something with more and more memory, until that is enough.
func refuseEach(t *testing.T, open func(o pinned.Options) (func() error, error)) {
	t.Helper()
	refusals, limit, last := 0, int64(1), ""
	for {
		ledger := &pinned.Ledger{}
		ledger.SetLimit(limit)
		before := expect.OpenFiles(t)
		end, err := open(pinned.Options{Ledger: ledger, Purpose: pinned.Scratch})
		if err == nil {
			err = end()
			expect.That(t, err == nil, "%v", err)
		} else if !errors.Is(err, pinned.ErrLimit) {
			t.Fatalf("limit %d: %v", limit, err)
		}
		expect.That(t, ledger.Total() == 0, "limit %d: %d bytes stay counted", limit, ledger.Total())
		if after := expect.OpenFiles(t); after > before+2 { // of Go's poller
			t.Errorf("limit %d: %d descriptors are open, %d before", limit, after, before)
		}
		if end != nil {
			break
		}
		if err.Error() != last {
			refusals++
		}
		last = err.Error()
		limit = limit*5/4 + 1
	}
	expect.That(t, refusals >= 2, "%d refusals", refusals)
}

// Waiting for rows ends with the context, whose cause is the error.
func TestFetchingEndsWithTheContext(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 3000, 100)
	release := make(chan struct{})
	r, layouts, err := Open(background, []Mapped{m}, ReaderOptions{
		Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int, error) {
			<-release
			return n, err
		}})
	mustOpen(t, err)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(background)
	cancel(enough)
	to := make([]byte, 100)
	err = r.Fetch(ctx, 0, layouts[0], []int64{7}, to)
	expect.That(t, errors.Is(err, enough), "%v, want the context's cause", err)
	close(release)
	expect.OK(t, r.Close())
	expect.That(t, bytes.Equal(to, make([]byte, 100)), "rows came after the end")
}
