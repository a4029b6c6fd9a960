package diskio

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
)

// packing are options under which about half of the rows are packed, in chunks of 8.
func packing(bytes int64) ColumnOptions {
	return ColumnOptions{PlannerOptions: PlannerOptions{Slots: 200, Lookahead: 20, Along: 50,
		Pack: PackOptions{Bytes: bytes, Memory: 1 << 20}}}
}

// small lets chunks be of one page.
var small = ReaderOptions{Depth: 20, Shape: disk.Shape{Gap: 1, Most: 4096}}

// openPacking opens a column whose rows are packed, or skips where the system or the folder's disk allow none of it.
func openPacking(t *testing.T, read ReaderOptions, opt ColumnOptions) (*Column, Mapped, string) {
	t.Helper()
	m, path := columnFile(t, t.TempDir(), 4000, 512)
	c := openColumn(t, m, read, opt)
	if why := c.Pack().Refused; strings.Contains(why, "in memory") || strings.Contains(why, "O_DIRECT") {
		t.Skip(why)
	}
	return c, m, path
}

// fetchUntil fetches batches until something is so that comes of packing, which a goroutine of its own does.
func fetchUntil(t *testing.T, c *Column, m Mapped, r *rand.Rand, is func() bool) {
	t.Helper()
	for rounds := 0; rounds == 0 || !is(); rounds++ {
		if rounds == 100 {
			t.Fatalf("it is not so after %d rounds: %+v, %+v", rounds, c.Pack(), c.Planner().Count())
		}
		expect.OK(t, fetch(background, c, m, asksOf(r, 80, 4000, 400), 3))
	}
}

func TestPackedRowsAreThoseOfTheFile(t *testing.T) {
	r := newRandom(t)
	c, m, path := openPacking(t, small, packing(1<<20))
	fetchUntil(t, c, m, r, func() bool { return c.Planner().Count().Writes > 0 })
	n, s := c.Planner().Count(), c.Pack()
	expect.That(t,
		n.Packed != 0 && n.Written == n.Writes*4096 && s.Refused == "" && s.Bytes == 1<<20 && s.Chunk == 4096,
		"%+v, %+v", n, s)
	files, err := os.ReadDir(filepath.Dir(path))
	expect.That(t, err == nil && len(files) == 1, "there is more than the column: %v, %v", files, err)
}

// What was packed for batches that were given up is not taken for what others need.
func TestPackedRowsOfBatchesThatWereGivenUpAreReadAgain(t *testing.T) {
	r := newRandom(t)
	c, m, _ := openPacking(t, small, packing(1<<20))
	for range 8 {
		asks := asksOf(r, 20, 4000, 400)
		for _, a := range asks {
			expect.OK(t, c.planner.Ask(a))
		}
		next := 0
		for next < 12 {
			var planned []*Batch
			for range 1 + r.IntN(4) {
				b := expect.Must(c.Next())(t)
				planned = append(planned, b)
			}
			for i, b := range planned[:r.IntN(len(planned)+1)] {
				expect.OK(t, carryOut(background, b, m, asks[next+i]))
			}
			next += len(planned)
			if r.IntN(2) == 0 || c.Begun() > 0 {
				expect.OK(t, c.Stop())
			}
		}
		c.planner.Forget()
	}
	expect.That(t, c.Planner().Count().Packed != 0, "no row was packed")
	p := c.pack
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.spare) < 1<<20/4096-packWriters { // some may be being written
		t.Errorf("%d buffers are free", len(p.spare))
	}
}

// A full disk is no error: rows are read from the column, and the state says why.
func TestAFullDiskPacksNoMore(t *testing.T) {
	for _, from := range []int{0, packTries, packTries + 20} {
		opt := packing(1 << 20)
		var mu sync.Mutex
		left := from
		opt.Pack.Intercept = func(_ int64, n int, err error) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			if left--; left < 0 {
				return 0, syscall.ENOSPC
			}
			return n, err
		}
		c, m, _ := openPacking(t, small, opt)
		fetchUntil(t, c, m, newRandom(t), func() bool { return c.Pack().Refused != "" })
		s, n := c.Pack(), c.Planner().Count()
		expect.That(t, strings.Contains(s.Refused, syscall.ENOSPC.Error()), "full from write %d on: %+v", from, s)
		none := from < packTries
		expect.That(t, (n.Packed == 0) == none && (!none || n.Requests != 0), "full from write %d on: %+v", from, n)
	}
}

// Rows that a slow disk has not written are there.
func TestBatchesDoNotWaitForPackedRowsToBeWritten(t *testing.T) {
	opt := packing(1 << 20)
	var writes atomic.Int64
	release := make(chan struct{})
	opt.Pack.Intercept = func(_ int64, n int, err error) (int, error) {
		if writes.Add(1) > packTries+3 {
			<-release
		}
		return n, err
	}
	c, m, _ := openPacking(t, small, opt)
	err := fetch(background, c, m, asksOf(newRandom(t), 60, 4000, 400), 2)
	n := c.Planner().Count() // before the writes go on
	close(release)
	expect.OK(t, err)
	expect.That(t, n.Packed >= 100 && n.Writes <= 4, "%+v", n)
}

// Rows for which there was no memory until others are written come from the column.
func TestPackedRowsThatHaveNoRoomComeFromTheColumn(t *testing.T) {
	opt := packing(1 << 20)
	opt.Pack.Memory = (2*20 + packAside) * 4096
	var writes atomic.Int64
	release := make(chan struct{})
	opt.Pack.Intercept = func(_ int64, n int, err error) (int, error) {
		if writes.Add(1) > packTries {
			<-release
		}
		return n, err
	}
	c, m, _ := openPacking(t, small, opt)
	asks := asksOf(newRandom(t), 60, 4000, 1500)
	err := fetch(background, c, m, asks, 3)
	n, p := c.Planner().Count(), c.pack
	p.mu.Lock()
	late := p.late
	p.mu.Unlock()
	close(release)
	expect.OK(t, err)
	expect.That(t, late && n.Packed < n.Misses && n.Packed > 0 && n.Useful <= n.Bytes, "late: %v, %+v", late, n)
}

func TestRowsAreNotPackedWhereThatDoesNotPay(t *testing.T) {
	probe := disk.Probe{Shape: disk.Shape{Page: 4096, Most: 1 << 16}, Small: 1e5, Large: 1e9}
	for rowBytes, want := range map[int64]bool{512: true, 32 << 10: false, 60 << 10: false} {
		layout := Layout{RowBytes: rowBytes, Rows: 1000, Shape: disk.Shape{Page: 4096, Most: 1 << 16, Sector: 512}}
		p, err := newPack(layout, 10, PackOptions{Bytes: 1 << 30, Memory: PackMemory})
		if err == nil {
			err = p.compare(&probe, 60e-6)
		}
		pays := err == nil
		expect.That(t, pays == want && (pays || errors.Is(err, ErrPack)), "rows of %d bytes: %v", rowBytes, err)
	}
}
