package unified

import "math"

// HalfOf returns the float16 nearest to x; of two equally near ones the even one. Beyond 65,504 by half a step or more
// it is an infinity.
func HalfOf(x float32) Half {
	b := math.Float32bits(x)
	sign, b := Half(b>>16&0x8000), b&0x7FFFFFFF
	switch {
	case b > 0x7F800000:
		return sign | 0x7E00 // not a number
	case b >= 0x477FF000:
		return sign | 0x7C00
	case b >= 0x38800000: // normal: the exponent's bias becomes 15
		b += 0xC8000FFF + b>>13&1
		return sign | Half(b>>13)
	}
	// below 2^-14 a step is 2^-24: adding 0.5 leaves x, counted in steps, in the low bits
	return sign | Half(math.Float32bits(math.Float32frombits(b)+0.5)-0x3F000000)
}

// Float32 returns the number.
func (h Half) Float32() float32 {
	sign, b := uint32(h&0x8000)<<16, uint32(h&0x7FFF)<<13
	switch {
	case b >= 0x7C00<<13: // infinite, or not a number
		return math.Float32frombits(sign | b | 0x7F800000)
	case b >= 1<<23:
		return math.Float32frombits(sign | b + 0x38000000)
	}
	x := float32(h&0x3FF) * 0x1p-24
	return math.Float32frombits(sign | math.Float32bits(x))
}

// BHalfOf returns the bfloat16 nearest to x; of two equally near ones the even one.
func BHalfOf(x float32) BHalf {
	b := math.Float32bits(x)
	if b&0x7FFFFFFF > 0x7F800000 {
		return BHalf(b>>16 | 0x40) // not a number
	}
	return BHalf((b + 0x7FFF + b>>16&1) >> 16)
}

// Float32 returns the number.
func (h BHalf) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }
