package tables

import (
	"math"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// decimalOf returns what reads the decimals of a column: as the nearest numbers of float64.
func decimalOf(c *schema.Column) func(d *decoder, k int) float64 {
	scale := 0
	switch t := c.LogicalType().(type) {
	case schema.DecimalLogicalType:
		scale = int(t.Scale())
	case *schema.DecimalLogicalType:
		scale = int(t.Scale())
	}
	unit := math.Pow10(scale)
	switch c.PhysicalType() {
	case parquet.Types.Int32:
		return func(d *decoder, k int) float64 { return float64(d.i32[k]) / unit }
	case parquet.Types.Int64:
		return func(d *decoder, k int) float64 { return float64(d.i64[k]) / unit }
	case parquet.Types.ByteArray:
		return func(d *decoder, k int) float64 { return bigEndian(d.bytes[k]) / unit }
	}
	return func(d *decoder, k int) float64 { return bigEndian(d.fixed[k]) / unit }
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
