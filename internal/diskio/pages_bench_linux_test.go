package diskio

import (
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// pageWays are ways to bring pages of a file to memory, and to read a byte of each.
type pageWays struct {
	b       *testing.B
	mapped  []byte
	pages   []int64
	paged   *Pages
	direct  *Reader
	layouts []Layout
}

// touch reads every n-th run of 64 pages.
func (w *pageWays) touch(from, step int) (sum byte) {
	for at := 64 * from; at < len(w.pages); at += 64 * step {
		for _, p := range w.pages[at : at+64] {
			sum += w.mapped[p*PageBytes]
		}
	}
	return sum
}

func (w *pageWays) faults() {
	const threads = 8
	var all sync.WaitGroup
	for i := range threads {
		all.Go(func() {
			w.touch(i, threads)
		})
	}
	all.Wait()
}

func (w *pageWays) willNeed() {
	for _, p := range w.pages {
		pinned.ReadAhead(w.mapped[p*PageBytes:][:1])
	}
	w.touch(0, 1)
}

func (w *pageWays) byPages() {
	a := expect.Must(w.paged.Ask())(w.b)
	defer a.Close()
	for _, p := range w.pages {
		a.Want(0, p*PageBytes, p*PageBytes+1)
	}
	expect.OK(w.b, a.Bring())
	w.touch(0, 1)
}

func (w *pageWays) pastCache() {
	plan := &Plan{}
	for _, p := range slices.Sorted(slices.Values(w.pages)) {
		plan.Reads = append(plan.Reads, Read{Row: uint32(p)})
	}
	w.layouts[0].merge(plan)
	t := &transfer{file: w.direct.files[0], layout: &w.layouts[0], plan: plan, done: make(chan struct{}),
		rowAt: func(uint32) []byte { return nil }}
	w.direct.start(t)
	expect.OK(w.b, t.wait(w.b.Context()))
}

// forget makes the system forget the file.
func (w *pageWays) forget() {
	w.paged.AtRandom(true)
	for i := range w.paged.listed {
		w.paged.listed[i].Store(0)
	}
	w.paged.n = 0
	_ = unix.Madvise(w.mapped, unix.MADV_DONTNEED)
	_ = unix.Fadvise(int(w.direct.files[0].file.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// BenchmarkPagesOfAFile brings 32,768 pages at random places of the file that KHOP_PAGES_FILE names, of 200 MB or more,
// from a disk: by page faults of 8 threads, with a hint to the system before each, by Pages, and past the page cache,
// where no page is entered and nothing is read of it.
func BenchmarkPagesOfAFile(b *testing.B) {
	path := os.Getenv("KHOP_PAGES_FILE")
	if path == "" {
		b.Skip("KHOP_PAGES_FILE names no file")
	}
	region, err := pinned.MapFile(path)
	expect.OK(b, err)
	defer region.Close()
	w := &pageWays{mapped: region.Bytes()}
	for _, at := range rand.New(rand.NewPCG(1, 1)).Perm(len(w.mapped) / PageBytes)[:1<<15] {
		w.pages = append(w.pages, int64(at))
	}
	w.paged = expect.Must(OpenPages([]Mapped{{w.mapped, 1}}, PagesOptions{Bytes: 1 << 40}))(b)
	defer w.paged.Close()
	rows := w.mapped[:len(w.mapped)/PageBytes*PageBytes]
	w.direct, w.layouts, err = Open(b.Context(), []Mapped{{rows, PageBytes}}, ReaderOptions{Depth: mostDepth})
	expect.OK(b, err)
	defer w.direct.Close()
	for _, way := range []struct {
		name string
		read func(*pageWays)
	}{{"faults", (*pageWays).faults}, {"willneed", (*pageWays).willNeed}, {"pages", (*pageWays).byPages},
		{"direct", (*pageWays).pastCache}} {
		b.Run(way.name, func(b *testing.B) { w.measure(b, way.read) })
	}
}

func (w *pageWays) measure(b *testing.B, read func(*pageWays)) {
	w.b = b
	var cpu, faults, n int64
	for b.Loop() {
		b.StopTimer()
		w.forget()
		var before, after syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		b.StartTimer()
		read(w)
		b.StopTimer()
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		cpu += after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
		faults += after.Majflt - before.Majflt
		n += int64(len(w.pages))
		b.StartTimer()
	}
	b.ReportMetric(float64(cpu)/float64(n)/1e3, "cpu-µs/page")
	b.ReportMetric(float64(faults)/float64(n), "faults/page")
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pages/s")
}
