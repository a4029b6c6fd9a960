package convert

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// begin settles the options of a conversion, and what it may take.
func begin(src, dst string, opt *Options) (*conversion, error) {
	if opt.Log == nil {
		opt.Log = func(string) {}
	}
	if err := opt.Settle(); err != nil {
		return nil, err
	}
	c := &conversion{src: src, dst: dst, opt: *opt, skips: source.Skips{Limit: opt.SkipBad}}
	c.budget.Dir, c.budget.Memory = filepath.Dir(filepath.Clean(dst)), &c.ledger
	c.budget.Disk, _ = transaction.FreeSpace(c.budget.Dir)
	c.ledger.SetLimit(opt.MemoryLimit)
	return c, nil
}

// guarded calls a function while files are mapped, temporary ones among them.
func (c *conversion) guarded(run func() error) error {
	err := pinned.Guard(run)
	if errors.Is(err, pinned.ErrFault) && c.tree != nil {
		if changed := c.unchanged(); changed != nil { // a source that is mapped became shorter
			return changed
		}
		return source.Error(c.budget.Dir, "", -1, "see whether the disk is damaged, or choose a target on another one",
			fmt.Errorf("a temporary file of the edges: %w", err))
	}
	return err
}

// Settle sets MemoryLimit to the limit that Run keeps: the default where it is 0, and no more than what the control
// group leaves. pinned.ErrLimit where that is nothing. Run calls it.
func (o *Options) Settle() error {
	m := machine.Probe()
	if o.MemoryLimit == 0 {
		o.MemoryLimit = m.Room() / 4
	}
	_, room, ok := m.GroupRoom()
	if !ok {
		return nil
	}
	if room <= 0 {
		return m.GroupIsFull(pinned.ErrLimit)
	}
	o.MemoryLimit = min(o.MemoryLimit, room)
	return nil
}
