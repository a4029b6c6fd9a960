package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// cache is a copy of some rows of a column in device memory.
type cache struct {
	rows              int64
	table, mem, peers *pinned.Region
	where, hot        device.Address // of table and mem; no table where all rows are held
	bases             device.Address // of peers, once the table names rows that other devices hold
}

// whole reports whether the cache holds all rows.
func (c *cache) whole() bool { return c.hot != 0 && c.where == 0 }

func (c *cache) close() error {
	err := errors.Join(c.table.Close(), c.mem.Close(), c.peers.Close())
	*c = cache{}
	return err
}

const (
	entryBytes = 4       // of the table, for each row of the column
	slackBytes = 16      // behind the last row: kernels read whole words
	spareBytes = 2 << 10 // what allocations take beyond that
	fillRows   = 1 << 16 // rows to copy between two looks at the context

	// Entries of the table, see rows.cuh.
	maxSlots  = 1 << 30
	inCache   = 1 << 30
	peerShift = 27
)

// CacheRows returns how many rows of a column a cache of budget bytes holds: all, if they fit; else those that fit in
// addition to a table of 4 bytes for each row of the column. It leaves 2 KiB for the rounding of allocations.
func CacheRows(column unified.Tensor, budget int64) int64 {
	n, row := column.Len(), column.RowBytes()
	budget = max(budget, spareBytes) - spareBytes
	if row <= 0 {
		return 0
	}
	if n <= budget/row {
		return n
	}
	return min(max((budget-n*entryBytes)/row, 0), maxSlots)
}

// Cache copies rows of the column to device memory, for later gathers; it replaces an earlier cache. Gathered rows stay
// the same. hot are the rows, ascending without repeats (see Hottest); nil, or a list of all rows, caches the whole
// column. A list without rows, or a column in device memory, gives no cache.
//
// memory says how to count the bytes; CacheRows says how many rows fit. Cache returns when the copy is complete. After
// an error, or if ctx ends, the store works without a cache.
func (s *Store) Cache(ctx context.Context, hot []int64, memory pinned.Options) error {
	if err := s.cache.close(); err != nil {
		return err
	}
	n := s.column.Len()
	rows := int64(len(hot))
	if hot == nil {
		rows = n
	}
	if s.onDevice || rows == 0 {
		return nil
	}
	if err := checkHot(hot, n); err != nil {
		return err
	}
	if rows > maxSlots && rows < n {
		return fmt.Errorf("cache: %w: %d rows, at most %d", unified.ErrShape, rows, maxSlots)
	}
	return s.fill(ctx, hot, rows, rows < n, memory)
}

// checkHot refuses rows that do not ascend, or that are not in [0, n).
func checkHot(hot []int64, n int64) error {
	for i, id := range hot {
		if id < 0 || id >= n {
			return fmt.Errorf("cache: %w: row %d of %d", gather.ErrRange, id, n)
		}
		if i > 0 && id <= hot[i-1] {
			return fmt.Errorf("cache: %w: rows must ascend, but %d comes after %d", gather.ErrRange, id, hot[i-1])
		}
	}
	return nil
}

// Cached returns how many rows the cache holds.
func (s *Store) Cached() int64 { return s.cache.rows }

// fill makes a cache of hot rows, or of all (nil) in order. With a table they may come in any order, and may be fewer
// than the column has.
func (s *Store) fill(ctx context.Context, hot []int64, rows int64, table bool, memory pinned.Options) error {
	memory.Device, memory.Place = s.device, pinned.Host // device memory
	n, c := s.column.Len(), cache{rows: rows}
	made := func() (err error) {
		if c.mem, err = pinned.Allocate(rows*s.rowBytes+slackBytes, memory); err != nil {
			return err
		}
		c.hot = c.mem.Address()
		if table {
			if c.table, err = pinned.Allocate(n*entryBytes, memory); err != nil {
				return err
			}
			c.where = c.table.Address()
			if err = s.own.Fill32(c.where, 0, n); err != nil {
				return err
			}
		}
		return s.inParts(ctx, hot, rows, memory.Ledger, func(ids unified.Tensor, lo int64) error {
			from := deviceColumn{base: s.addr, n: n, words: s.words.Address() + wordsBytes/2}
			list := deviceIds{ids: ids.Address(), idBytes: ids.DType().Size(), room: ids.Len()}
			err := s.gather(s.own, c.hot+device.Address(lo*s.rowBytes), from, list)
			if err != nil || !table {
				return err
			}
			return s.mark(ids, deviceMark{first: lo, where: c.where, place: inCache})
		})
	}
	if err := made(); err != nil {
		return fmt.Errorf("cache %d rows: %w", rows, errors.Join(err, c.close()))
	}
	s.cache = c
	return nil
}

// mark enters rows into a table.
func (s *Store) mark(ids unified.Tensor, m deviceMark) error {
	m.ids, m.length = ids.Address(), ids.Len()
	return s.kernels.cacheMark.Launch(s.own, s.grid(m.length, 1), blockThreads, 0, m)
}

// inParts does something with a list of rows, nil for all, some at a time, and waits for each: the list is in host
// memory, so that filling a cache takes no more device memory than the cache.
func (s *Store) inParts(ctx context.Context, hot []int64, rows int64, ledger *pinned.Ledger,
	do func(ids unified.Tensor, lo int64) error) (err error) {
	list, err := pinned.Allocate(8*min(rows, fillRows), pinned.Options{Device: s.device, Place: pinned.Pinned,
		Ledger: ledger, Purpose: pinned.Scratch})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.own.Synchronize(), list.Close()) }()
	whole, err := unified.NewPlaced(pinned.Pinned, unified.Int64, list.Bytes(), min(rows, fillRows))
	if err != nil {
		return err
	}
	view, err := unified.View[int64](whole)
	if err != nil {
		return err
	}
	for lo := int64(0); lo < rows; lo += fillRows {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(fillRows, rows-lo)
		for i := range n {
			view[i] = lo + i
		}
		if hot != nil {
			copy(view, hot[lo:lo+n])
		}
		ids, err := whole.Rows(0, n)
		if err != nil {
			return err
		}
		if err := do(ids, lo); err != nil {
			return err
		}
		if err := s.own.Synchronize(); err != nil { // then the list may be written again
			return err
		}
	}
	return nil
}

// Traffic counts what a store has gathered.
type Traffic struct {
	Rows  int64 // that were gathered
	Hits  int64 // of them, rows that came out of the cache
	Peers int64 // of them, rows that came out of caches of other devices (ShareCaches)
	Bytes int64 // of all rows
	Saved int64 // of them, bytes that were not read from the column itself
}

// Traffic returns the traffic since the store was made. The device counts it; a call costs a copy. All streams must
// have passed the enqueued gathers: call it at the end of an epoch.
func (s *Store) Traffic() (Traffic, error) {
	var words [4]uint64
	if err := s.read(unified.FromSlice(words[:]).Bytes(), s.words.Address()); err != nil {
		return Traffic{}, err
	}
	t := Traffic{Rows: int64(words[1]), Hits: int64(words[2]), Peers: int64(words[3])}
	t.Bytes, t.Saved = t.Rows*s.rowBytes, (t.Hits+t.Peers)*s.rowBytes
	return t, nil
}

// CountUses begins to count how often each row is gathered. It takes 4 bytes of device memory a row; memory says how to
// count them.
func (s *Store) CountUses(memory pinned.Options) error {
	if s.uses != nil || s.column.Len() == 0 {
		return nil
	}
	memory.Device, memory.Place = s.device, pinned.Host
	uses, err := pinned.Allocate(s.column.Len()*4, memory)
	if err != nil {
		return err
	}
	s.uses = uses
	return s.resetUses()
}

// Uses returns how often each row was gathered since CountUses or the last Uses, as scores for Hottest, and resets the
// counts; nil without CountUses.
func (s *Store) Uses() ([]uint32, error) {
	if s.uses == nil {
		return nil, nil
	}
	counts := make([]uint32, s.column.Len())
	if err := s.read(unified.FromSlice(counts).Bytes(), s.uses.Address()); err != nil {
		return nil, err
	}
	return counts, s.resetUses()
}

func (s *Store) resetUses() error {
	if err := s.own.Fill32(s.uses.Address(), 0, s.column.Len()); err != nil {
		return err
	}
	return s.own.Synchronize()
}

// read copies from the device to memory of the Go heap and waits. That is pinned meanwhile, since the driver may not be
// done with it when the call returns.
func (s *Store) read(to []byte, from device.Address) error {
	var pinner runtime.Pinner
	pinner.Pin(unsafe.SliceData(to))
	defer pinner.Unpin()
	if err := s.own.CopyToHost(to, from); err != nil {
		return err
	}
	return s.own.Synchronize()
}
