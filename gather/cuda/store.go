package cuda

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Store gathers rows of one column on a CUDA device. Its kernels read the column in place: in device memory, or
// in host memory over the bus. Any number of goroutines may use it, each with a stream of its own. But during Cache,
// CountUses, Uses and Close no other call may run, and all streams must have passed the enqueued gathers.
//
// It owns some hundred bytes on the device, and the memory of Cache and CountUses. The column and the device stay the
// caller's; close them after the store.
type Store struct {
	// MaxBlocks is the most blocks of 256 threads that a kernel may have, which bounds the multiprocessors that
	// gathering occupies. 0 means enough to keep a bus busy; for a column in device memory, eight for each
	// multiprocessor. Set it before the first Enqueue.
	MaxBlocks int
	// CacheShare is the expected share of rows from the cache, 0 to 1. The fewer loads go over the bus, the more blocks
	// a kernel gets, so that the bus stays busy. Set it before the first Enqueue.
	CacheShare float64

	device   *device.Device
	column   unified.Tensor
	addr     device.Address
	onDevice bool // the column lies in device memory
	rowBytes int64
	kernels  *rowsKernels
	own      *device.Stream // for what is not part of a batch
	words    *pinned.Region // on the device: Column.words of rows.cuh, for batches and for filling the cache
	fault    *pinned.Region // in page-locked memory: Column.fault
	cache    cache
	uses     *pinned.Region // nil: not counted
	wide     *deviceWide    // how rows are delivered as other numbers; nil: as they are stored
}

// sharedKernels are the kernels of this package. All stores of a device share them.
var sharedKernels device.PerDevice[*rowsKernels]

const (
	blockThreads = 256
	// 10,240 threads: with 4 loads of a thread under way they cover a bus's latency several times over
	busBlocks  = 40
	smBlocks   = 8
	wordsBytes = 64 // four words for batches, and from the half on four for the cache
	faultBytes = 24
)

// NewStore returns a store of a column [n, ...] whose bytes the device addresses at addr, the address of
// pinned.Attach or pinned.Upload. The host does not read them. Close the store before the column and the device are
// closed.
//
// unified.ErrShape for the zero Tensor, for a tensor whose rows are empty or of 1 GiB or more, or an address that is
// not aligned to the elements; device.ErrNoDevice for no device; errors of the driver.
func NewStore(dev *device.Device, column unified.Tensor, addr device.Address) (*Store, error) {
	if dev == nil {
		return nil, device.ErrNoDevice
	}
	row := column.RowBytes()
	if !column.Valid() || row <= 0 || row >= gather.MaxRowBytes {
		return nil, fmt.Errorf("%w: no rows can be gathered from %v", unified.ErrShape, column)
	}
	if uint64(addr)%uint64(column.DType().Size()) != 0 || addr == 0 && column.Len() > 0 {
		return nil, fmt.Errorf("%w: %v at address %#x", unified.ErrShape, column, uint64(addr))
	}
	s := &Store{device: dev, column: column, addr: addr, rowBytes: row}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open() (err error) {
	if s.addr != 0 {
		at, err := s.device.Pointer(s.addr)
		if err != nil {
			return err
		}
		s.onDevice = at.OnDevice && !at.Managed
	}
	if s.kernels, err = sharedKernels.Hold(s.device, loadRowsKernels); err != nil {
		return err
	}
	if s.own, err = s.device.NewStream(); err != nil {
		return err
	}
	if s.words, err = pinned.Allocate(wordsBytes, pinned.Options{Device: s.device}); err != nil {
		return err
	}
	if s.fault, err = pinned.Allocate(faultBytes, pinned.Options{Device: s.device, Place: pinned.Pinned}); err != nil {
		return err
	}
	if err := s.own.Fill32(s.words.Address(), 0, wordsBytes/4); err != nil {
		return err
	}
	return s.own.Synchronize()
}

// TryKernels loads this package's kernels on a device, as the first gather does, and unloads them. It returns the
// module's device.Module.Code.
func TryKernels(d *device.Device) (code string, err error) {
	k, err := loadRowsKernels(d)
	if err != nil {
		return "", err
	}
	return k.Code(), k.Close()
}

// Enqueue puts a gather on the stream: row ids[i] of the column is copied to row i of dst. It returns dst as a tensor
// [len(ids), ...], which has the rows when the stream has passed the gather. The host does not wait, unless dst has to
// grow: then it waits for the device.
//
// ids are int32 or int64 [m] in memory that the device addresses, as is dst's; in any order, repeats allowed. An id
// that is not a row is left out, and Err reports it. unified.ErrShape for other ids, pinned.ErrPlacement for a dst of
// host memory, else errors of the driver and of the memory's Ledger.
func (s *Store) Enqueue(stream *device.Stream, dst *unified.Buffer, ids unified.Tensor) (unified.Tensor, error) {
	m := ids.Len()
	_, row := s.out()
	if m > (1<<61)/row {
		return unified.Tensor{}, fmt.Errorf("%w: ids are %v", unified.ErrShape, ids)
	}
	if err := dst.Grow(m*row, 0); err != nil {
		return unified.Tensor{}, err
	}
	out, err := s.over(dst, m)
	if err != nil {
		return unified.Tensor{}, err
	}
	return out, s.EnqueueInto(stream, out, ids, 0)
}

// out returns what is delivered of a row: the type of its elements, and bytes.
func (s *Store) out() (unified.DType, int64) {
	if s.wide != nil {
		return s.wide.as.DType(), s.wide.as.OutBytes()
	}
	return s.column.DType(), s.rowBytes
}

// over returns the first m rows of dst as rows that are delivered.
func (s *Store) over(dst *unified.Buffer, m int64) (unified.Tensor, error) {
	if s.wide != nil {
		return s.wide.as.Over(dst, m)
	}
	shape := [unified.MaxRank]int64{m}
	for i := 1; i < s.column.Rank(); i++ {
		shape[i] = s.column.Dim(i)
	}
	return dst.Tensor(s.column.DType(), shape[:s.column.Rank()]...)
}

// EnqueueInto is Enqueue for memory of the caller: out is a tensor [m, ...] of the dtype and row shape that the
// store delivers, aligned to the elements. count, if not 0, is the address of an int64 that the device reads when the
// gather runs: the number of valid ids. Rows of out from there on are not written.
func (s *Store) EnqueueInto(stream *device.Stream, out, ids unified.Tensor, count device.Address) error {
	m := ids.Len()
	if m == 0 {
		return nil
	}
	if t := ids.DType(); ids.Rank() != 1 || t != unified.Int32 && t != unified.Int64 || ids.Address() == 0 {
		return fmt.Errorf("%w: ids are %v, not integers in memory of the device", unified.ErrShape, ids)
	}
	if dtype, row := s.out(); out.DType() != dtype || out.Len() != m || out.RowBytes() != row {
		return fmt.Errorf("%w: rows of %v for %d ids are not %v", unified.ErrShape, s.column, m, out)
	}
	if out.Address() == 0 {
		return fmt.Errorf("gather to %v: %w", out, pinned.ErrPlacement)
	}
	c := deviceColumn{base: s.addr, n: s.column.Len(), words: s.words.Address(), where: s.cache.where, hot: s.cache.hot,
		peers: s.cache.bases}
	if s.uses != nil {
		c.uses = s.uses.Address()
	}
	list := deviceIds{ids: ids.Address(), idBytes: ids.DType().Size(), room: m, count: count}
	if s.wide != nil {
		return s.widen(stream, out.Address(), c, list)
	}
	return s.gather(stream, out.Address(), c, list)
}

// gather puts the kernel on the stream that copies rows of a column, as rows.cuh describes it, to dst.
func (s *Store) gather(stream *device.Stream, dst device.Address, c deviceColumn, ids deviceIds) error {
	c.bytes, c.fault = s.rowBytes, s.fault.Address()
	unit := alignment(c.base, c.hot, dst, device.Address(s.rowBytes))
	g := deviceGather{dst: dst, unit: unit, shift: groupShift(s.rowBytes, unit), column: c, ids: ids}
	run := s.kernels.gatherRows
	if unit < 4 {
		run = s.kernels.gatherRowsRagged
	}
	return run.Launch(stream, s.grid(ids.room, 1<<g.shift), blockThreads, 0, g)
}

// grid returns how many blocks copy n rows with that many lanes each, within bounds.
func (s *Store) grid(n, lanes int64) int {
	most := int64(s.MaxBlocks)
	if most <= 0 {
		most = int64(s.device.SMs()) * smBlocks
		if !s.onDevice && !s.cache.whole() {
			most = gridOverBus(s.CacheShare, most)
		}
	}
	each := blockThreads / lanes
	return int(min(max(most, 1), (n-1)/each+1, 1<<31-1))
}

// gridOverBus returns how many blocks keep a bus as busy as busBlocks do, if a share of the rows is not read over it.
func gridOverBus(cached float64, most int64) int64 {
	blocks := busBlocks / max(1-cached, 1.0/1024)
	return max(busBlocks, min(most, int64(blocks)))
}

// alignment returns the greatest of 1, 2, 4, 8 and 16 that divides all of the numbers; 0 is divided by each.
func alignment(numbers ...device.Address) int64 {
	all := uint64(16)
	for _, n := range numbers {
		all |= uint64(n)
	}
	return int64(all & -all)
}

// groupShift returns the logarithm of how many lanes copy a row: as many as the row has pieces, rounded up to a power
// of two, but no more than a warp. See rows.cu for pieces.
func groupShift(rowBytes, unit int64) int64 {
	pieces := rowBytes / unit
	if unit < 4 {
		pieces = (rowBytes + 6) / 4 // words, of which the first and the last may be parts
	}
	return int64(min(bits.Len64(uint64(pieces-1)), 5))
}

// Err returns a gather.ErrRange that names an id which is not a row, and its position, if a gather that has run had
// one. Later calls return it too. The rows of such a batch are undefined.
func (s *Store) Err() error {
	b := s.fault.Bytes()
	words := (*[3]int64)(unsafe.Pointer(unsafe.SliceData(b)))
	if atomic.LoadInt64(&words[0]) == 0 {
		return nil
	}
	return fmt.Errorf("%w: ids[%d] is %d, but the column has %d rows", gather.ErrRange, words[1], words[2],
		s.column.Len())
}

// Close frees the store's memory. No gather may be running. A second Close does nothing.
func (s *Store) Close() error {
	errs := []error{s.cache.close(), s.uses.Close(), s.words.Close(), s.fault.Close(), s.own.Close()}
	if s.kernels != nil {
		errs = append(errs, sharedKernels.LetGo(s.device))
		s.kernels = nil
	}
	if s.wide != nil {
		errs = append(errs, widenKernelsOf.LetGo(s.device))
		s.wide = nil
	}
	return errors.Join(errs...)
}
