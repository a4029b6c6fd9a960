package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/khop-gnn/khop/unified"
)

// Descr returns NumPy's name of an element type; "" for bfloat16, for which it has none.
func Descr(t unified.DType) string {
	kind := map[unified.DType]string{unified.Int8: "|i1", unified.Uint8: "|u1", unified.Int16: "<i2",
		unified.Uint16: "<u2", unified.Int32: "<i4", unified.Uint32: "<u4", unified.Int64: "<i8", unified.Uint64: "<u8",
		unified.Float16: "<f2", unified.Float32: "<f4", unified.Float64: "<f8"}
	return kind[t]
}

// WriteHeader writes what stands before the elements of an array in row-major order, in version 1 of the format, or 2
// where it is long. The shape of a scalar is nil.
func WriteHeader(w io.Writer, descr string, shape []int64) error {
	var dims strings.Builder
	for _, d := range shape {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	tuple := strings.TrimSuffix(dims.String(), " ")
	if len(shape) > 1 {
		tuple = strings.TrimSuffix(tuple, ",")
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	head := []byte(magic + "\x01\x00")
	if len(text) > 1<<15 {
		return fmt.Errorf("an array of %d dimensions", len(shape))
	}
	text += strings.Repeat(" ", 63-(len(head)+2+len(text))%64) + "\n"
	head = binary.LittleEndian.AppendUint16(head, uint16(len(text)))
	_, err := w.Write(append(head, text...))
	return err
}
