package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/unified"
)

// diskMaker makes batches with rows of columns on disk. What a batch asks for is planned before it is sampled, so the
// disk reads while the sampler works.
type diskMaker struct {
	lander
	columns []*column // [array]
	ahead   *ahead
	stats   *counters
	rows    []uint32      // as the sample has them
	spent   time.Duration // on columns that are not on disk
}

// lander is a maker of batches whose rows may come from disk: into host memory, from where it brings them to the slot.
type lander interface {
	maker
	rowCopier
	// fetchBy is fetch, with rows that from copies.
	fetchBy(s *slot, from rowCopier) error
	// landing returns the host memory for the rows of an array of the slot. clearLanding waits until all such memory
	// of the slot may be written.
	landing(s *slot, array int) *unified.Buffer
	clearLanding(s *slot) error
	// room returns the slot's own memory of an array, to, for so many rows.
	room(array int, to *unified.Buffer, rows int64) (unified.Tensor, error)
	// toHost returns ids where the host reads them, valid until the next call.
	toHost(s *slot, ids unified.Tensor) (unified.Tensor, error)
	// place notes where the rows of an array come from, and returns those that land.
	place(s *slot, array int, hot *gather.HotRows, rows []uint32) ([]uint32, error)
	// landed brings the rows of arrays, all of which have been read or are hot, to the slot's own memory.
	landed(s *slot, arrays []int, hot *gather.HotRows) error
}

func (m *diskMaker) sample(ctx context.Context, s *slot) error {
	if s.turn > 0 { // not on trial
		b, err := m.ahead.claim(ctx, s.turn-1)
		if err != nil {
			return err
		}
		s.reads = b.reads
		if err := m.clearLanding(s); err != nil {
			return err
		}
		for k, c := range m.ahead.columns {
			if err := c.start(m, s, b, k); err != nil {
				return err
			}
		}
	}
	return m.lander.sample(ctx, s)
}

func (m *diskMaker) fetch(s *slot) error {
	begin := time.Now()
	defer func() { m.spent = time.Since(begin) }()
	return m.fetchBy(s, diskCopier{m, s})
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
		return m.lander.copyRows(i, to, ids)
	}
	host, err := m.toHost(d.s, ids)
	if err != nil {
		return unified.Tensor{}, err
	}
	column := m.columns[i]
	if err := column.verified.check(host); err != nil {
		return unified.Tensor{}, err
	}
	if m.rows, err = column.store.Rows(m.rows[:0], host); err != nil {
		return unified.Tensor{}, err
	}
	if hot := m.ahead.columns[k].hot; hot != nil {
		if m.rows, err = m.place(d.s, i, hot, m.rows); err != nil {
			return unified.Tensor{}, err
		}
	}
	if !slices.Equal(m.rows, d.s.reads[k].Asked(part)) {
		return unified.Tensor{}, fmt.Errorf("%w: it gave other nodes or edges the second time that it made this "+
			"batch: columns on disk need a sampler whose batches follow from the request alone", ErrSampler)
	}
	return m.room(i, to, ids.Len())
}

func (m *diskMaker) finish(ctx context.Context, s *slot) error {
	begin := time.Now()
	waited, err := m.await(ctx, s)
	m.stats.disk.add(waited + s.awaited)
	if err != nil {
		return errors.Join(err, m.drain()) // nobody could wait for rows of other columns
	}
	m.ahead.finished()
	if _, ok := m.lander.(*cpuMaker); ok { // a device's fence times what is gathered
		m.stats.gather.add(m.spent + time.Since(begin) - waited)
	}
	return m.lander.finish(ctx, s)
}

// await waits until all rows have been read, and has them brought to the slot. It returns how long the disk took.
func (m *diskMaker) await(ctx context.Context, s *slot) (waited time.Duration, err error) {
	for _, b := range s.reads {
		w, err := b.Finish(ctx)
		if waited += w; err != nil {
			return waited, err
		}
	}
	s.reads = nil
	for _, c := range m.ahead.columns {
		if err := m.landed(s, c.arrays, c.hot); err != nil {
			return waited, err
		}
	}
	return waited, nil
}
