package diskio

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/pinned/pinnedtest"
)

// Arrays begin wherever they lie in their files, and have bits of their own.
func TestPagesOfArraysFarIntoTheirFilesAreToldApart(t *testing.T) {
	var arrays []Mapped
	for i, at := range []int{PageBytes * 1000, 16, PageBytes*70 + 8} {
		path := t.TempDir() + "/far"
		arrays = append(arrays, Mapped{pinnedtest.Map(t, path, at, make([]byte, 5*PageBytes+i)), 1})
	}
	p := openPages(t, arrays, PagesOptions{Bytes: 1 << 30})
	a := askerOf(t, p)
	for i, m := range arrays {
		for range 3 {
			a.Want(i, 0, int64(len(m.Bytes)))
			expect.OK(t, a.Bring())
		}
	}
	// 5 or 6 pages of each, twice: the second time the system learns that they are in use
	got := p.Count().Read
	expect.That(t, got == 2*(5+6+6) || got == 2*(6+6+6), "%d pages were read", got)
	words := len(p.listed)
	expect.That(t, words <= 1, "%d words for 18 pages", words)
}

func TestMemoryOfPagesAndOfWhoAsksForThem(t *testing.T) {
	if each := AskerBytes / mostAsked; each != 4+int(unsafe.Sizeof(Read{})+unsafe.Sizeof(extent{}))+8 {
		t.Errorf("%d bytes for a page that is asked for, its request and its position", each)
	}
	var l pinned.Ledger
	m, _ := columnFile(t, t.TempDir(), 300_000, 4)
	p, err := OpenPages([]Mapped{m}, PagesOptions{Reader: ReaderOptions{Memory: pinned.Options{Ledger: &l}}})
	mustOpen(t, err)
	is, said := l.Total(), PagesBytes(int64(len(m.Bytes)))
	expect.That(t, is <= said && is >= said-16, "pages take %d bytes, not %d", is, said)
	got := p.Probe()
	expect.That(t, got.Engine != "" && got == p.reader.describe(), "%+v", got)
	a := expect.Must(p.Ask())(t)
	grown := l.Total() - PagesBytes(int64(len(m.Bytes)))
	expect.That(t, grown <= AskerBytes && grown >= AskerBytes-16, "who asks takes %d bytes, not %d", grown, AskerBytes)
	a.Close()
	if err := p.Close(); err != nil || l.Total() != 0 {
		t.Errorf("%v, %d bytes are left", err, l.Total())
	}
}

// Every row of a batch is asked of the part that has its memory.
func TestEachPartHasTheRowsThatWereAskedFor(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 500, 64)
	c := openColumn(t, m, small, ColumnOptions{PlannerOptions: PlannerOptions{Slots: 10, Lookahead: 2}})
	asked := []uint32{9, 400, 9, 3, 77, 12}
	expect.OK(t, c.planner.Ask(asked))
	b := expect.Must(c.Next())(t)
	parts := []Part{{2, make([]byte, 2*64)}, {0, nil}, {3, make([]byte, 3*64)}, {1, make([]byte, 64)}}
	expect.OK(t, b.Start(parts))
	for i, want := range [][]uint32{{9, 400}, {}, {9, 3, 77}, {12}} {
		got := b.Asked(i)
		expect.That(t, slices.Equal(got, want), "part %d is of rows %v, not %v", i, got, want)
	}
	expect.Must(b.Finish(background))(t)
	at := 0
	for _, p := range parts {
		for i := range p.Rows {
			row := int64(asked[at])
			expect.That(t, slices.Equal(p.Bytes[i*64:(i+1)*64], m.Bytes[row*64:(row+1)*64]),
				"row %d of the batch is not row %d of the column", at, row)
			at++
		}
	}
}

// A batch that was cancelled ends with an error, and writes to no part.
func TestACancelledBatchIsAnError(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 500, 64)
	hold := make(chan struct{})
	read := small
	read.Intercept = func(_ string, _ int64, _ []byte, n int, err error) (int, error) {
		<-hold
		return n, err
	}
	c := openColumn(t, m, read, ColumnOptions{PlannerOptions: PlannerOptions{Slots: 10, Lookahead: 2}})
	expect.OK(t, c.planner.Ask([]uint32{1, 2}))
	b := expect.Must(c.Next())(t)
	expect.OK(t, b.Start([]Part{{2, make([]byte, 128)}}))
	b.Cancel()
	_, err := b.Finish(background)
	close(hold)
	expect.That(t, err != nil && strings.Contains(err.Error(), "canceled"), "%v", err)
	if err := c.Stop(); err != nil || c.Begun() != 0 {
		t.Errorf("%v, %d batches", err, c.Begun())
	}
}

// Each chunk that was given back is given out again, and reads of it are counted.
func TestChunksAreGivenOutAgain(t *testing.T) {
	layout := Layout{RowBytes: 512, Rows: 1 << 20, Shape: disk.Shape{Page: 4096, Most: 4096, Sector: 512}}
	p := expect.Must(newPack(layout, 10, PackOptions{Bytes: 3 * 4096, Memory: 1 << 20}))(t)
	for round := range uint32(5) {
		seen := map[uint32]bool{}
		for range 3 * 8 {
			place, ok := p.take(round, 0)
			if !ok || seen[place] || place >= 3*8 {
				t.Fatalf("round %d: place %d, %v", round, place, ok)
			}
			seen[place] = true
		}
		place, ok := p.take(round, 0)
		expect.Ensure(t, !ok, "round %d: place %d of a file that is full", round, place)
		chunks := p.claim(round, nil)
		expect.That(t, len(chunks) == 3, "round %d: %d chunks", round, len(chunks))
		n := p.Count()
		expect.That(t, n.Requests == 3*int64(round+1) && n.Useful == 24*512*int64(round+1), "round %d: %+v", round, n)
	}
}

// A simulation of a share of the rows has chunks of as small a share, and counts as if it had all.
func TestASimulationOfAShareCountsShares(t *testing.T) {
	layout := Layout{RowBytes: 512, Rows: 1 << 20, Shape: disk.Shape{Page: 4096, Most: 4096, Sector: 512}}
	p := expect.Must(newPack(layout, 10, PackOptions{Bytes: 100 * 4096, Memory: 1 << 20}.OfShare(4)))(t)
	for range 6 {
		p.take(1, 0)
	}
	p.claim(1, nil)
	// Three chunks of 2 rows in place of 8 are written and read: three quarters of one.
	n := p.Count()
	expect.That(t, n.Writes == 0 && n.Written == 3*4096/4 && n.Bytes == 3*4096/4 && n.Useful == 6*512, "%+v", n)
}

// What a disk takes to write a chunk counts against packing: the median, which most writes are at.
func TestADiskThatWritesSlowlyPacksNoRows(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 4000, 512)
	r, layouts, err := Open(background, []Mapped{m}, small)
	mustOpen(t, err)
	defer r.Close()
	for _, c := range []struct {
		small   float64 // requests a second
		stalls  int     // of the writes
		refused bool
	}{{1, 0, false}, {1e4, packTries - 3, true}} {
		probe := disk.Probe{Shape: disk.Shape{Page: 4096, Most: 1 << 16}, Small: c.small, Large: 1e9}
		opt := packing(1 << 20).Pack
		tries := 0
		opt.Intercept = func(_ int64, n int, err error) (int, error) {
			if tries++; tries <= c.stalls {
				time.Sleep(20 * time.Millisecond)
			}
			return n, err
		}
		p, err := openPack(r.files[0], layouts[0], 20, &probe, opt, pinned.Options{})
		if tries == 0 {
			t.Skip(err) // as in openPacking
		}
		if c.refused != errors.Is(err, ErrPack) ||
			c.refused && !strings.Contains(err.Error(), "us, another one takes 100 us") {
			t.Errorf("%+v: %v", c, err)
		}
		expect.That(t, tries == packTries, "%d chunks were tried", tries)
		expect.OK(t, p.close())
	}
}

// Names of policies are those of reports, and a refusal of packing is reported if packing was requested.
func TestPoliciesHaveTheirNames(t *testing.T) {
	var names []string
	for _, p := range append(disk.Policies(), disk.Packed) {
		text, err := p.MarshalText()
		expect.That(t, err == nil && string(text) == p.String(), "%s, %v", text, err)
		names = append(names, p.String())
	}
	got := strings.Join(names, " ")
	expect.That(t, got == "static lru sieve look-ahead optimum packed", "%v", got)
	m, _ := columnFile(t, t.TempDir(), 400, 512)
	for bytes, asked := range map[int64]bool{-1: false, 0: false, 1: true} {
		c := openColumn(t, m, small, packing(bytes))
		s := c.Pack()
		expect.That(t, (s != nil) == asked && (!asked || s.Refused != ""), "%d bytes: %+v", bytes, s)
	}
}

// A simulation of plans counts what a planner does, batch by batch, with rows packed and without.
func TestSimulationsOfPlansCountWhatPlansDo(t *testing.T) {
	r := newRandom(t)
	layout := Layout{RowBytes: 512, Rows: 3000, Shape: disk.Shape{Page: 4096, Gap: 4096, Most: 1 << 14, Sector: 512}}
	asks := asksOf(r, 40, 3000, 300)
	opt := PlannerOptions{Slots: 150, Lookahead: 6, Along: 20, Pack: PackOptions{Bytes: 1 << 20, Memory: 1 << 20}}
	for _, policy := range []disk.Policy{disk.Ahead, disk.Packed} {
		for _, from := range []int{0, 17} {
			own := opt
			if policy == disk.Packed {
				own.pack = expect.Must(newPack(layout, own.Lookahead, own.Pack))(t)
			}
			p := expect.Must(NewPlanner(layout, own))(t)
			var plan Plan
			var before disk.Counts
			for i, known := 0, 0; i < len(asks); i++ {
				for ; known < len(asks) && !p.Full(); known++ {
					expect.OK(t, p.Ask(asks[known]))
				}
				if i == from {
					before = p.Count()
				}
				p.Next(&plan)
			}
			want := p.Count()
			want = want.Less(&before)
			got, err := Simulate(policy, layout, opt, asks, from)
			expect.That(t, err == nil && got == want && (got.Packed > 0) == (policy == disk.Packed),
				"%v from %d on: %+v, %v, want %+v", policy, from, got, err, want)
			expect.OK(t, p.Close())
		}
	}
	opt.Memory = pinned.Options{Ledger: &pinned.Ledger{}}
	opt.Memory.Ledger.SetLimit(10)
	expect.Is(t, expect.Err(Simulate(disk.Ahead, layout, opt, asks, 0)), pinned.ErrLimit, "without memory")
}

// Closing a column that packs rows gives its file and its memory back.
func TestClosingAColumnThatPacksLeavesNothing(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 4000, 512)
	var l pinned.Ledger
	opt := packing(1 << 20)
	opt.Memory.Ledger, opt.Cache.Ledger = &l, &l
	before := expect.OpenFiles(t)
	r, layouts, err := Open(background, []Mapped{m}, small)
	mustOpen(t, err)
	c := expect.Must(NewColumn(r, 0, layouts[0], opt))(t)
	if s := c.Pack(); s.Refused != "" {
		t.Log("not packed here: ", s.Refused)
	}
	expect.OK(t, errors.Join(c.Stop(), r.Close(), c.Close()))
	n := expect.OpenFiles(t) - before
	expect.That(t, n == 0 && l.Total() == 0, "%d files are open, %d bytes are taken", n, l.Total())
}

// Each chunk that is read from the temporary file is a request, and is counted as one.
func TestRequestsForPackedRowsAreCounted(t *testing.T) {
	var requests, bytes atomic.Int64
	read := small
	read.Intercept = func(path string, _ int64, b []byte, n int, err error) (int, error) {
		if strings.HasSuffix(path, "(packed rows)") {
			requests.Add(1)
			bytes.Add(int64(n))
		}
		return n, err
	}
	c, m, _ := openPacking(t, read, packing(1<<20))
	fetchUntil(t, c, m, newRandom(t), func() bool { return requests.Load() > 20 })
	if n := c.pack.Count(); n.Requests != requests.Load() || n.Bytes != bytes.Load() {
		t.Errorf("%d requests of %d bytes: %+v", requests.Load(), bytes.Load(), n)
	}
	if n := c.pack.Count(); n.Useful > n.Bytes || n.Useful < n.Bytes*7/8 { // 8 rows of a page
		t.Errorf("%+v", n)
	}
}

// One request at a time is under way where that is asked for, and the others wait for it.
func TestARingOfOneRequestReadsAll(t *testing.T) {
	if name, why := Engine(); name != "io_uring" {
		t.Skip(why)
	}
	m, _ := columnFile(t, t.TempDir(), 4000, 512)
	read := ReaderOptions{Depth: 1, Engine: "io_uring", Shape: disk.Shape{Gap: 1, Most: 4096}}
	c := openColumn(t, m, read, ColumnOptions{PlannerOptions: PlannerOptions{Slots: 20, Lookahead: 4}})
	expect.OK(t, fetch(background, c, m, asksOf(newRandom(t), 10, 4000, 100), 2))
}
