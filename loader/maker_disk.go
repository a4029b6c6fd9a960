package loader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/khop-gnn/khop/unified"
)

// diskMaker makes batches in host memory, with rows of columns on disk. What a batch asks for is planned before it is
// sampled, so the disk reads while the sampler works.
type diskMaker struct {
	*cpuMaker
	ahead *ahead
	rows  []uint32      // as the sample has them
	spent time.Duration // on columns that are not on disk
}

func (m *diskMaker) sample(ctx context.Context, s *slot) error {
	if s.turn > 0 { // not on trial
		b, err := m.ahead.claim(ctx, s.turn-1)
		if err != nil {
			return err
		}
		s.reads = b.reads
		for k, c := range m.ahead.columns {
			if err := c.start(s, b, k); err != nil {
				return err
			}
		}
	}
	return m.cpuMaker.sample(ctx, s)
}

func (m *diskMaker) fetch(s *slot) error {
	begin := time.Now()
	defer func() { m.spent = time.Since(begin) }()
	return s.fetchRows(diskCopier{m, s})
}

// diskCopier copies rows of columns that are not on disk; of the others it makes sure that the right ones are read.
type diskCopier struct {
	m *diskMaker
	s *slot
}

func (d diskCopier) copyRows(i int, to *unified.Buffer, ids unified.Tensor) (unified.Tensor, error) {
	m := d.m
	k, part := m.ahead.find(i)
	if k < 0 {
		return m.cpuMaker.copyRows(i, to, ids)
	}
	column := m.columns[i]
	if err := column.verified.check(ids); err != nil {
		return unified.Tensor{}, err
	}
	var err error
	if m.rows, err = column.store.Rows(m.rows[:0], ids); err != nil {
		return unified.Tensor{}, err
	}
	if !slices.Equal(m.rows, d.s.reads[k].Asked(part)) {
		return unified.Tensor{}, fmt.Errorf("%w: it gave other nodes or edges the second time that it made this "+
			"batch: columns on disk need a sampler whose batches follow from the request alone", ErrSampler)
	}
	return column.store.Over(to, ids.Len())
}

func (m *diskMaker) finish(ctx context.Context, s *slot) error {
	begin, waited := time.Now(), time.Duration(0)
	for _, b := range s.reads {
		w, err := b.Finish(ctx)
		if waited += w; err != nil {
			m.stats.disk.add(waited)
			return err
		}
	}
	s.reads = nil
	m.ahead.finished()
	m.stats.disk.add(waited)
	m.stats.gather.add(m.spent + time.Since(begin) - waited)
	return nil
}
