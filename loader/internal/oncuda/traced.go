package oncuda

import (
	"context"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/timeline"
	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/slots"
)

// lanes is what a maker's streams are in a trace; all nil without one.
type lanes struct {
	picks, rows *timeline.Lane
	begun       *device.Event // a timer: sampling began on the stream
}

// begin notes where on the stream the sampling of a batch begins, and has its slot traced.
func (l *lanes) begin(ctx context.Context, m *cudaMaker, f *cudaFence) (err error) {
	lane := timeline.Of(ctx)
	if f.traced.lane = nil; lane == nil {
		return nil
	}
	if l.begun == nil {
		if l.begun, err = m.on.NewTimer(); err != nil {
			return err
		}
		l.picks, l.rows = lane.Beside("sampling stream"), lane.Beside("row stream")
	}
	if f.traced.anchor == nil {
		if f.traced.anchor, err = f.NewTimer(); err != nil {
			return err
		}
	}
	return m.picks.Record(l.begun)
}

// sampled records how long the stream sampled. The host has just waited for it: that is the only time of a batch which
// both clocks know.
func (l *lanes) sampled(ctx context.Context, m *cudaMaker, s *slots.Slot) error {
	if timeline.Of(ctx) == nil {
		return nil
	}
	t := &s.Fence.(*cudaFence).traced
	if err := m.picks.Record(t.anchor); err != nil {
		return err
	}
	if err := t.anchor.Synchronize(); err != nil {
		return err
	}
	t.at = l.rows.Now()
	took, err := t.anchor.Elapsed(l.begun)
	if err != nil {
		return err
	}
	t.lane, t.number, t.bytes = l.rows, int64(s.Number), s.RowBytes()
	l.picks.Was("sample", t.number, t.at-int64(took), t.at)
	return nil
}

// traced is the batch of a slot in a trace.
type traced struct {
	lane   *timeline.Lane // of the stream that gathers; nil without a trace
	anchor *device.Event  // a timer: the batch was sampled
	at     int64          // the same, as Lane.Now tells it
	number int64
	bytes  int64 // of rows
}

// gathered records how long the stream took for the rows.
func (t *traced) gathered(f *cudaFence, took time.Duration) {
	if t.lane == nil {
		return
	}
	if after, err := f.gathering.Elapsed(t.anchor); err == nil {
		begin := t.at + int64(after)
		t.lane.Was("gather", t.number, begin, begin+int64(took))
		t.lane.Change(makers.BytesInFlight, t.bytes, begin, begin+int64(took))
	}
	t.lane = nil
}
