// Package narrow has the codes of rows: ways to store the numbers of a row in fewer bytes than any type of numbers has.
//
// # Basics
//
// A column of coded rows is one of bytes, and its graph.Code says what they stand for. Of finds a code by name; Encode
// and Decode are its specification. A new code is a line in the table here, and perhaps a kernel in package gather.
//
// # Caveats
//
// Codes are part of the file format: docs/format.md has them, and none ever changes.
package narrow

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Code is a way to store rows of numbers.
type Code struct {
	Name  string
	Group int     // numbers that share a scale
	Bound float64 // of the difference to the number that was stored, by the greatest number of its group
	// RowBytes returns the bytes of a row of this number of numbers.
	RowBytes func(width int64) int64
	// Encode writes a row. It fails for numbers that are not finite.
	Encode func(to []byte, row []float32) error
	// Decode reads numbers at, at+1, ... of a row that has width of them.
	Decode func(to []float32, row []byte, width, at int)
}

var codes = []*Code{
	{Name: "int4", Group: group, Bound: 0.0725, RowBytes: int4Bytes, Encode: encodeInt4, Decode: decodeInt4},
}

// Of returns the code of a name; nil for none.
func Of(name string) *Code {
	if i := slices.IndexFunc(codes, func(c *Code) bool { return c.Name == name }); i >= 0 {
		return codes[i]
	}
	return nil
}

// group is how many numbers of a row of int4 share a scale.
const group = 32

// ScaleBytes returns where the numbers of a row of int4 begin: behind a scale of two bytes for each group.
func ScaleBytes(width int) int { return (width + group - 1) / group * 2 }

func int4Bytes(width int64) int64 { return (width+group-1)/group*2 + (width+1)/2 }

// encodeInt4 writes the scale of each group, a seventh of its greatest number, as a bfloat16, rounded up so that
// nothing is beyond; then four bits a number, from -7 to 7, the first of two in the lower bits.
func encodeInt4(to []byte, row []float32) error {
	clear(to)
	bits := to[ScaleBytes(len(row)):]
	for from := 0; from < len(row); from += group {
		part := row[from:min(from+group, len(row))]
		scale, err := int4Scale(part)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(to[from/group*2:], uint16(math.Float32bits(scale)>>16))
		if scale == 0 {
			continue
		}
		for i, x := range part {
			v := int8(max(-7, min(7, math.RoundToEven(float64(x)/float64(scale)))))
			bits[(from+i)/2] |= byte(v) & 15 << (4 * (i % 2))
		}
	}
	return nil
}

// int4Scale returns the scale of a group; 0 where all of it is.
func int4Scale(part []float32) (float32, error) {
	most, err := Greatest(part, "int4")
	if err != nil {
		return 0, err
	}
	scale := math.Float32frombits((math.Float32bits(most/7) + 0xFFFF) &^ 0xFFFF)
	if math.IsInf(float64(7*scale), 0) {
		return 0, fmt.Errorf("%g does not fit int4", most)
	}
	return scale, nil
}

// Greatest returns the greatest of numbers that share a scale, without its sign. It fails for one that is not finite,
// which what they are to be stored as does not have.
func Greatest(numbers []float32, as string) (most float32, err error) {
	for _, x := range numbers {
		if x != x || math.IsInf(float64(x), 0) {
			return 0, fmt.Errorf("%g cannot be stored as %s", x, as)
		}
		most = max(most, x, -x)
	}
	return most, nil
}

func decodeInt4(to []float32, row []byte, width, at int) {
	bits := row[ScaleBytes(width):]
	for i := range to {
		k := at + i
		scale := math.Float32frombits(uint32(binary.LittleEndian.Uint16(row[k/group*2:])) << 16)
		v := int8(bits[k/2]<<(4-4*(k%2))) >> 4
		to[i] = float32(v) * scale
	}
}
