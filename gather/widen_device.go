package gather

import (
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/unified"
)

// deviceWide says how a device delivers rows as other numbers.
type deviceWide struct {
	as       *Store // whose rows these are
	kernels  *widenKernels
	scales   device.Address
	from, to int64 // of widen.cu
}

// widenKernelsOf are the kernels of widen.cu. All stores of a device share them.
var widenKernelsOf device.PerDevice[*widenKernels]

// Widen makes the store deliver the same rows as the Store as, which has the same column: if as is Widened, widened to
// the same bits. scales is the device address of the scales of int8 rows, which stay the caller's; 0 for none. Call it
// once at most, before the first Enqueue. A cache holds rows as they are stored.
//
// unified.ErrShape for another column, or scales that are missing; errors of the driver.
func (s *DeviceStore) Widen(as *Store, scales device.Address) (err error) {
	w := as.wide
	if w == nil {
		return nil
	}
	d := &deviceWide{as: as, scales: scales}
	switch {
	case w.code != nil && w.code.Name == "int4":
		d.from = 3
	case w.from == unified.Int8 && scales != 0:
		d.from = 2
	case w.from == unified.BFloat16:
		d.from = 1
	case w.from == unified.Float16:
	default:
		return fmt.Errorf("%w: a device does not widen %v", unified.ErrShape, as.column)
	}
	switch w.to {
	case unified.Float16:
		d.to = 1
	case unified.BFloat16:
		d.to = 2
	}
	if c := as.column; c.DType() != s.column.DType() || c.Len() != s.column.Len() || as.rowBytes != s.rowBytes {
		return fmt.Errorf("%w: %v is not %v", unified.ErrShape, c, s.column)
	}
	if d.kernels, err = widenKernelsOf.Hold(s.device, loadWidenKernels); err != nil {
		return err
	}
	s.wide = d
	return nil
}

// widen puts the kernel on the stream that writes rows of a column as other numbers to dst.
func (s *DeviceStore) widen(stream *device.Stream, dst device.Address, c deviceColumn, ids deviceIds) error {
	c.bytes, c.fault = s.rowBytes, s.fault.Address()
	g := deviceGather{dst: dst, unit: 1, shift: groupShift(s.rowBytes, 1), column: c, ids: ids}
	return s.wide.kernels.gatherWiden.Launch(stream, s.grid(ids.room, 1<<g.shift), blockThreads, 0,
		deviceWiden{gather: g, width: int64(s.wide.as.wide.width), from: s.wide.from, to: s.wide.to,
			scales: s.wide.scales})
}
