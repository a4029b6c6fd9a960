package oncuda

import (
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/makers"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// cudaMaker makes batches on a device: it samples on one stream, or on the CPU, and gathers on another, so that the
// rows of one batch are on their way while the next is sampled. The host waits once a batch, for the sizes of what was
// sampled.
type cudaMaker struct {
	makers.Readers
	on             *Processor
	stats          *makers.Counters
	sampler        sampling.DeviceWorker
	host           *hostSampler           // in place of sampler and drawer, where the topology stays on disk
	drawer         *sampling.DeviceDrawer // of negatives; nil without
	picks, columns *device.Stream
	sampled        *device.Event
	lanes          lanes // in a trace
}

// OpenMaker is of plan.Processor.
func (d *Processor) OpenMaker(p *plan.Plan, columns []*placed.Column, ledger *pinned.Ledger, stats *makers.Counters) (
	_ makers.Maker, err error) {
	m := &cudaMaker{on: d, stats: stats}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if m.picks, err = d.NewStream(); err != nil {
		return nil, err
	}
	if m.columns, err = d.NewStream(); err != nil {
		return nil, err
	}
	if m.sampled, err = d.NewEvent(); err != nil {
		return nil, err
	}
	if m.Readers, err = makers.OpenReaders(columns, tier.Worker{Loader: p.Recipe, Ledger: ledger, Stream: m.columns,
		Goroutines: carryGoroutines(p.Workers)}); err != nil {
		return nil, err
	}
	if p.Paged != nil {
		m.host, err = newHostSampler(p, d.Device, ledger, m.picks)
		return m, err
	}
	env := p.Env(ledger)
	env.Scratch.Device = d.Device
	defer errs.Recovered(&err)
	if err := Refuses(p.Sampler); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; take \"cpu\"", errs.ErrDevice, d, err)
	}
	at := sampling.DeviceEnv{Env: env, Device: d.Device, Stream: m.picks, Topology: d.topology,
		MaxBlocks: d.Opt.MaxBlocks}
	if m.sampler, err = p.Opener().(sampling.DeviceSampler).OpenDevice(at); err != nil {
		return nil, err
	}
	if p.Drawer != nil {
		if m.drawer, err = p.Drawer.OpenDevice(context.Background(), at); err != nil {
			return nil, fmt.Errorf("tables of negatives: %w", err)
		}
	}
	return m, nil
}

func (m *cudaMaker) Negatives(r sampling.Rand, links []sampling.LinkSeeds) error {
	switch {
	case m.host != nil:
		return m.host.Negatives(r, links)
	case m.drawer == nil:
		return nil
	}
	return m.drawer.Draw(r, links)
}

// Drain waits for all that is on the streams.
func (m *cudaMaker) Drain() error {
	var errs []error
	for _, s := range []*device.Stream{m.picks, m.columns} {
		if s != nil {
			errs = append(errs, s.Synchronize())
		}
	}
	return errors.Join(errs...)
}

// Close waits for what is under way and frees the maker.
func (m *cudaMaker) Close() (err error) {
	defer errs.Recovered(&err)
	errs := []error{m.Drain(), m.Readers.Close()}
	if m.sampler != nil {
		errs = append(errs, m.sampler.Close())
	}
	if m.host != nil {
		errs = append(errs, m.host.Close())
	}
	if m.drawer != nil {
		errs = append(errs, m.drawer.Close())
	}
	return errors.Join(append(errs, m.sampled.Close(), m.lanes.begun.Close(), m.picks.Close(), m.columns.Close())...)
}

// Sample samples the slot's request and waits for the sizes. A buffer that was too small has grown then, and the batch
// is sampled again: the draws are the same.
func (m *cudaMaker) Sample(ctx context.Context, s *slots.Slot) error {
	if err := m.Expect(ctx, s); err != nil {
		return err
	}
	f := s.Fence.(*cudaFence)
	f.countGather()
	if err := f.makeFree(m.picks); err != nil {
		return err
	}
	if err := m.lanes.begin(ctx, m, f); err != nil {
		return err
	}
	if m.host != nil {
		if err := m.host.Sample(ctx, s); err != nil {
			return err
		}
		return m.lanes.sampled(ctx, m, s)
	}
	for {
		if err := m.sampler.Enqueue(ctx, &s.Request, &s.Sample); err != nil {
			return err
		}
		if err := m.picks.Record(m.sampled); err != nil {
			return err
		}
		if err := m.sampled.Synchronize(); err != nil {
			return err
		}
		replay, err := m.sampler.Finish(&s.Sample)
		if err != nil {
			return err
		}
		if !replay {
			return m.lanes.sampled(ctx, m, s)
		}
		m.stats.Replays.Add(1)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// Fetch starts to bring the columns' rows.
func (m *cudaMaker) Fetch(ctx context.Context, s *slots.Slot) error {
	f := s.Fence.(*cudaFence)
	if err := f.awaitReaders(m.columns.Wait); err != nil {
		return err
	}
	f.carried.of = 0
	if err := m.columns.Record(f.gathering); err != nil {
		return err
	}
	if err := m.Begin(ctx, s); err != nil {
		return errors.Join(err, m.columns.Synchronize()) // nobody could wait for what was enqueued
	}
	return nil
}

// Finish lets the slot's fence say when the rows are there.
func (m *cudaMaker) Finish(ctx context.Context, s *slots.Slot) error {
	if _, err := m.Readers.Finish(ctx, s, m.stats); err != nil {
		return errors.Join(err, m.Drain()) // nobody could wait for rows of other columns
	}
	f := s.Fence.(*cudaFence)
	if err := m.columns.Record(f.ready); err != nil {
		return err
	}
	f.filled, f.counted, f.wasRead = true, false, false
	return nil
}

// Refuses says why a sampler does not run on devices; nil where it does.
func Refuses(of sampling.Sampler) error {
	if k, is := of.(sampling.Sequence); is {
		of = k.Of
	}
	if _, ok := of.(sampling.DeviceSampler); !ok {
		return fmt.Errorf("the sampler %T runs on the CPU alone", of)
	}
	return nil
}
