package disk

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// slowSampling samples a batch in a second, of which it waits for the disk so long.
type slowSampling struct{ awaited time.Duration }

func (s slowSampling) Sample(context.Context, uint32, uint64) error {
	time.Sleep(time.Second)
	return nil
}
func (s slowSampling) Awaited() time.Duration           { return s.awaited }
func (slowSampling) IDs(int) (_ unified.Tensor, _ bool) { return unified.Tensor{}, false }
func (slowSampling) Close() error                       { return nil }

type turn uint64

func (n turn) Turn() uint64                              { return uint64(n) }
func (turn) Room(int, int64) ([]byte, error)             { return nil, nil }
func (turn) Rows(int, int64) (_ unified.Tensor, _ error) { return unified.Tensor{}, nil }

// Who waits for a batch that is being sampled ahead waits for the disk as far as that sampling does.
func TestWaitingForWhatIsSampledAheadIsWaitingForTheDisk(t *testing.T) {
	for _, awaited := range []time.Duration{0, 750 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			tier := &Tier{ahead: map[any]*Ahead{}}
			a := expect.Must(NewAhead(AheadOptions{Tier: tier, Loader: 1,
				Presamplers: []presampling{slowSampling{awaited}},
				Part:        Part{Batches: 2, World: 1, Rounds: func(n uint64) uint64 { return n }}}))(t)
			ctx, cancel := context.WithCancel(t.Context())
			var group sync.WaitGroup
			expect.OK(t, a.Begin(ctx, &group, 0, 0, 2))
			r := &Reader{ahead: a}
			for n := range 2 {
				waited, err := r.Expect(ctx, turn(n+1))
				expect.That(t, err == nil && waited == awaited, "batch %d: %v, %v; want %v", n, waited, err, awaited)
			}
			cancel()
			group.Wait()
			expect.OK(t, a.Close())
		})
	}
}
