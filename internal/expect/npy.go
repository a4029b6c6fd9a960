package expect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
)

// NPY returns the .npy file that NumPy would write for a slice of numbers, in version 1 of the format
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). The shape is that of a matrix; without one
// it is a vector.
func NPY(v any, shape ...int) []byte {
	x := reflect.ValueOf(v)
	tuple := fmt.Sprintf("%d,", x.Len())
	if len(shape) > 1 {
		tuple = strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]")
	}
	kind := "u"
	switch x.Type().Elem().Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		kind = "i"
	case reflect.Bool:
		kind = "b"
	case reflect.Float32, reflect.Float64:
		kind = "f"
	}
	header := fmt.Sprintf("{'descr': '<%s%d', 'fortran_order': False, 'shape': (%s), }", kind, x.Type().Elem().Size(),
		tuple)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	b := bytes.NewBufferString("\x93NUMPY\x01\x00")
	_ = binary.Write(b, binary.LittleEndian, uint16(len(header)))
	b.WriteString(header)
	if err := binary.Write(b, binary.LittleEndian, v); err != nil {
		panic(err)
	}
	return b.Bytes()
}
