package gpu

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// crew copies rows to page-locked memory, by several threads: the first half of the CPU-centric way.
type crew struct {
	resident *pinned.Region // the column on huge pages, which is the best that the CPU can have
	store    *gather.Store
	staged   [2][]unified.Buffer // a thread's share of a batch, twice
}

func newCrew(dev *device.Device, threads int, column unified.Tensor) (c *crew, err error) {
	c = &crew{}
	for half := range c.staged {
		c.staged[half] = make([]unified.Buffer, threads)
		for i := range c.staged[half] {
			c.staged[half][i].Options = pinned.Options{Device: dev, Place: pinned.Pinned}
		}
	}
	own, resident, err := gather.Resident(context.Background(), column, pinned.Options{}, nil)
	if err != nil {
		return nil, err
	}
	c.resident = resident
	if c.store, err = gather.NewStore(own); err != nil {
		return nil, errors.Join(err, c.resident.Close())
	}
	return c, nil
}

// gather copies the rows to one of the two places, and returns them in order, a part a thread. They stay until that
// place is asked for again.
func (c *crew) gather(half int, ids []int64) ([]unified.Tensor, error) {
	staged := c.staged[half]
	parts := make([]unified.Tensor, len(staged))
	var group errgroup.Group
	for i := range staged {
		share := ids[i*len(ids)/len(staged) : (i+1)*len(ids)/len(staged)]
		group.Go(func() (err error) {
			parts[i], err = c.store.Gather(&staged[i], unified.FromSlice(share))
			return err
		})
	}
	return parts, group.Wait()
}

func (c *crew) close() error {
	var errs []error
	for half := range c.staged {
		for i := range c.staged[half] {
			errs = append(errs, c.staged[half][i].Close())
		}
	}
	return errors.Join(append(errs, c.resident.Close())...)
}
