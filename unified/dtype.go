package unified

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DType is the type of a tensor's elements.
type DType uint8

// The element types. Booleans are Uint8. The values are the codes of docs/feed.md.
const (
	Invalid DType = iota
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float16  // IEEE 754 binary16
	BFloat16 // the upper half of a float32
	Float32
	Float64
	numDTypes
)

// Kind says what the bits of an element mean. The values are DLPack's.
type Kind uint8

// The kinds of elements.
const (
	Signed   Kind = 0
	Unsigned Kind = 1
	IEEE     Kind = 2 // floating point
	Brain    Kind = 4 // floating point: the upper bits of a float32
)

// traits are the properties of a dtype.
type traits struct {
	name   string
	size   int64
	kind   Kind
	numpy  string // its type string there, without the order of bytes
	torch  string // its storages in files of PyTorch
	stored DType  // as what it is written where nobody else knows it
}

// dtypes has all properties of all dtypes. A new one needs a line here, a case in each conversion below, and a line in
// docs/format.md, docs/feed.md and the Python package (protocol.py).
var dtypes = [numDTypes]traits{
	{"invalid", 0, Unsigned, "", "", Invalid},
	{"int8", 1, Signed, "i1", "CharStorage", Int8},
	{"uint8", 1, Unsigned, "u1", "ByteStorage", Uint8},
	{"int16", 2, Signed, "i2", "ShortStorage", Int16},
	{"uint16", 2, Unsigned, "u2", "", Uint16},
	{"int32", 4, Signed, "i4", "IntStorage", Int32},
	{"uint32", 4, Unsigned, "u4", "", Uint32},
	{"int64", 8, Signed, "i8", "LongStorage", Int64},
	{"uint64", 8, Unsigned, "u8", "", Uint64},
	{"float16", 2, IEEE, "f2", "HalfStorage", Float16},
	{"bfloat16", 2, Brain, "", "BFloat16Storage", Uint16},
	{"float32", 4, IEEE, "f4", "FloatStorage", Float32},
	{"float64", 8, IEEE, "f8", "DoubleStorage", Float64},
}

func (d DType) traits() *traits {
	if d >= numDTypes {
		d = Invalid
	}
	return &dtypes[d]
}

// Size returns the bytes of one element.
func (d DType) Size() int64 { return d.traits().size }

// String returns the type's name as NumPy spells it; bfloat16, which NumPy lacks, as ml_dtypes does.
func (d DType) String() string {
	if d < numDTypes {
		return dtypes[d].name
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Kind returns what the bits of an element mean.
func (d DType) Kind() Kind { return d.traits().kind }

// IsFloat reports whether elements are floating-point numbers.
func (d DType) IsFloat() bool { return d.Kind() >= IEEE }

// IsHalf reports whether elements are floating-point numbers of 16 bits.
func (d DType) IsHalf() bool { return d.IsFloat() && d.Size() == 2 }

// NumPy returns NumPy's type string of little-endian elements, such as "<f4"; "" if NumPy has no such type.
func (d DType) NumPy() string {
	code := d.traits().numpy
	switch {
	case code == "":
		return ""
	case d.Size() == 1:
		return "|" + code
	}
	return "<" + code
}

// ParseNumPy returns the dtype of a NumPy type string without a byte order: "f4". Booleans, "b1", are Uint8.
// Invalid for others.
func ParseNumPy(code string) DType {
	if code == "b1" {
		return Uint8
	}
	return find(func(d DType) bool { return code != "" && d.traits().numpy == code })
}

// ParseTorch returns the dtype of a name in PyTorch's files: that of a dtype, "float16", or that of a storage class,
// "HalfStorage". Invalid for others.
func ParseTorch(name string) DType {
	return find(func(d DType) bool { return d.String() == name || name != "" && d.traits().torch == name })
}

// Stored returns the type of elements in Arrow files and in NumPy: the type itself, or integers of its size if they do
// not have it.
func (d DType) Stored() DType { return d.traits().stored }

// OfKind returns the dtype of a kind with a number of bits; Invalid if there is no such dtype.
func OfKind(kind Kind, bits int64) DType {
	return find(func(d DType) bool { return d.Kind() == kind && 8*d.Size() == bits })
}

// find returns the dtype that fits; Invalid if none does.
func find(fits func(DType) bool) DType {
	for d := Invalid + 1; d < numDTypes; d++ {
		if fits(d) {
			return d
		}
	}
	return Invalid
}

// ParseDType is the inverse of String.
func ParseDType(name string) (DType, error) {
	d := find(func(d DType) bool { return d.String() == name })
	if d == Invalid {
		return d, fmt.Errorf("unknown element type %q", name)
	}
	return d, nil
}

// UnmarshalText is the inverse of String.
func (d *DType) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDType(string(text))
	return err
}

// Half and BHalf are the storage of Float16 and BFloat16 elements.
type (
	Half  uint16
	BHalf uint16
)

// Element is the set of Go types that View maps dtypes to.
type Element interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64 | Half | BHalf
}

// Of returns the dtype whose elements are T.
func Of[T Element]() DType {
	var z T
	switch any(z).(type) {
	case int8:
		return Int8
	case uint8:
		return Uint8
	case int16:
		return Int16
	case uint16:
		return Uint16
	case int32:
		return Int32
	case uint32:
		return Uint32
	case int64:
		return Int64
	case uint64:
		return Uint64
	case Half:
		return Float16
	case BHalf:
		return BFloat16
	case float32:
		return Float32
	case float64:
		return Float64
	}
	return Invalid
}

// Integer returns the first little-endian element of b; a Uint64 modulo 2^64, a floating-point number as its bits.
func (d DType) Integer(b []byte) int64 {
	switch d {
	case Int8:
		return int64(int8(b[0]))
	case Uint8:
		return int64(b[0])
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	switch d.Size() {
	case 2:
		return int64(binary.LittleEndian.Uint16(b))
	case 4:
		return int64(binary.LittleEndian.Uint32(b))
	}
	return int64(binary.LittleEndian.Uint64(b))
}

// Float returns the first little-endian element of b, rounded if it has more than 53 bits.
func (d DType) Float(b []byte) float64 {
	switch d {
	case Float16:
		return float64(Half(binary.LittleEndian.Uint16(b)).Float32())
	case BFloat16:
		return float64(BHalf(binary.LittleEndian.Uint16(b)).Float32())
	case Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case Uint64:
		return float64(binary.LittleEndian.Uint64(b))
	}
	return float64(d.Integer(b))
}

// Put writes x as the first little-endian element of b, rounded to the nearest number of the type. For an integer type
// x must be a whole number in its range; NaN becomes 0.
func (d DType) Put(b []byte, x float64) {
	switch {
	case d == Float64:
		binary.LittleEndian.PutUint64(b, math.Float64bits(x))
	case d.IsFloat():
		d.PutFloats(b[:d.Size()], []float32{float32(x)})
	default:
		if x != x {
			x = 0
		}
		for i, v := int64(0), int64(x); i < d.Size(); i, v = i+1, v>>8 {
			b[i] = byte(v)
		}
	}
}

// Floats converts len(to) little-endian elements to float32, rounded.
func (d DType) Floats(to []float32, from []byte) {
	switch d {
	case Float16:
		for i := range to {
			to[i] = Half(binary.LittleEndian.Uint16(from[2*i:])).Float32()
		}
	case BFloat16:
		for i := range to {
			to[i] = BHalf(binary.LittleEndian.Uint16(from[2*i:])).Float32()
		}
	case Float32:
		for i := range to {
			to[i] = math.Float32frombits(binary.LittleEndian.Uint32(from[4*i:]))
		}
	case Int8:
		for i := range to {
			to[i] = float32(int8(from[i]))
		}
	default:
		size := d.Size()
		for i := range to {
			to[i] = float32(d.Float(from[size*int64(i):]))
		}
	}
}

// PutFloats writes numbers as little-endian elements of a floating-point type, each rounded to the nearest. It returns
// the index of the first finite number beyond the range, which becomes an infinity; -1 if all fit.
func (d DType) PutFloats(to []byte, from []float32) (beyond int) {
	beyond = -1
	size := int(d.Size())
	for i, x := range from {
		var infinite bool
		switch b := to[size*i:]; d {
		case Float16:
			h := HalfOf(x)
			infinite = h&0x7FFF == 0x7C00
			binary.LittleEndian.PutUint16(b, uint16(h))
		case BFloat16:
			h := BHalfOf(x)
			infinite = h&0x7FFF == 0x7F80
			binary.LittleEndian.PutUint16(b, uint16(h))
		case Float32:
			binary.LittleEndian.PutUint32(b, math.Float32bits(x))
		default:
			binary.LittleEndian.PutUint64(b, math.Float64bits(float64(x)))
		}
		if infinite && beyond < 0 && !math.IsInf(float64(x), 0) {
			beyond = i
		}
	}
	return beyond
}
