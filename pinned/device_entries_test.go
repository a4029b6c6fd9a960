package pinned

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// testBytes stay where they are, other than those of a test's own stack.
var testBytes [1 << 16]byte

// fill makes an entry serve memory where it lies, as inPlace does without a device.
func fill(e *entry, undone *atomic.Int32) error {
	e.mem = bytesAt(e.lo, int(e.hi-e.lo))
	e.onUndo(func() error { undone.Add(1); return nil })
	return nil
}

func TestEntriesShareRangesWithinOneAnother(t *testing.T) {
	var table entries
	var undone atomic.Int32
	ctx := context.Background()
	r := expect.Must(Allocate(16*4096, Options{}))(t)
	defer r.Close()
	b := r.Bytes()
	page := os.Getpagesize()
	e, fresh, err := table.get(ctx, b[page:3*page])
	if err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	expect.OK(t, table.settle(e, fill(e, &undone)))
	inner, fresh, err := table.get(ctx, b[page+100:page+200])
	expect.Ensure(t, err == nil && !fresh && inner == e, "a part of an entry is another entry: %v", err)
	v := inner.view(b[page+100 : page+200])
	expect.That(t, &v[0] == &b[page+100] && len(v) == 100, "the view is elsewhere")
	over, fresh, err := table.get(ctx, b[:2*page])
	expect.That(t, err == nil && fresh && over.crowd, "an overlapping range: fresh %v, crowd %v, %v", fresh, over.crowd,
		err)
	_ = table.settle(over, errors.New("refused"))
	expect.That(t, table.drop(e) == nil && undone.Load() == 0, "undone while one attachment is left")
	if err := table.drop(inner); err != nil || undone.Load() != 1 || len(table.all) != 0 {
		t.Errorf("undone %d times, %d entries left, %v", undone.Load(), len(table.all), err)
	}
}

func TestEntriesThatFailOrStandAloneServeNobodyElse(t *testing.T) {
	var table entries
	var undone atomic.Int32
	b := testBytes[:100]
	for _, alone := range []bool{false, true} {
		e, fresh, err := table.get(context.Background(), b)
		expect.Ensure(t, err == nil && fresh, "something is left from before")
		if alone {
			e.alone = true
			expect.OK(t, table.settle(e, fill(e, &undone)))
			other, fresh, _ := table.get(context.Background(), b)
			expect.That(t, fresh, "an entry that stands alone was shared")
			_ = table.settle(other, errors.New("refused"))
			err := table.drop(e)
			expect.That(t, err == nil && undone.Load() == 1, "undone %d times: %v", undone.Load(), err)
		} else if err := table.settle(e, os.ErrPermission); !errors.Is(err, os.ErrPermission) {
			t.Error(err)
		}
	}
	expect.That(t, len(table.all) == 0, "%d entries left", len(table.all))
}

func TestGoroutinesWaitForWhoMakesTheEntry(t *testing.T) {
	var table entries
	var made, undone atomic.Int32
	b := testBytes[:]
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 50 {
				e, fresh, err := table.get(context.Background(), b[i:1<<16-i])
				if err != nil {
					t.Error(err)
					return
				}
				if fresh {
					if !e.crowd {
						made.Add(1)
					}
					_ = table.settle(e, fill(e, &undone))
				}
				if e.view(b[i : 1<<16-i])[0] != 0 {
					t.Error("other memory")
				}
				_ = table.drop(e)
			}
		})
	}
	all.Wait()
	expect.That(t, len(table.all) == 0 && made.Load() != 0, "%d entries left of %d made", len(table.all), made.Load())
}

func TestWaitingForAnEntryEndsWithTheContext(t *testing.T) {
	var table entries
	b := testBytes[:100]
	e, _ := expect.Must2(table.get(context.Background(), b))(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	_, _, err := table.get(ctx, b)
	expect.That(t, errors.Is(err, cause), "%v, want the cause", err)
	_ = table.settle(e, os.ErrPermission)
}
