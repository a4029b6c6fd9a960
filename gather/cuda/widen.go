package cuda

import (
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/unified"
)

// deviceWide says how a device delivers rows as other numbers.
type deviceWide struct {
	as       *gather.Store // whose rows these are
	kernels  *widenKernels
	width    int64 // numbers of a row
	scales   device.Address
	from, to int64 // of widen.cu
}

// widenKernelsOf are the kernels of widen.cu. All stores of a device share them.
var widenKernelsOf device.PerDevice[*widenKernels]

// Widen makes the store deliver the same rows as the gather.Store as, which has the same column: if as is Widened,
// widened to the same bits. scales is the device address of the scales of int8 rows, which stay the caller's; 0 for
// none. Call it once at most, before the first Enqueue. A cache holds rows as they are stored.
//
// unified.ErrShape for another column, or scales that are missing; errors of the driver.
func (s *Store) Widen(as *gather.Store, scales device.Address) (err error) {
	code, width, is := as.Wide()
	if !is {
		return nil
	}
	c, d := as.Column(), &deviceWide{as: as, width: width, scales: scales}
	switch from := c.DType(); {
	case code == "int4":
		d.from = 3
	case from == unified.Int8 && scales != 0:
		d.from = 2
	case from == unified.BFloat16:
		d.from = 1
	case from == unified.Float16:
	default:
		return fmt.Errorf("%w: a device does not widen %v", unified.ErrShape, c)
	}
	switch as.DType() {
	case unified.Float16:
		d.to = 1
	case unified.BFloat16:
		d.to = 2
	}
	if c.DType() != s.column.DType() || c.Len() != s.column.Len() || c.RowBytes() != s.rowBytes {
		return fmt.Errorf("%w: %v is not %v", unified.ErrShape, c, s.column)
	}
	if d.kernels, err = widenKernelsOf.Hold(s.device, loadWidenKernels); err != nil {
		return err
	}
	s.wide = d
	return nil
}

// widen puts the kernel on the stream that writes rows of a column as other numbers to dst.
func (s *Store) widen(stream *device.Stream, dst device.Address, c deviceColumn, ids deviceIds) error {
	c.bytes, c.fault = s.rowBytes, s.fault.Address()
	g := deviceGather{dst: dst, unit: 1, shift: groupShift(s.rowBytes, 1), column: c, ids: ids}
	return s.wide.kernels.gatherWiden.Launch(stream, s.grid(ids.room, 1<<g.shift), blockThreads, 0,
		deviceWiden{gather: g, width: s.wide.width, from: s.wide.from, to: s.wide.to,
			scales: s.wide.scales})
}
