package disk

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// A ring that the kernel takes back fails its batches, and those after them.
func TestABrokenRingFailsItsBatches(t *testing.T) {
	m, _ := columnFile(t, t.TempDir(), 100, 512)
	c := openColumn(t, m, ReaderOptions{Depth: 4}, ColumnOptions{PlannerOptions: PlannerOptions{Lookahead: 4}})
	e, ok := c.reader.engine.(*ring)
	if !ok {
		t.Skip("the system refuses io_uring")
	}
	if err := fetch(background, c, m, [][]uint32{{1, 2, 3}}, 1); err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Dup2(null, e.fd), unix.Close(null)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := fetch(background, c, m, [][]uint32{{50}}, 1); !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("got %v", err)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}
}
