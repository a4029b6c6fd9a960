package gather

import (
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// leastPart is how many bytes of rows make a goroutine worth its start.
const leastPart = 64 << 10

// copyParts is copyRows by several goroutines, this one among them: to wake another takes as long as to copy many rows.
func (s *Store) copyParts(dst []byte, ids unified.Tensor, parts int64) error {
	m, row := ids.Len(), s.OutBytes()
	part := func(i int64) error {
		lo, hi := i*m/parts, (i+1)*m/parts
		list, err := ids.Rows(lo, hi)
		if err != nil {
			return err
		}
		return pinned.Guard(func() error { return s.copyRows(dst[lo*row:hi*row], list) })
	}
	var group errgroup.Group
	for i := range parts - 1 {
		group.Go(func() error { return part(i) })
	}
	mine := part(parts - 1)
	if err := errors.Join(group.Wait(), mine); err != nil {
		if first := s.copyRows(dst, ids); first != nil { // it names the first of all ids
			return first
		}
		return err
	}
	return nil
}
