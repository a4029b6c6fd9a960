package tier

import (
	"context"
	"time"

	"github.com/khop-gnn/khop/unified"
)

// Later has the other methods of a Reader whose rows come later: goroutines fetch them one after the other, in the
// order of the calls of Fetch. The zero Later is idle. As for a Reader, one goroutine at a time may use it.
type Later struct {
	last   chan error // gets the outcome of all that was begun; nil: nothing is under way
	cancel context.CancelFunc
}

// Fetch lets a goroutine call fetch when all earlier fetches are complete; if one failed, fetch is not called. The
// context of fetch ends with ctx, and by Cancel.
func (l *Later) Fetch(ctx context.Context, fetch func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	before, earlier, last := l.last, l.cancel, make(chan error, 1)
	l.last, l.cancel = last, func() {
		cancel()
		if earlier != nil {
			earlier()
		}
	}
	go func() {
		if before != nil {
			if err := <-before; err != nil {
				last <- err
				return
			}
		}
		last <- fetch(ctx)
	}()
}

// idle reports whether no fetch is running.
func (l *Later) idle() bool { return l.last == nil }

// Finish waits for all fetches. If ctx ends before, they still run, and Cancel waits for them.
func (l *Later) Finish(ctx context.Context, _ Slot) (waited time.Duration, err error) {
	if l.last == nil {
		return 0, nil
	}
	begin := time.Now()
	select {
	case err = <-l.last:
		l.end()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return time.Since(begin), err
}

// Cancel ends the contexts of all fetches, and waits for them.
func (l *Later) Cancel() {
	if l.last != nil {
		l.cancel()
		<-l.last
		l.end()
	}
}

func (l *Later) end() {
	l.cancel()
	l.last, l.cancel = nil, nil
}

// CopyIDs returns a copy of the ids, to read after Begin.
func (w Want) CopyIDs() ([]int64, error) {
	at, err := unified.Integers(w.IDs)
	if err != nil {
		return nil, err
	}
	list := make([]int64, w.IDs.Len())
	for i := range list {
		list[i] = at(int64(i))
	}
	return list, nil
}
