package unified

import "fmt"

// DType is the type of a tensor's elements.
type DType uint8

// The element types. Booleans are Uint8.
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

var dtypes = [numDTypes]struct {
	name string
	size int64
}{
	{"invalid", 0}, {"int8", 1}, {"uint8", 1}, {"int16", 2}, {"uint16", 2}, {"int32", 4}, {"uint32", 4}, {"int64", 8},
	{"uint64", 8}, {"float16", 2}, {"bfloat16", 2}, {"float32", 4}, {"float64", 8},
}

// Size returns the bytes of one element.
func (d DType) Size() int64 {
	if d < numDTypes {
		return dtypes[d].size
	}
	return 0
}

// String returns the type's name as NumPy spells it; bfloat16, which NumPy lacks, as ml_dtypes does.
func (d DType) String() string {
	if d < numDTypes {
		return dtypes[d].name
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// ParseDType is the inverse of String.
func ParseDType(name string) (DType, error) {
	for d := Invalid + 1; d < numDTypes; d++ {
		if dtypes[d].name == name {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("unknown element type %q", name)
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
