package gather

import (
	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// leastPart is how many bytes of rows make a goroutine worth its start.
const leastPart = 64 << 10

// copyParts is copyRows by several goroutines.
func (s *Store) copyParts(dst []byte, ids unified.Tensor, parts int64) error {
	m, row := ids.Len(), s.OutBytes()
	var group errgroup.Group
	for i := range parts {
		lo, hi := i*m/parts, (i+1)*m/parts
		group.Go(func() error {
			part, err := ids.Rows(lo, hi)
			if err != nil {
				return err
			}
			return pinned.Guard(func() error { return s.copyRows(dst[lo*row:hi*row], part) })
		})
	}
	if err := group.Wait(); err != nil {
		if first := s.copyRows(dst, ids); first != nil { // it names the first of all ids
			return first
		}
		return err
	}
	return nil
}
