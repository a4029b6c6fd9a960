//go:build !race

package formats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// scrubWhile scrubs a dataset, and calls a function when it has read the column before the splits.
func scrubWhile(t *testing.T, change func(dir string)) (*Report, string, error) {
	t.Helper()
	a := plainArrays(t)
	image := graph.Column{Name: "image", DType: unified.Uint8, Shape: []int64{1 << 22}}
	a.Schema.Nodes[0].Columns = append(a.Schema.Nodes[0].Columns, image)
	a.NodeColumns[0]["image"] = tensor(t, unified.Uint8, make([]byte, 5<<22), 5, 1<<22) // each 16 MiB call progress
	dir := write(t, a, WriterOptions{})
	changed := false
	opt := CheckOptions{Scrub: true, Rate: 1 << 40, Progress: func(string, int64, int64) {
		if !changed {
			changed = true
			change(dir)
		}
	}}
	r, err := Check(context.Background(), dir, opt)
	expect.That(t, changed, "no progress was told")
	return r, dir, err
}

// A dataset may be replaced while it is scrubbed, which takes days. Its place then holds another dataset.
func TestADatasetThatIsReplacedWhileItIsScrubbedIsNamed(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"by another file": func(path string) error { return os.WriteFile(path, []byte("other"), 0o600) },
		"by a pipe":       makePipe,
		"by nothing":      func(string) error { return nil },
	} {
		_, dir, err := scrubWhile(t, func(dir string) {
			for _, name := range []string{"train", "val", "test"} {
				path := filepath.Join(dir, "splits/node", name+".arrow")
				expect.OK(t, os.Remove(path))
				err := replace(path)
				expect.Ensure(t, err == nil || errors.Is(err, errors.ErrUnsupported), "%v", err)
			}
		})
		want := map[string]string{"by nothing": "no such file"}[name]
		if want == "" {
			want = "another file is in its place"
		}
		expect.That(t, err != nil && strings.HasPrefix(err.Error(), dir) && strings.Contains(err.Error(), want) &&
			strings.HasSuffix(err.Error(), "; check again"), "%s: %v", name, err)
	}
}

// What cannot be read is a problem of its bytes, which are named, and the rest is still looked at.
func TestScrubNamesBytesThatCannotBeRead(t *testing.T) {
	var last string
	var from, to int64
	r, dir, err := scrubWhile(t, func(dir string) {
		for _, p := range manifestOf(t, dir).parts() {
			if p.Bytes > 0 {
				last, from, to = p.Path, p.BodyOffset, p.BodyOffset+p.Bytes
			}
		}
		expect.OK(t, os.Truncate(filepath.Join(dir, last), from+1))
	})
	expect.OK(t, err)
	want := fmt.Sprintf("%s: corrupt dataset: bytes %d to %d cannot be read: ", filepath.Join(dir, last), from, to)
	expect.That(t, r.Found == 1 && strings.HasPrefix(r.Problems[0].Error(), want), "%d problems: %v, not %s", r.Found,
		r.Problems, want)
}

// TestScrubReadsAtItsDefaultRate: a small dataset is read at once, because the rate bounds the bytes before.
func TestScrubReadsAtItsDefaultRate(t *testing.T) {
	for _, rate := range []int64{0, -1} {
		dir := write(t, plainArrays(t), WriterOptions{})
		r, err := Check(context.Background(), dir, CheckOptions{Scrub: true, Rate: rate})
		expect.That(t, err == nil && r.OK() && r.Bytes != 0, "rate %d: %+v, %v", rate, r, err)
	}
}

// TestScrubGoesOnPastAFileThatCannotBeOpened: it is a problem like another.
func TestScrubGoesOnPastAFileThatCannotBeOpened(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	missing := filepath.Join(dir, "graph/indptr.arrow")
	expect.OK(t, os.Remove(missing))
	rotten := filepath.Join(dir, "graph/indices.arrow")
	for _, p := range manifestOf(t, dir).parts() {
		if p.Path == "graph/indices.arrow" {
			rot(t, rotten, p.BodyOffset)
		}
	}
	r, err := Check(context.Background(), dir, CheckOptions{Scrub: true, Rate: 1 << 40})
	expect.Ensure(t, err == nil && r.Found == 2, "%+v, %v", r, err)
	for i, path := range []string{missing, rotten} {
		text := fmt.Sprint(r.Problems)
		expect.That(t, strings.Contains(text, path), "problem %d is not of %s: %s", i, path, text)
	}
}
