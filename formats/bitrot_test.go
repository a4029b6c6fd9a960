package formats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// spoil changes a file of a dataset in one of the ways in which files change, and says what Unchanged says of it.
var spoil = map[string]struct {
	says string
	do   func(t *testing.T, path string)
}{
	"a flipped byte": {"last written to", func(t *testing.T, path string) {
		b := expect.Must(os.ReadFile(path))(t)
		b[len(b)/2] ^= 1
		expect.OK(t, os.WriteFile(path, b, 0o600), os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	}},
	"touched": {"last written to", func(t *testing.T, path string) {
		expect.OK(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	}},
	"cut": {"bytes and has 100", func(t *testing.T, path string) { expect.OK(t, os.Truncate(path, 100)) }},
	"longer": {"bytes and has", func(t *testing.T, path string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		expect.OK(t, err)
		_, err = f.WriteString("x")
		expect.OK(t, err, f.Close())
	}},
	"replaced": {"another file", func(t *testing.T, path string) {
		b := expect.Must(os.ReadFile(path))(t)
		expect.OK(t, os.WriteFile(path+".new", b, 0o600), os.Rename(path+".new", path))
	}},
	"removed": {"not there any more", func(t *testing.T, path string) { expect.OK(t, os.Remove(path)) }},
}

func TestAFileThatChangesWhileOpenIsSeen(t *testing.T) {
	for what, c := range spoil {
		for _, name := range []string{"nodes/n0/feature.arrow", "splits/node/train.arrow", manifestName} {
			dir := write(t, plainArrays(t), WriterOptions{})
			d := open(t, dir)
			if err := d.Unchanged(); err != nil {
				t.Fatalf("at once: %v", err)
			}
			path := filepath.Join(dir, name)
			c.do(t, path)
			err := d.Unchanged()
			var at *Error
			expect.That(t, errors.Is(err, ErrChanged) && errors.As(err, &at) && at.Path == path &&
				strings.Contains(err.Error(), c.says) && strings.Contains(err.Error(), `run "khop check `+dir),
				"%s: %s: %v, want %q", name, what, err, c.says)
		}
	}
}

func TestADatasetThatWasReplacedWholeStaysOpen(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	d := open(t, dir)
	expect.OK(t, WriteGraph(context.Background(), dir, newGraph(t, randomArrays(t, 1, 50, 3)),
		WriterOptions{Force: true}))
	expect.Is(t, d.Unchanged(), nil, "replaced")
	requireEqualGraphs(t, newGraph(t, plainArrays(t)), d.Graph())
	expect.OK(t, os.RemoveAll(dir))
	expect.Is(t, d.Unchanged(), nil, "removed")
}

// rot flips a byte as a disk does: nobody can tell by size or time.
func rot(t testing.TB, path string, at int64) {
	t.Helper()
	st := expect.Must(os.Stat(path))(t)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	expect.OK(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	expect.OK(t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b[:], at)
	expect.OK(t, err, f.Close(), os.Chtimes(path, time.Time{}, st.ModTime()))
}

func TestVerifyFindsARottenChunkAndNoOther(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows refuses to write to a mapped file")
	}
	a := randomArrays(t, 5, 5000, 4)
	dir := filepath.Join(scratchDir(t), "x.khop")
	expect.OK(t, WriteGraph(context.Background(), dir, newGraph(t, a), WriterOptions{chunkBytes: 4096}))
	d := open(t, dir)
	path := filepath.Join(dir, "graph/indices.arrow")
	offset := d.Manifest().Columns[1].Parts[0].BodyOffset
	rot(t, path, offset+4096*2+7)
	b := d.Graph().Indices().Bytes()
	for range 2 {
		expect.OK(t, d.Unchanged(), d.Verify(b[:8192]), d.Verify(b[12288:]), d.Verify(nil), d.Verify([]byte{1, 2, 3}))
		for _, part := range [][]byte{b, b[8191:8193], b[8192:8193], b[12287:]} {
			err := d.Verify(part)
			says := fmt.Sprintf("%s: corrupt dataset: bytes %s to %s (chunk 3 of ", path, humanize.Comma(offset+8192),
				humanize.Comma(offset+12288))
			expect.That(t, errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), says) &&
				strings.Contains(err.Error(), `run "khop check `+dir), "%v; want %s", err, says)
		}
	}
	w, _ := d.Graph().EdgeColumn("weight")
	expect.OK(t, d.Verify(w.Bytes()))
}

func TestScrubFindsWhatRotsAndTellsHowFarItIs(t *testing.T) {
	dir := filepath.Join(scratchDir(t), "x.khop")
	expect.OK(t, WriteGraph(context.Background(), dir, newGraph(t, randomArrays(t, 5, 5000, 4)),
		WriterOptions{chunkBytes: 4096}))
	var last, total int64
	opt := CheckOptions{Scrub: true, Rate: 1 << 40, Progress: func(stage string, done, of int64) {
		expect.That(t, stage == "scrub" && done >= last, "%s: %d after %d", stage, done, last)
		last, total = done, of
	}}
	if r, err := Check(context.Background(), dir, opt); err != nil || !r.OK() || last != total || total < 100_000 {
		t.Errorf("%+v, %v, %d of %d", r, err, last, total)
	}
	path := filepath.Join(dir, "graph/indices.arrow")
	rot(t, path, 70_000)
	opt.Progress = nil
	r, err := Check(context.Background(), dir, opt)
	expect.That(t, err == nil && r.Found == 1 && strings.Contains(r.Problems[0].Error(), path), "%+v, %v", r, err)
}

func TestScrubKeepsToItsRateAndStopsAtOnce(t *testing.T) {
	dir := write(t, randomArrays(t, 5, 20000, 8), WriterOptions{})
	cause := errors.New("stopped")
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(context.Background(), 100*time.Millisecond, cause)
	defer cancel()
	// one byte a second: it would take days
	_, err := Check(ctx, dir, CheckOptions{Scrub: true, Rate: 1})
	expect.That(t, errors.Is(err, cause), "%v", err)
	took := time.Since(began)
	expect.That(t, took >= 100*time.Millisecond && took <= 20*time.Second, "it took %v", took)
}

// cutWhileOpen opens a dataset and then cuts the file of its sources.
func cutWhileOpen(t *testing.T, size int64) (d *Dataset, path string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("mapped files cannot be cut here")
	}
	dir := write(t, randomArrays(t, 5, 5000, 4), WriterOptions{})
	d, path = open(t, dir), filepath.Join(dir, "graph/indices.arrow")
	expect.OK(t, os.Truncate(path, size))
	return d, path
}

func TestAFaultNamesFileAndOffset(t *testing.T) {
	d, path := cutWhileOpen(t, 8192)
	b, offset := d.Graph().Indices().Bytes(), d.Manifest().Columns[1].Parts[0].BodyOffset
	err := pinned.Guard(func() error {
		if b[20000] == 1 {
			return nil
		}
		return nil
	})
	var fault *pinned.Fault
	expect.That(t, errors.As(err, &fault) && fault.Path == path && fault.Offset == offset+20000 &&
		strings.Contains(err.Error(), path+": byte "), "%v", err)
	if err := pinned.Populate(b); !errors.Is(err, errors.ErrUnsupported) && (!errors.As(err, &fault) ||
		fault.Path != path) {
		t.Errorf("%v", err)
	}
	err = d.Verify(b)
	expect.That(t, errors.As(err, &fault) && fault.Path == path, "%v", err)
}

// Problems come in the order of the file.
func TestCheckListsProblemsInOrder(t *testing.T) {
	dir := write(t, randomArrays(t, 9, 3000, 3), WriterOptions{chunkBytes: 4096})
	p := manifestOf(t, dir).Columns[0].Parts[0]
	b := expect.Files(t, dir)[p.Path]
	for _, chunk := range []int64{0, 2, 4} {
		b[p.BodyOffset+4096*chunk] ^= 1
	}
	put(t, dir, p.Path, b)
	for _, opt := range []CheckOptions{{}, {Scrub: true, Rate: 1 << 40}} {
		report := expect.Must(Check(context.Background(), dir, opt))(t)
		var got []int64
		for _, problem := range report.Problems {
			if r := byteRange.FindStringSubmatch(problem.Error()); r != nil {
				got = append(got, (number(r[1])-p.BodyOffset)/4096)
			}
		}
		expect.That(t, slices.Equal(got, []int64{0, 2, 4}), "scrub %t: chunks %d, %v", opt.Scrub, got, report.Problems)
	}
}
