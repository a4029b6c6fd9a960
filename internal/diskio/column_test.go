package diskio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/pinned/pinnedtest"
)

var background = context.Background()

// columnFile writes a column to a file, at an odd place, and maps it.
func columnFile(t testing.TB, folder string, rows, rowBytes int) (Mapped, string) {
	t.Helper()
	b := make([]byte, rows*rowBytes)
	for i := range b {
		b[i] = byte(uint32(i) * 2654435761 >> 20)
	}
	path := filepath.Join(folder, "column")
	return Mapped{pinnedtest.Map(t, path, 72, b), int64(rowBytes)}, path
}

// mustOpen skips a test where the system does not tell what file is mapped, and fails it for any other error.
func mustOpen(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, pinned.ErrNotMapped) {
		t.Skip("the system does not tell what file is mapped")
	}
	expect.OK(t, err)
}

// openColumn opens a column of one file.
func openColumn(t testing.TB, m Mapped, read ReaderOptions, plan ColumnOptions) *Column {
	t.Helper()
	r, layouts, err := Open(background, []Mapped{m}, read)
	mustOpen(t, err)
	c := expect.Must(NewColumn(r, 0, layouts[0], plan))(t)
	t.Cleanup(func() {
		expect.OK(t, errors.Join(c.Stop(), r.Close(), c.Close()))
	})
	return c
}

// fetch carries out the batches of asks by some goroutines, and returns the first error.
func fetch(ctx context.Context, c *Column, m Mapped, asks [][]uint32, workers int) error {
	type turn struct {
		b    *Batch
		rows []uint32
	}
	turns, errs := make(chan turn), make(chan error, workers)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for t := range turns {
				if err := carryOut(ctx, t.b, m, t.rows); err != nil {
					errs <- err
					cancel(err)
					return
				}
			}
		})
	}
	known := 0
	for i := 0; i < len(asks) && ctx.Err() == nil; i++ {
		for ; known < len(asks) && !c.planner.Full(); known++ {
			if err := c.planner.Ask(asks[known]); err != nil {
				return err
			}
		}
		b, err := c.Next()
		if err != nil {
			return err
		}
		select {
		case turns <- turn{b, asks[i]}:
		case <-ctx.Done():
		}
	}
	close(turns)
	all.Wait()
	close(errs)
	return <-errs
}

func carryOut(ctx context.Context, b *Batch, m Mapped, rows []uint32) error {
	n := int(m.RowBytes)
	dst := make([]byte, len(rows)*n)
	half := len(rows) / 2
	if err := b.Start([]Part{{half, dst[:half*n]}, {0, nil}, {len(rows) - half, dst[half*n:]}}); err != nil {
		return err
	}
	if _, err := b.Finish(ctx); err != nil {
		return err
	}
	for i, row := range rows {
		if !bytes.Equal(m.Bytes[int(row)*n:int(row+1)*n], dst[i*n:(i+1)*n]) {
			return fmt.Errorf("row %d is not that of the file", row)
		}
	}
	return nil
}

func TestOpeningThatIsGivenUpSaysWhy(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 100, 64)
	why := errors.New("no time")
	ctx, cancel := context.WithCancelCause(background)
	cancel(why)
	r, _, err := Open(ctx, []Mapped{m}, ReaderOptions{})
	expect.That(t, r == nil && errors.Is(err, why), "%v", err)
}

// folders are one on a disk and one in memory, as far as there are such.
func folders(t testing.TB) []string {
	list := []string{t.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "khop-disk"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		list = append(list, dir)
	}
	return list
}

// sectorOf returns the least that is read of a column's file.
func sectorOf(t *testing.T, m Mapped) int64 {
	f, _, err := openFile(m.Bytes)
	if errors.Is(err, pinned.ErrNotMapped) {
		t.Skip("the system does not tell what file is mapped")
	}
	if err == nil {
		err = f.close()
	}
	expect.OK(t, err)
	return f.sector
}

func TestBatchesHaveTheRowsOfTheFile(t *testing.T) {
	r := newRandom(t)
	for _, folder := range folders(t) {
		for range 12 {
			rows, bytes := 1+r.IntN(900), []int{1, 8, 100, 512, 4096, 5000, 70000}[r.IntN(7)]
			rows = min(rows, 1<<19/bytes)
			m, _ := columnFile(t, folder, rows, bytes)
			sector := sectorOf(t, m)
			c := openColumn(t, m, ReaderOptions{Engine: []string{"", "threads"}[r.IntN(2)], Depth: 1 + r.IntN(9),
				Shape: disk.Shape{Gap: int64(r.IntN(3)) * 4096, Most: int64(1+r.IntN(16)) * 4096,
					Sector: []int64{4096, sector}[r.IntN(2)]}},
				ColumnOptions{PlannerOptions: PlannerOptions{Slots: r.IntN(rows + 1), Lookahead: 1 + r.IntN(6),
					Along: r.IntN(50), Pack: PackOptions{Bytes: int64(r.IntN(3)) << 16, Memory: 1 << 18}},
					Early: int64(r.IntN(3)) * int64(r.IntN(1<<18))})
			if err := fetch(background, c, m, asksOf(r, 20, rows, min(300, 1<<17/bytes+2)), 1+r.IntN(4)); err != nil {
				t.Fatalf("%+v: %v", c.reader.Probe(), err)
			}
		}
	}
}

// broken returns a reader's options with a disk that fails, from a request on.
func broken(from int, what func(b []byte, n int) (int, error)) ReaderOptions {
	var mu sync.Mutex
	return ReaderOptions{Intercept: func(_ string, _ int64, b []byte, n int, err error) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if from--; from < 0 {
			return what(b, n)
		}
		return n, err
	}}
}

func TestAFailingDiskIsAnErrorWithFileAndOffset(t *testing.T) {
	for name, engine := range map[string]string{"io_uring or threads": "", "threads": "threads"} {
		t.Run(name, func(t *testing.T) {
			m, path := columnFile(t, t.TempDir(), 4000, 512)
			opt := broken(20, func([]byte, int) (int, error) { return 0, syscall.EIO })
			opt.Engine = engine
			c := openColumn(t, m, opt, ColumnOptions{PlannerOptions: PlannerOptions{Slots: 100, Lookahead: 3}})
			err := fetch(background, c, m, asksOf(newRandom(t), 20, 4000, 100), 3)
			var at *disk.ReadError
			expect.Ensure(t, errors.As(err, &at) && errors.Is(err, syscall.EIO) && errors.Is(err, pinned.ErrFault),
				"got %v", err)
			expect.That(t, at.Path == path && strings.Contains(err.Error(), path+": byte "), "got %v", err)
		})
	}
}

func TestShortReadsAreReadOn(t *testing.T) {
	for name, engine := range map[string]string{"io_uring or threads": "", "threads": "threads"} {
		t.Run(name, func(t *testing.T) {
			m, _ := columnFile(t, t.TempDir(), 4000, 512)
			opt := broken(0, func(b []byte, n int) (int, error) {
				if n > 4096 {
					clear(b[4096:])
					n = 4096
				}
				return n, nil
			})
			opt.Shape, opt.Engine = disk.Shape{Gap: 1 << 14, Most: 1 << 16}, engine
			c := openColumn(t, m, opt, ColumnOptions{PlannerOptions: PlannerOptions{Slots: 100, Lookahead: 3}})
			expect.OK(t, fetch(background, c, m, asksOf(newRandom(t), 20, 4000, 100), 3))
		})
	}
}

// Batches whose reader is closed end, whether their requests have begun or wait for others.
func TestClosingTheReaderEndsItsBatches(t *testing.T) {
	release, stalled := make(chan struct{}), make(chan struct{}, 100)
	m, _ := columnFile(t, t.TempDir(), 4000, 512)
	c := openColumn(t, m, ReaderOptions{Engine: "threads", Depth: 1, Shape: disk.Shape{Gap: 1, Most: 4096},
		Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int, error) {
			stalled <- struct{}{}
			<-release
			return n, err
		}}, ColumnOptions{PlannerOptions: PlannerOptions{Lookahead: 4}})
	var batches []*Batch
	for i := range uint32(3) {
		expect.OK(t, c.planner.Ask([]uint32{1000*i + 1}))
		b, err := c.Next()
		if err == nil {
			err = b.Start([]Part{{1, make([]byte, 512)}})
		}
		expect.OK(t, err)
		if batches = append(batches, b); i == 0 {
			<-stalled
		}
	}
	closed := make(chan error)
	go func() { closed <- c.reader.Close() }()
	for _, b := range batches[1:] {
		_, err := b.Finish(background)
		expect.That(t, errors.Is(err, ErrClosed), "got %v", err)
	}
	close(release)
	expect.OK(t, <-closed)
	expect.OK(t, c.Stop())
	expect.OK(t, c.planner.Ask([]uint32{5}))
	c.planner.Forget()
	expect.Is(t, fetch(background, c, m, [][]uint32{{7}}, 1), ErrClosed, "after it is closed")
}

func TestAFileCutShortIsAnError(t *testing.T) {
	for name, engine := range map[string]string{"io_uring or threads": "", "threads": "threads"} {
		t.Run(name, func(t *testing.T) {
			m, path := columnFile(t, t.TempDir(), 4000, 512)
			c := openColumn(t, m, ReaderOptions{Engine: engine, Depth: 4},
				ColumnOptions{PlannerOptions: PlannerOptions{Lookahead: 1}})
			expect.OK(t, os.Truncate(path, 512*1000+100))
			err := fetch(background, c, m, [][]uint32{{5, 3999}}, 1)
			expect.That(t, errors.Is(err, io.ErrUnexpectedEOF) && strings.Contains(err.Error(), "cut short"), "got %v",
				err)
		})
	}
}

// A disk that does not answer holds up neither who stops waiting, nor Close, nor what comes after.
func TestAStalledDiskHoldsUpNobodyForLong(t *testing.T) {
	release := make(chan struct{})
	m, _ := columnFile(t, t.TempDir(), 4000, 512)
	stalled := make(chan struct{}, 1000)
	opt := broken(5, func(_ []byte, n int) (int, error) {
		stalled <- struct{}{}
		<-release
		return n, nil
	})
	c := openColumn(t, m, opt, ColumnOptions{PlannerOptions: PlannerOptions{Slots: 50, Lookahead: 2}})
	ctx, cancel := context.WithCancel(background)
	go func() {
		<-stalled
		cancel()
	}()
	asks := asksOf(rand.New(rand.NewPCG(1, 2)), 10, 4000, 100)
	err := fetch(ctx, c, m, asks, 2)
	expect.That(t, errors.Is(err, context.Canceled), "got %v", err)
	expect.OK(t, c.Stop())
	c.planner.Forget()
	close(release)
	expect.Is(t, fetch(background, c, m, asks, 2), nil, "after the disk went on")
}

// What was planned and not carried out is not in the cache.
func TestBatchesThatWereGivenUpLeaveNothingWrong(t *testing.T) {
	r := newRandom(t)
	m, _ := columnFile(t, t.TempDir(), 500, 512)
	c := openColumn(t, m, ReaderOptions{},
		ColumnOptions{PlannerOptions: PlannerOptions{Slots: 200, Lookahead: 4, Along: 10}})
	for range 30 {
		asks := asksOf(r, 8, 500, 100)
		for _, a := range asks[:4] {
			expect.OK(t, c.planner.Ask(a))
		}
		var open []*Batch
		for range 1 + r.IntN(3) {
			b := expect.Must(c.Next())(t)
			open = append(open, b)
		}
		if r.IntN(2) == 0 {
			expect.OK(t, carryOut(background, open[0], m, asks[0]))
		}
		expect.OK(t, c.Stop())
		if r.IntN(2) == 0 {
			c.planner.Forget()
		} else {
			for n := c.planner.Known(); n > 0; n-- {
				b, err := c.Next()
				if err == nil {
					err = carryOut(background, b, m, asks[4-n])
				}
				expect.OK(t, err)
			}
		}
		expect.OK(t, fetch(background, c, m, asks[4:], 2))
	}
}

// Batches are read before they have memory, as long as there is room, and none after one that there is none for.
func TestBatchesAreReadBeforeTheyHaveMemory(t *testing.T) {
	release, asked := make(chan struct{}), make(chan int64, 100)
	m, _ := columnFile(t, t.TempDir(), 4000, 512)
	c := openColumn(t, m, ReaderOptions{Engine: "threads", Depth: 30, Shape: disk.Shape{Gap: 1, Most: 4096},
		Intercept: func(_ string, offset int64, _ []byte, n int, err error) (int, error) {
			asked <- offset
			<-release
			return n, err
		}}, ColumnOptions{PlannerOptions: PlannerOptions{Slots: 1, Lookahead: 20}, Early: 4 * 512 * 5})
	var asks [][]uint32
	var begun []*Batch
	plan := func() {
		b := expect.Must(c.Next())(t)
		begun = append(begun, b)
	}
	for i := range uint32(10) {
		asks = append(asks, []uint32{400*i + 9, 400*i + 200, 400*i + 30, 400*i + 300})
		expect.OK(t, c.Planner().Ask(asks[i]))
	}
	for c.Ready() {
		plan()
	}
	expect.Ensure(t, len(begun) == 5, "%d batches are ahead of their memory, want 5", len(begun))
	for range 5 * 4 {
		<-asked // or the test ends for want of requests
	}
	plan()
	expect.That(t, !c.Ready(), "a batch is ready to be read where there is no room")
	close(release)
	for i := range asks {
		if i == len(begun) {
			expect.Ensure(t, c.Ready(), "batch %d: there is no room again", i)
			plan()
		}
		err := carryOut(background, begun[i], m, asks[i])
		expect.Ensure(t, err == nil, "batch %d: %v", i, err)
	}
	expect.That(t, c.Begun() == 0 && c.early.room() == 4*512*5, "%d batches have not ended, %d bytes of room",
		c.Begun(), c.early.room())
}
