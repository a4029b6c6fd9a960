package tables

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// decimalOf returns what reads a decimal of a column: as the nearest number of float64.
func decimalOf(c *schema.Column) func(value []byte) float64 {
	_, scale := precisionOf(c.LogicalType())
	unit := math.Pow10(scale)
	switch c.PhysicalType() {
	case parquet.Types.Int32:
		return func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) / unit }
	case parquet.Types.Int64:
		return func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) / unit }
	}
	return func(b []byte) float64 { return bigEndian(b) / unit }
}

// precisionOf returns how many digits the decimals of a column have at most, and how many of them are fractions.
func precisionOf(logical schema.LogicalType) (digits, scale int) {
	switch t := logical.(type) {
	case schema.DecimalLogicalType:
		return int(t.Precision()), int(t.Scale())
	case *schema.DecimalLogicalType:
		return int(t.Precision()), int(t.Scale())
	}
	return 0, 0
}

// exactDigits is how many digits of any decimal float64 tells apart.
const exactDigits = 15

// ofDecimals makes the field one of decimals, of which those of many digits are rounded.
func (f *field) ofDecimals(digits, scale int) {
	if digits > exactDigits {
		f.wide = math.Pow10(scale)
	}
}

// arrowDecimals appends decimals lo up to hi of Arrow: as the nearest numbers of float64, missing ones as NaN.
func arrowDecimals(a arrow.Array, scale int32, lo, hi int64) ([]byte, error) {
	data := a.Data()
	size := int64(data.DataType().(arrow.FixedWidthDataType).BitWidth() / 8)
	if hi > lo && (len(data.Buffers()) < 2 || data.Buffers()[1] == nil) {
		return nil, fmt.Errorf("%w: decimals without data", ErrFormat)
	}
	unit, out, value := math.Pow10(int(scale)), make([]byte, 0, 8*(hi-lo)), make([]byte, size)
	for i := lo; i < hi; i++ {
		x := math.NaN()
		if a.IsValid(int(i)) {
			from := size * (int64(data.Offset()) + i)
			copy(value, data.Buffers()[1].Bytes()[from:from+size])
			slices.Reverse(value)
			x = bigEndian(value) / unit
		}
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
	}
	return out, nil
}

// bigEndian returns the integer in two's complement that bytes are, exactly where 53 bits hold it.
func bigEndian(b []byte) float64 {
	if len(b) == 0 {
		return 0
	}
	x := float64(int8(b[0]))
	for _, c := range b[1:] {
		x = x*256 + float64(c)
	}
	return x
}
