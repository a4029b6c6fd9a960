package consumer

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/loader"
)

// Sample requests one batch from a server whose seeds come with requests (loader.OnRequest). The caller releases it. A
// message has room for 8,000 seeds, half as many with times; each set has one type. One request may run at a time:
// shm.ErrBusy for a second. An error of the request is a *shm.Error, after which further requests are possible.
func (c *Consumer) Sample(ctx context.Context, r loader.Request) (*Batch, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.exit()
	c.run++
	c.done, c.epoch = 0, r.Epoch
	m, ok := wire.AppendSample(nil, wire.Sample{Run: c.run, Epoch: r.Epoch, Number: r.Number}, r.Seeds)
	if !ok || r.Epoch >= 1<<32 {
		return nil, fmt.Errorf("%w: a request of %d seeds of epoch %d: must be nodes, one type a set, that a message "+
			"of %d bytes has room for", shm.ErrOptions, r.Seeds.Len(), r.Epoch, wire.MaxMessage)
	}
	if err := c.returnSlots(); err != nil {
		return nil, c.lost(ctx, err)
	}
	if err := c.send(m); err != nil {
		return nil, c.lost(ctx, err)
	}
	return c.answer(ctx)
}

// returnSlots gives back what was released.
func (c *Consumer) returnSlots() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flushSlots()
}

// answer waits for the batch of the run, which is kept.
func (c *Consumer) answer(ctx context.Context) (*Batch, error) {
	b, err := c.next(ctx, wire.KindBatch, wire.KindError)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b.inBody, b.kept = false, true
	return b, nil
}
