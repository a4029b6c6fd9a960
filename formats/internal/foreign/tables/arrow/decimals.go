package arrow

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
)

// arrowDecimals appends decimals lo up to hi of Arrow: as the nearest numbers of float64, missing ones as NaN.
func arrowDecimals(a arrow.Array, scale int32, lo, hi int64) ([]byte, error) {
	data := a.Data()
	size := int64(data.DataType().(arrow.FixedWidthDataType).BitWidth() / 8)
	if hi > lo && (len(data.Buffers()) < 2 || data.Buffers()[1] == nil) {
		return nil, fmt.Errorf("%w: decimals without data", guard.ErrFormat)
	}
	unit, out, value := math.Pow10(int(scale)), make([]byte, 0, 8*(hi-lo)), make([]byte, size)
	for i := lo; i < hi; i++ {
		x := math.NaN()
		if a.IsValid(int(i)) {
			from := size * (int64(data.Offset()) + i)
			copy(value, data.Buffers()[1].Bytes()[from:from+size])
			slices.Reverse(value)
			x = columnar.BigEndian(value) / unit
		}
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
	}
	return out, nil
}
