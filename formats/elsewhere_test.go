package formats

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/ranges"
	"github.com/khop-gnn/khop/internal/ranges/rangestest"
)

// store starts a store that has a dataset, whose files are returned, and clients that do not wait for long.
func store(t *testing.T) (s *rangestest.Store, address string, files map[string][]byte) {
	t.Helper()
	s = rangestest.New(t)
	impatient(t)
	dir := write(t, randomArrays(t, 9, 3000, 3), WriterOptions{chunkBytes: 4096})
	return s, s.PutFolder(t, "bucket", "a/x.khop", dir), expect.Files(t, dir)
}

// impatient makes clients that do not wait for long.
func impatient(t testing.TB) {
	was := newClient
	newClient = func() *ranges.Client {
		c := was()
		c.Pause, c.Stall = time.Microsecond, 20*time.Millisecond
		return c
	}
	t.Cleanup(func() { newClient = was })
}

// sameFiles compares the dataset at a folder of a cache with its files.
func sameFiles(t *testing.T, want map[string][]byte, dir string) {
	t.Helper()
	got := expect.Files(t, dir)
	for name, b := range want {
		expect.That(t, bytes.Equal(got[name], b), "%s: other bytes", name)
	}
	expect.That(t, len(got) == len(want), "%d files, not %d", len(got), len(want))
}

func bytesOf(files map[string][]byte) (n int64) {
	for _, b := range files {
		n += int64(len(b))
	}
	return n
}

func TestADatasetIsTheSameWhereverItLies(t *testing.T) {
	s, address, files := store(t)
	for name, b := range files {
		s.Put("owner/name/x.khop/"+name, b)
	}
	for _, at := range []string{address, "gs" + address[2:], s.URL + "/bucket/a/x.khop",
		"hf://datasets/owner/name/x.khop"} {
		e := Elsewhere{CacheDir: scratchDir(t)}
		for i := range 2 {
			s.Fail(nil)
			d := expect.Must(e.Open(context.Background(), at))(t)
			sameFiles(t, files, d.Path())
			expect.OK(t, d.Close())
			asked, _ := s.Requests()
			expect.That(t, (len(asked) == 1) == (i == 1), "%s: time %d asks %q", at, i, asked)
		}
	}
}

func TestProcessesShareACacheAndBringNothingTwice(t *testing.T) {
	s, address, files := store(t)
	total := bytesOf(files)
	e := Elsewhere{CacheDir: scratchDir(t)}
	s.Fail(nil)
	var wg sync.WaitGroup
	for range 4 { // locks are of open files: goroutines exclude one another as processes do
		wg.Go(func() {
			d, err := e.Open(context.Background(), address)
			if err == nil {
				sameFiles(t, files, d.Path())
				err = d.Close()
			}
			expect.That(t, err == nil, "%v", err)
		})
	}
	wg.Wait()
	_, sent := s.Requests()
	manifests := 3 * int64(len(files["dataset.json"]))
	expect.That(t, sent == total+manifests, "%d bytes were sent, %d are needed", sent, total+manifests)
}

func TestACacheKeepsToItsSizeAndRemovesOnlyWhatNobodyHasOpen(t *testing.T) {
	s, address, files := store(t)
	total := bytesOf(files)
	s.PutFolder(t, "bucket", "b.khop", write(t, randomArrays(t, 10, 3000, 3), WriterOptions{}))
	e := Elsewhere{CacheDir: scratchDir(t), CacheSize: total + total/2}
	d := expect.Must(e.Open(context.Background(), address))(t)
	_, err := e.Open(context.Background(), "s3://bucket/b.khop")
	expect.That(t, errors.Is(err, ErrSpace), "while the other is open: %v", err)
	sameFiles(t, files, d.Path())
	expect.OK(t, d.Close())
	second := expect.Must(e.Open(context.Background(), "s3://bucket/b.khop"))(t)
	expect.That(t, !there(d.Path()), "the first is still there")
	expect.OK(t, second.Close())
	e.CacheSize = total / 2
	_, err = e.Open(context.Background(), address)
	expect.That(t, errors.Is(err, ErrSpace), "of half the size: %v", err)
}

// What a process leaves that was killed while it made an entry or filled it does no harm.
func TestACacheOutlivesProcessesThatWereKilled(t *testing.T) {
	_, address, files := store(t)
	e := Elsewhere{CacheDir: scratchDir(t), CacheSize: 1 << 30}
	expect.OK(t, expect.Must(e.Open(context.Background(), address))(t).Close())
	entries := expect.Must(filepath.Glob(filepath.Join(e.CacheDir, "*-*", "units")))(t)
	units := expect.Must(os.ReadFile(entries[0]))(t)
	for i := range units {
		units[i] = byte(i % 2) // reserved, and not there
	}
	expect.OK(t, os.WriteFile(entries[0], units, 0o600))
	put(t, e.CacheDir, ".khop-new-x", []byte("half"))
	indices := filepath.Join(filepath.Dir(entries[0]), "data", "graph", "indices.arrow")
	expect.OK(t, os.WriteFile(indices, make([]byte, len(files["graph/indices.arrow"])), 0o600))
	d := expect.Must(e.Open(context.Background(), address))(t)
	sameFiles(t, files, d.Path())
	expect.OK(t, d.Close())
	expect.That(t, !there(filepath.Join(e.CacheDir, ".khop-new-x")), "what was left is still there")
}

// Drawn faults give the right dataset or an error that says why, never another dataset; and what was brought by then
// serves the next try.
func TestAStoreThatFailsGivesTheRightDatasetOrAnError(t *testing.T) {
	seed := expect.Seed(t)
	s, address, files := store(t)
	names := s.Names()
	good := 0
	for run := range expect.Draws(t, 12) {
		r := rand.New(rand.NewPCG(seed, uint64(run)))
		e, often := Elsewhere{CacheDir: scratchDir(t)}, r.IntN(40)
		var mu sync.Mutex
		s.Fail(func(n int, _ *http.Request) rangestest.Fault {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.IntN(100) >= often:
				return rangestest.None
			case r.IntN(20) == 0: // another version, in between
				name := names[r.IntN(len(names))]
				text, _ := s.Get(name)
				other := append([]byte{}, text...)
				other[r.IntN(len(other))] ^= byte(1 + r.IntN(255))
				s.Put(name, other)
				return rangestest.None
			}
			return []rangestest.Fault{rangestest.Busy, rangestest.Cut, rangestest.Stalls, rangestest.Wrong,
				rangestest.Ignores, rangestest.Refuses}[min(r.IntN(30), 5)*r.IntN(2)]
		})
		for range 2 {
			d, err := e.Open(context.Background(), address)
			if err == nil {
				good++
				sameFiles(t, files, d.Path())
				expect.OK(t, d.Close())
			} else {
				silent := !strings.Contains(err.Error(), rangestest.Secret)
				expect.That(t, silent && isOfStore(err), "run %d: %v", run, err)
			}
			s.Fail(nil)
			for name, b := range files {
				s.Put("bucket/a/x.khop/"+name, b)
			}
		}
	}
	expect.That(t, good > 0, "no run was right")
}

// isOfStore reports whether an error has one of the sentinels that stores give rise to.
func isOfStore(err error) bool {
	for _, known := range []error{ErrChanged, ErrCorrupt, ErrIncomplete, fs.ErrPermission, ranges.ErrStore,
		ranges.ErrStalled} {
		if errors.Is(err, known) {
			return true
		}
	}
	return strings.Contains(err.Error(), "the answer ends")
}

// TestTwoProcessesBringADatasetOnce, which open it at the same time.
func TestTwoProcessesBringADatasetOnce(t *testing.T) {
	if address := os.Getenv("KHOP_TEST_OPEN"); address != "" {
		d := expect.Must(Open(address))(t)
		_, err := Check(t.Context(), d.Path(), CheckOptions{})
		expect.OK(t, err, d.Close())
		return
	}
	s, address, files := store(t)
	s.Fail(nil)
	cache := scratchDir(t)
	var both sync.WaitGroup
	for range 2 {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTwoProcessesBringADatasetOnce$")
		c.Env = append(os.Environ(), "KHOP_TEST_OPEN="+address, "KHOP_CACHE_DIR="+cache)
		both.Go(func() {
			said, err := c.CombinedOutput()
			expect.That(t, err == nil, "%v: %s", err, said)
		})
	}
	both.Wait()
	_, sent := s.Requests()
	want := bytesOf(files) + int64(len(files["dataset.json"]))
	expect.That(t, sent == want, "%d bytes were sent, %d are needed", sent, want)
}
