package parquet

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
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
	return func(b []byte) float64 { return columnar.BigEndian(b) / unit }
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
