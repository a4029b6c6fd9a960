package gather

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// ErrRange is returned for an id that is not a row of the column.
var ErrRange = errors.New("row out of range")

// MaxRowBytes is above the widest row in bytes: far beyond any feature, and small enough for kernels to count in int.
const MaxRowBytes = 1 << 30

// Store gathers rows of one column. It is read-only, owns no memory, and is safe for concurrent use as long as the
// column is valid.
type Store struct {
	column   unified.Tensor
	rowBytes int64
	shape    [unified.MaxRank]int64 // of the result but for the first dimension, which is a batch's
	wide     *widening              // how rows are delivered as other numbers; nil: as they are stored
}

// NewStore returns a store of a column [n, ...] in host memory. unified.ErrShape for the zero Tensor, a tensor that the
// host cannot read, or one whose rows are empty or of 1 GiB or more.
func NewStore(column unified.Tensor) (*Store, error) {
	row := column.RowBytes()
	if !column.Valid() || column.Placement() == pinned.Device || row <= 0 || row >= MaxRowBytes {
		return nil, fmt.Errorf("%w: no rows can be gathered from %v", unified.ErrShape, column)
	}
	s := &Store{column: column, rowBytes: row}
	for i := 1; i < column.Rank(); i++ {
		s.shape[i] = column.Dim(i)
	}
	return s, nil
}

// Column returns the column.
func (s *Store) Column() unified.Tensor { return s.column }

// RowBytes returns the bytes of a row of the column.
func (s *Store) RowBytes() int64 { return s.rowBytes }

// Gather copies row ids[i] of the column to row i of dst, which grows as needed, and returns it as a tensor [len(ids),
// ...] over dst. ids are int32 or int64 [m], in any order, repeats allowed; ErrRange names the first that is not a row.
// GatherInto says when to use more than one goroutine.
//
// Cost: a pass over ids to check them, then one copy a row. One goroutine allocates nothing once dst is large enough.
func (s *Store) Gather(dst *unified.Buffer, ids unified.Tensor, goroutines int) (unified.Tensor, error) {
	m, row := ids.Len(), s.OutBytes()
	if m > (1<<62)/row {
		return unified.Tensor{}, fmt.Errorf("%w: ids are %v", unified.ErrShape, ids)
	}
	room, err := unified.Grow[uint8](dst, m*row, 0)
	if err != nil {
		return unified.Tensor{}, err
	}
	if err := s.GatherInto(room[:m*row], ids, goroutines); err != nil {
		return unified.Tensor{}, err
	}
	return s.Over(dst, m)
}

// GatherInto is Gather for memory of the caller, with OutBytes for each id. Up to goroutines goroutines copy rows, each
// of them adjacent ones. Use more than one for a reader that one core cannot keep busy, such as a copy engine; a fault
// in a mapped column is then pinned.ErrFault.
func (s *Store) GatherInto(dst []byte, ids unified.Tensor, goroutines int) error {
	m := ids.Len()
	if m > 0 && (ids.Rank() != 1 || int64(len(dst)) != m*s.OutBytes()) {
		return fmt.Errorf("%w: ids are %v, for %d bytes", unified.ErrShape, ids, len(dst))
	}
	if m == 0 {
		return nil
	}
	if parts := min(int64(goroutines), int64(len(dst))/leastPart); parts > 1 {
		return s.copyParts(dst, ids, parts)
	}
	return s.copyRows(dst, ids)
}

// Over returns the first m rows of dst, whose memory must be there, as rows that Gather delivers.
func (s *Store) Over(dst *unified.Buffer, m int64) (unified.Tensor, error) {
	shape := s.shape
	shape[0] = m
	return dst.Tensor(s.DType(), shape[:s.rank()]...)
}

// Rows appends ids, int32 or int64, to list; ErrRange names the first that is not a row. The column must have less than
// 2^32 rows.
func (s *Store) Rows(list []uint32, ids unified.Tensor) ([]uint32, error) {
	if ids.DType() == unified.Int32 {
		return appendRows(s, list, ids, rangeOK32)
	}
	return appendRows(s, list, ids, rangeOK64)
}

func appendRows[I rowID](s *Store, list []uint32, ids unified.Tensor, inRange func([]I, int64) bool) ([]uint32,
	error) {
	if ids.Len() == 0 {
		return list, nil
	}
	v, err := unified.View[I](ids)
	if err != nil {
		return list, err
	}
	if n := s.column.Len(); !inRange(v, n) {
		return list, rangeError(v, n)
	}
	list = slices.Grow(list, len(v))
	for _, id := range v {
		list = append(list, uint32(id))
	}
	return list, nil
}

func (s *Store) copyRows(dst []byte, ids unified.Tensor) error {
	if ids.DType() == unified.Int32 {
		return copyChecked(s, dst, ids, rangeOK32)
	}
	return copyChecked(s, dst, ids, rangeOK64)
}

func copyChecked[I rowID](s *Store, dst []byte, ids unified.Tensor, inRange func([]I, int64) bool) error {
	v, err := unified.View[I](ids)
	if err != nil {
		return err
	}
	if n := s.column.Len(); !inRange(v, n) {
		return rangeError(v, n)
	}
	if s.wide != nil {
		widenRows(s, dst, v)
	} else {
		copyRows(best, dst, s.column.Bytes(), v, int(s.rowBytes))
	}
	return nil
}

func rangeError[I rowID](ids []I, n int64) error {
	for i, id := range ids {
		if id < 0 || int64(id) >= n {
			return fmt.Errorf("%w: ids[%d] is %d, but the column has %d rows", ErrRange, i, id, n)
		}
	}
	return fmt.Errorf("%w: of %d rows", ErrRange, n)
}

// Resident copies a tensor in host memory (a mapped file) into memory, with all cores, on huge pages if it is large
// enough to profit. memory says how to take and count the memory. progress, unless it is nil, receives the number of
// bytes done, from one goroutine at a time. The copy has the same dtype, shape and contents. The original is then no
// longer needed. The caller closes the region; the copy must not be used after that.
//
// If ctx ends, the error is context.Cause(ctx), and no memory stays allocated. For a file that was cut short it is
// pinned.ErrFault.
func Resident(ctx context.Context, t unified.Tensor, memory pinned.Options, progress func(done int64)) (unified.Tensor,
	*pinned.Region, error) {
	region, err := pinned.Allocate(int64(len(t.Bytes())), memory)
	if err != nil {
		return unified.Tensor{}, nil, err
	}
	if err := pinned.Copy(ctx, region.Bytes(), t.Bytes(), progress); err != nil {
		return unified.Tensor{}, nil, errors.Join(err, region.Close())
	}
	c, err := unified.New(t.DType(), region.Bytes(), t.Shape()...)
	if err != nil {
		return unified.Tensor{}, nil, errors.Join(err, region.Close())
	}
	return c, region, nil
}
