package diskio

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// PageBytes are a page's, for these tests, on any machine.
const PageBytes = 4096

func init() { pageShift = 12 }

// openPages opens pages until the test ends.
func openPages(t testing.TB, arrays []Mapped, opt PagesOptions) *Pages {
	t.Helper()
	p, err := OpenPages(arrays, opt)
	mustOpen(t, err)
	t.Cleanup(func() {
		expect.OK(t, p.Close())
	})
	return p
}

// openPagesOf opens pages of a file of that many elements of 4 bytes.
func openPagesOf(t testing.TB, elements int, opt PagesOptions) (*Pages, unified.Tensor, string) {
	t.Helper()
	m, path := columnFile(t, t.TempDir(), elements, 4)
	p := openPages(t, []Mapped{m}, opt)
	array := expect.Must(unified.New(unified.Int32, m.Bytes, int64(elements)))(t)
	return p, array, path
}

func askerOf(t testing.TB, p *Pages) *Asker {
	t.Helper()
	a := expect.Must(p.Ask())(t)
	t.Cleanup(a.Close)
	return a
}

func TestPagesThatAreAskedForAgainAreNotReadAgain(t *testing.T) {
	for _, pageShift = range []int{16, 12} { // of 64 KiB, and of 4
		testPagesThatAreAskedForAgain(t)
	}
}

func testPagesThatAreAskedForAgain(t *testing.T) {
	perPage := pageBytes() / 4
	p, array, _ := openPagesOf(t, int(40*perPage), PagesOptions{Bytes: 8 * pageBytes()})
	a := askerOf(t, p)
	expect.Ensure(t, a.Array(array) == 0 && a.Array(unified.FromSlice([]int32{1})) == -1, "arrays are not told apart")
	read := func(pages ...int64) int64 {
		before := p.Count()
		for _, page := range pages {
			a.Want(0, page*perPage, page*perPage+1)
		}
		expect.OK(t, a.Bring())
		c := p.Count().Less(&before)
		expect.That(t, c.Wanted == int64(len(pages)) && c.Bytes > (c.Read-1)*pageBytes() &&
			c.Bytes <= c.Read*pageBytes() && (c.Requests > 0) == (c.Read > 0),
			"%d pages wanted: %+v", len(pages), c)
		return c.Read
	}
	n := read(3, 9, 3, 3)
	expect.That(t, n == 2, "%d pages of 2 were read", n)
	if read(9, 3); read(9, 3) != 0 { // the first time the system learns that they are in use
		t.Error("pages were read again and again")
	}
	often, again := int64(0), int64(0)
	for page := int64(10); page < 40; page++ { // 3 is asked for again and again, the others once
		read(page)
		often += read(3) + read(3) + read(3)
	}
	for page := int64(10); page < 40; page++ {
		again += read(page)
	}
	expect.That(t, often <= 30 && again >= 30-8,
		"of 90 asks for one page %d were read, and %d of 30 for pages that the list had no room for", often, again)
}

// One request reads pages that follow one another, and the last page is read where the file ends within it.
func TestPagesThatFollowOneAnotherAreReadTogether(t *testing.T) {
	p, array, _ := openPagesOf(t, 50_001, PagesOptions{Bytes: 1 << 30})
	a := askerOf(t, p)
	a.Want(0, 0, array.Len())
	a.Want(0, 7, 7) // nothing
	expect.OK(t, a.Bring())
	c := p.Count()
	expect.That(t, c.Requests == 4 && c.Bytes == 72+4*50_001 && c.Read == 49, "got %+v", c)
}

func TestAPageThatCannotBeReadIsAnErrorWithItsPlace(t *testing.T) {
	var fail atomic.Bool // a request may still be under way when another one's error is known
	fail.Store(true)
	p, _, path := openPagesOf(t, 50_000, PagesOptions{Bytes: 1 << 20, Reader: ReaderOptions{
		Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int, error) {
			if fail.Load() {
				return 0, syscall.EIO
			}
			return n, err
		}}})
	a := askerOf(t, p)
	bring := func(elements ...int64) error {
		for _, i := range elements {
			a.Want(0, i, i+1)
		}
		return a.Bring()
	}
	var at *disk.ReadError
	if err := bring(3000, 9000); !errors.As(err, &at) || !errors.Is(err, syscall.EIO) ||
		!errors.Is(err, pinned.ErrFault) || at.Path != path || at.Offset%PageBytes != 0 {
		t.Errorf("got %v", err)
	}
	fail.Store(false)
	before := p.Count()
	err := bring(3000, 9000)
	expect.That(t, err == nil && p.Count().Read == before.Read+2, "after the failure: %v, %+v", err, p.Count())
	expect.OK(t, os.Truncate(path, 20_000))
	if err := bring(20_000); !errors.As(err, &at) || !errors.Is(err, io.ErrUnexpectedEOF) || at.Offset < 20_000 ||
		!strings.Contains(err.Error(), "cut short") {
		t.Errorf("of a file that was cut short: %v", err)
	}
}

// Waiting for a disk that does not answer ends with the context, and is counted.
func TestWaitingForPagesEndsWithTheContext(t *testing.T) {
	release := make(chan struct{})
	p, _, _ := openPagesOf(t, 50_000, PagesOptions{Bytes: 1, Reader: ReaderOptions{
		Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int, error) {
			<-release
			return n, err
		}}})
	a := askerOf(t, p)
	ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
	defer cancel()
	a.Begin(ctx)
	a.Want(0, 3000, 40_000)
	err := a.Bring()
	expect.That(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
	expect.That(t, a.Waited() > 0, "it has not waited")
	close(release)
	a.Begin(background)
	a.Want(0, 3000, 40_000)
	expect.OK(t, a.Bring())
}

// All pages that are wanted are asked of the disk before one is waited for.
func TestPagesAreReadSideBySide(t *testing.T) {
	const pages = 24
	var mu sync.Mutex
	under, most := 0, 0
	all := make(chan struct{})
	late, cancel := context.WithTimeout(background, 2*time.Minute) // where some are not asked for
	defer cancel()
	p, _, _ := openPagesOf(t, 4*pages*PageBytes, PagesOptions{Bytes: 1, Reader: ReaderOptions{Engine: "threads",
		Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int, error) {
			mu.Lock()
			under++
			if most = max(most, under); under == pages {
				close(all)
			}
			mu.Unlock()
			select {
			case <-all:
			case <-late.Done():
			}
			return n, err
		}}})
	a := askerOf(t, p)
	for i := range int64(pages) {
		a.Want(0, 4*i*PageBytes/4, 4*i*PageBytes/4+1)
	}
	expect.OK(t, a.Bring())
	expect.That(t, most == pages, "%d of %d requests were under way at a time", most, pages)
}

// Any number of goroutines ask for pages at a time; the list never holds more than it may.
func TestPagesAreAskedForByManyAtATime(t *testing.T) {
	const seed = 11
	p, array, _ := openPagesOf(t, 300_000, PagesOptions{Bytes: 30 * PageBytes})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			a, err := p.Ask()
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Close()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 50 {
				for range 20 {
					from := r.Int64N(array.Len() - 3000)
					a.Want(0, from, from+r.Int64N(3000))
				}
				if err := a.Bring(); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	all.Wait()
	listed := int64(0)
	for i := range p.listed {
		for w := p.listed[i].Load(); w != 0; w &= w - 1 {
			listed++
		}
	}
	expect.That(t, listed == p.n && p.n <= p.most, "%d pages are listed, %d counted, %d allowed", listed, p.n, p.most)
}
