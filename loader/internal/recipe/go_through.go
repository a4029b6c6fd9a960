package recipe

import (
	"context"
	"slices"

	"github.com/khop-gnn/khop/unified"
)

// GoThrough calls f for all bytes of some arrays, in order and a part at a time, and tells how far it is.
func (s *Spec) GoThrough(ctx context.Context, stage string, list []unified.Tensor, f func([]byte) error) error {
	const part = 64 << 20
	done, total := int64(0), int64(0)
	for _, t := range list {
		total += int64(len(t.Bytes()))
	}
	for _, t := range list {
		for b := range slices.Chunk(t.Bytes(), part) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := f(b); err != nil {
				return err
			}
			done += int64(len(b))
			s.Progress(stage, done, total)
		}
	}
	return nil
}
