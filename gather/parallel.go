package gather

import (
	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// leastShare is how many bytes of rows are worth a goroutine.
const leastShare = 64 << 10

// GatherParallel is Gather by up to so many goroutines, each of which copies rows that lie side by side in dst. It is
// for a reader that one core cannot keep busy, such as a copy engine. A fault in a mapped column is pinned.ErrFault.
func (s *Store) GatherParallel(dst *unified.Buffer, ids unified.Tensor, goroutines int) (unified.Tensor, error) {
	m, row := ids.Len(), s.outBytes()
	parts := min(int64(goroutines), m*row/leastShare)
	if parts < 2 || ids.Rank() != 1 {
		return s.Gather(dst, ids)
	}
	room, err := unified.Grow[uint8](dst, m*row, 0)
	if err != nil {
		return unified.Tensor{}, err
	}
	var group errgroup.Group
	for i := range parts {
		lo, hi := i*m/parts, (i+1)*m/parts
		group.Go(func() error {
			share, err := ids.Rows(lo, hi)
			if err != nil {
				return err
			}
			return pinned.Guard(func() error { return s.copyRows(room[lo*row:hi*row], share) })
		})
	}
	if err := group.Wait(); err != nil {
		if _, first := s.Gather(dst, ids); first != nil { // it names the first of all ids
			return unified.Tensor{}, first
		}
		return unified.Tensor{}, err
	}
	return s.Over(dst, m)
}
