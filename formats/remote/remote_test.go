package remote

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

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/expect/stores"
)

// store starts a store that has a dataset, whose files are returned, and clients that do not wait for long.
func store(t *testing.T) (s *stores.Store, address string, files map[string][]byte) {
	t.Helper()
	s = stores.New(t)
	smallChunks(t, 4096)
	dir := write(t, graphs.Typed(t, 3000, 3000))
	return s, s.PutFolder(t, "bucket", "a/x.khop", dir), expect.Files(t, dir)
}

// smallChunks has datasets written in chunks of a size, and columns come late that have as much.
func smallChunks(t testing.TB, size int64) {
	chunk, least := arrayfile.ChunkBytes, leastPartial
	arrayfile.ChunkBytes, leastPartial = size, size
	t.Cleanup(func() { arrayfile.ChunkBytes, leastPartial = chunk, least })
}

// write writes a graph to a folder.
func write(t testing.TB, g *graph.Graph) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "x.khop")
	expect.OK(t, formats.WriteGraph(t.Context(), dir, g, formats.WriterOptions{}))
	return dir
}

// there reports whether there is something at a path.
func there(path string) bool { _, err := os.Lstat(path); return err == nil }

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
		e := Options{CacheDir: t.TempDir()}
		for i := range 2 {
			s.Fail(nil)
			d := expect.Must(Open(context.Background(), at, e))(t)
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
	e := Options{CacheDir: t.TempDir()}
	s.Fail(nil)
	var wg sync.WaitGroup
	for range 4 { // locks are of open files: goroutines exclude one another as processes do
		wg.Go(func() {
			d, err := Open(context.Background(), address, e)
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
	s.PutFolder(t, "bucket", "b.khop", write(t, graphs.Typed(t, 2900, 3000)))
	e := Options{CacheDir: t.TempDir(), CacheSize: total + total/2}
	d := expect.Must(Open(context.Background(), address, e))(t)
	_, err := Open(context.Background(), "s3://bucket/b.khop", e)
	expect.That(t, errors.Is(err, formats.ErrSpace), "while the other is open: %v", err)
	sameFiles(t, files, d.Path())
	expect.OK(t, d.Close())
	second := expect.Must(Open(context.Background(), "s3://bucket/b.khop", e))(t)
	expect.That(t, !there(d.Path()), "the first is still there")
	expect.OK(t, second.Close())
	e.CacheSize = total / 2
	_, err = Open(context.Background(), address, e)
	expect.That(t, errors.Is(err, formats.ErrSpace), "of half the size: %v", err)
}

// What a process leaves that was killed while it made an entry or filled it does no harm.
func TestACacheOutlivesProcessesThatWereKilled(t *testing.T) {
	_, address, files := store(t)
	e := Options{CacheDir: t.TempDir(), CacheSize: 1 << 30}
	expect.OK(t, expect.Must(Open(context.Background(), address, e))(t).Close())
	entries := expect.Must(filepath.Glob(filepath.Join(e.CacheDir, "*-*", "units")))(t)
	units := expect.Must(os.ReadFile(entries[0]))(t)
	for i := range units {
		units[i] = byte(i % 2) // reserved, and not there
	}
	expect.OK(t, os.WriteFile(entries[0], units, 0o600))
	expect.OK(t, os.WriteFile(filepath.Join(e.CacheDir, ".khop-new-x"), []byte("half"), 0o600))
	indices := filepath.Join(filepath.Dir(entries[0]), "data", "graph", "indices.arrow")
	expect.OK(t, os.WriteFile(indices, make([]byte, len(files["graph/indices.arrow"])), 0o600))
	d := expect.Must(Open(context.Background(), address, e))(t)
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
		e, often := Options{CacheDir: t.TempDir()}, r.IntN(40)
		var mu sync.Mutex
		s.Fail(func(n int, _ *http.Request) stores.Fault {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.IntN(100) >= often:
				return stores.None
			case r.IntN(20) == 0: // another version, in between
				name := names[r.IntN(len(names))]
				text, _ := s.Get(name)
				other := append([]byte{}, text...)
				other[r.IntN(len(other))] ^= byte(1 + r.IntN(255))
				s.Put(name, other)
				return stores.None
			}
			return []stores.Fault{stores.Busy, stores.Cut, stores.Stalls, stores.Wrong,
				stores.Ignores, stores.Refuses}[min(r.IntN(30), 5)*r.IntN(2)]
		})
		for range 2 {
			d, err := Open(context.Background(), address, e)
			if err == nil {
				good++
				sameFiles(t, files, d.Path())
				expect.OK(t, d.Close())
			} else {
				silent := !strings.Contains(err.Error(), stores.Secret)
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
	for _, known := range []error{formats.ErrChanged, formats.ErrCorrupt, formats.ErrIncomplete, fs.ErrPermission,
		ranges.ErrStore, ranges.ErrStalled} {
		if errors.Is(err, known) {
			return true
		}
	}
	return strings.Contains(err.Error(), "the answer ends")
}

// TestTwoProcessesBringADatasetOnce, which open it at the same time.
func TestTwoProcessesBringADatasetOnce(t *testing.T) {
	if address := os.Getenv("KHOP_TEST_OPEN"); address != "" {
		d := expect.Must(Open(t.Context(), address, Options{}))(t)
		_, err := formats.Check(t.Context(), d.Path(), formats.CheckOptions{})
		expect.OK(t, err, d.Close())
		return
	}
	s, address, files := store(t)
	s.Fail(nil)
	cache := t.TempDir()
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
