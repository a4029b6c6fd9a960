package loader

import (
	"context"
	"errors"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// warm reads ahead what the loader will read from mapped files: in order, which a disk gives many times faster than
// pages at random, and so that the first epoch takes no page faults. It is worth it while all of it stays in memory: at
// most half of what is available. A larger source is left to the page cache.
func (l *Loader) warm(ctx context.Context) error {
	if l.opt.Residence != Mapped || l.estimate.FileBytes > machine.Probe().Room()/2 {
		return nil
	}
	const chunk = 64 << 20
	done := int64(0)
	for _, t := range append(l.topology(), l.columnTensors()...) {
		for rest := t.Bytes(); len(rest) > 0; {
			part := rest[:min(chunk, len(rest))]
			rest = rest[len(part):]
			err := pinned.Populate(part)
			if errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if done += int64(len(part)); l.opt.Progress != nil {
				l.opt.Progress("read ahead", done, l.estimate.FileBytes)
			}
		}
	}
	return nil
}
