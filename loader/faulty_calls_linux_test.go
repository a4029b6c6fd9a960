package loader_test

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
)

// Whichever system call about a file of a source fails, it is an error or the file is read in another way. No file
// stays open, and batches are the same.
func TestACallThatFailsIsToldOrDoneWithout(t *testing.T) {
	needDisk(t)
	loader.ReadWith(t, diskio.ReaderOptions{Depth: 4})
	g, folder := inFiles(t, graphs.Plain(t, 600, 6), true)
	opt := pagedOptions
	opt.Disk.CacheBytes, opt.Columns.Nodes, opt.BatchSize, opt.Workers = 900, []string{"feature"}, 100, 1
	var want []string
	load := func() error {
		l, err := loader.New(g, opt)
		if err != nil {
			return err
		}
		got := digests(t, l.Range(background, 0, 0, 1))
		if want == nil {
			want = got
		}
		expect.Same(t, got, want)
		return l.Close()
	}
	look := func() error {
		o, err := outlook.Look(background, g, opt)
		expect.That(t, err == nil || o == nil, "an outlook and an error")
		return err
	}
	plan := func() error {
		_, err := loader.Plan(background, g, opt)
		return err
	}
	for name, do := range map[string]func() error{"New": load, "Look": look, "Plan": plan} {
		var err error
		calls := expect.FailingCall(t, folder, -1, nil, func() { err = do() })
		expect.OK(t, err)
		told := 0
		for i, c := range calls {
			if testing.Short() && c.Name != "openat" {
				continue
			}
			opened := expect.OpenFiles(t)
			expect.FailingCall(t, folder, i, unix.EIO, func() { err = do() })
			if n := expect.OpenFiles(t); n != opened || err != nil && !errors.Is(err, unix.EIO) {
				t.Errorf("%s, %s: %d files stay open: %v", name, fmt.Sprint(c), n-opened, err)
			}
			if err != nil {
				told++
			}
		}
		if files := map[string]int{"New": 3, "Look": 3, "Plan": 2}[name]; told < files { // Plan reads no column
			t.Errorf("%s: %d failures were told, of %d files", name, told, files)
		}
	}
}
