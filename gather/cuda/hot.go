package cuda

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// HotRows keeps some rows of a column in device memory, for a column that neither device nor host reads in place. The
// other rows of a batch arrive one after another in host memory that the device addresses, and a kernel merges both.
// Any number of goroutines may use it, each with a stream of its own.
type HotRows struct {
	Most  int64  // rows that may arrive for a batch; fixed
	store *Store // of the rows that are kept, in order
	index rowIndex
	table *pinned.Region // on the device: Column.where of rows.cuh, the rows that are kept before those that arrive
	mem   *pinned.Region
	took  func() // gives back what the index was counted as; nil: it was not
}

// HotRowsOptions say which rows NewHotRows keeps.
type HotRowsOptions struct {
	Column unified.Tensor // is not read
	Rows   []int64        // ascending, without repeats; at least one
	// Most is the most rows that arrive for a batch.
	Most int64
	// Read reads rows of the column, ascending, to memory of the host.
	Read func(ctx context.Context, rows []int64, to []byte) error
	// Memory says how to count the bytes, including those of an index in host memory (HotIndexBytes).
	Memory pinned.Options
}

// HotRowsCount returns how many rows of a column fit into a budget of device memory.
func HotRowsCount(column unified.Tensor, most, budget int64) int64 {
	budget -= spareBytes + most*entryBytes
	return min(max(budget/(column.RowBytes()+entryBytes), 0), column.Len(), maxSlots-most)
}

// HotIndexBytes returns the host memory that HotRows takes for a column: a bit and a half a row.
func HotIndexBytes(rows int64) int64 { return (rows/64 + 1) * (8 + 4) }

// NewHotRows copies rows to device memory. Close it before the device. pinned.ErrLimit if there is no room for the
// index.
func NewHotRows(ctx context.Context, dev *device.Device, opt HotRowsOptions) (_ *HotRows, err error) {
	n := int64(len(opt.Rows))
	if err := checkHot(opt.Rows, opt.Column.Len()); err != nil {
		return nil, err
	}
	h := &HotRows{Most: opt.Most}
	if err := h.takeIndex(&opt); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	memory, row := opt.Memory, opt.Column.RowBytes()
	memory.Device, memory.Place = dev, pinned.Host // device memory
	if h.mem, err = pinned.Allocate(n*row+slackBytes, memory); err != nil {
		return nil, err
	}
	shape := opt.Column.Shape()
	shape[0] = n
	kept, err := unified.NewPlaced(pinned.Device, opt.Column.DType(), h.mem.Bytes()[:n*row], shape...)
	if err != nil {
		return nil, err
	}
	if h.store, err = NewStore(dev, kept, h.mem.Address()); err != nil {
		return nil, err
	}
	h.store.onDevice = false // most rows come over the bus
	if h.table, err = pinned.Allocate((n+opt.Most)*entryBytes, memory); err != nil {
		return nil, err
	}
	if err := h.store.own.Fill32(h.table.Address(), 0, n+opt.Most); err != nil {
		return nil, err
	}
	err = h.store.inParts(ctx, nil, n, opt.Memory.Ledger, func(ids unified.Tensor, lo int64) error {
		return h.store.mark(ids, deviceMark{first: lo, where: h.table.Address(), place: inCache})
	})
	if err != nil {
		return nil, err
	}
	return h, h.fill(ctx, &opt)
}

// takeIndex counts the memory of the index and makes it.
func (h *HotRows) takeIndex(opt *HotRowsOptions) error {
	rows, ledger, purpose := opt.Column.Len(), opt.Memory.Ledger, opt.Memory.Purpose
	n := HotIndexBytes(rows)
	if err := ledger.Take(purpose, n); err != nil {
		return fmt.Errorf("to find %d rows on the device among %d: %w", len(opt.Rows), rows, err)
	}
	h.took = func() { ledger.Give(purpose, n) }
	h.index = newRowIndex(rows, opt.Rows)
	return nil
}

// fill reads the rows and copies them to the device, some at a time.
func (h *HotRows) fill(ctx context.Context, opt *HotRowsOptions) (err error) {
	row := h.store.rowBytes
	part := max(min(int64(len(opt.Rows)), (4<<20)/row), 1)
	staging, err := pinned.Allocate(part*row, pinned.Options{Device: h.store.device, Place: pinned.Pinned,
		Ledger: opt.Memory.Ledger, Purpose: pinned.Scratch})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.store.own.Synchronize(), staging.Close()) }()
	for lo := int64(0); lo < int64(len(opt.Rows)); lo += part {
		rows := opt.Rows[lo:min(lo+part, int64(len(opt.Rows)))]
		to := staging.Bytes()[:int64(len(rows))*row]
		if err := opt.Read(ctx, rows, to); err != nil {
			return err
		}
		if err := h.store.own.CopyToDevice(h.mem.Address()+device.Address(lo*row), to); err != nil {
			return err
		}
		if err := h.store.own.Synchronize(); err != nil { // then the memory may be written again
			return err
		}
	}
	return nil
}

// Missing returns the rows of a list that are not kept; it overwrites the list. It writes to places, for Enqueue, where
// each row comes from. places is as long as rows, or nil.
func (h *HotRows) Missing(rows []uint32, places []int32) []uint32 {
	missing := rows[:0]
	for i, row := range rows {
		slot, ok := h.index.find(row)
		if !ok {
			slot = int32(h.store.column.Len()) + int32(len(missing))
			missing = append(missing, row)
		}
		if places != nil {
			places[i] = slot
		}
	}
	return missing
}

// Enqueue puts a gather on the stream: out gets the rows at places, which are in memory that the device addresses. They
// are kept rows, and rows that arrived at an address.
func (h *HotRows) Enqueue(stream *device.Stream, out, places unified.Tensor, arrived device.Address, rows int64) error {
	s, n := h.store, h.store.column.Len()
	if rows > h.Most || places.Len() != out.Len() || out.RowBytes() != s.rowBytes {
		return fmt.Errorf("%w: %v for %v and %d rows that arrived", unified.ErrShape, out, places, rows)
	}
	if out.Len() == 0 {
		return nil
	}
	base := arrived - device.Address(n*s.rowBytes)
	c := deviceColumn{base: base, n: n + rows, where: h.table.Address(), hot: s.addr, words: s.words.Address()}
	return s.gather(stream, out.Address(), c, deviceIds{ids: places.Address(), idBytes: 4, room: out.Len()})
}

// Traffic is Store.Traffic.
func (h *HotRows) Traffic() (Traffic, error) { return h.store.Traffic() }

// Close frees the rows. No gather may be running.
func (h *HotRows) Close() error {
	var err error
	if h.took != nil {
		h.took()
		h.took, h.index = nil, rowIndex{}
	}
	if h.store != nil {
		err = h.store.Close()
	}
	return errors.Join(err, h.table.Close(), h.mem.Close())
}

// rowIndex numbers some rows, ascending, in one and a half bits for each row of a column.
type rowIndex struct {
	bits   []uint64
	before []uint32 // bits that are set before a word
}

func newRowIndex(n int64, rows []int64) rowIndex {
	x := rowIndex{make([]uint64, n/64+1), make([]uint32, n/64+1)}
	for _, row := range rows {
		x.bits[row/64] |= 1 << (row % 64)
	}
	count := uint32(0)
	for i, w := range x.bits {
		x.before[i] = count
		count += uint32(bits.OnesCount64(w))
	}
	return x
}

func (x *rowIndex) find(row uint32) (number int32, ok bool) {
	w, bit := x.bits[row/64], uint64(1)<<(row%64)
	return int32(x.before[row/64]) + int32(bits.OnesCount64(w&(bit-1))), w&bit != 0
}
