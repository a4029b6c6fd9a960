package columnar

import (
	"math"
	"strconv"
)

// Cell returns a value as a category is called; ok is false where there is none.
func (f *Field) Cell(v *Vector, i int) (_ string, ok bool) {
	switch {
	case v.Null(i):
		return "", false
	case f.Text:
		return string(v.Texts[i]), true
	case f.Boolean:
		return strconv.FormatBool(v.Data[i] != 0), true
	case f.DType.IsFloat():
		x := f.DType.Float(v.Data[int64(i)*f.DType.Size():])
		return f.SpellFloat(x), x == x
	}
	return strconv.FormatInt(f.DType.Integer(v.Data[int64(i)*f.DType.Size():]), 10), true
}

// SpellFloat spells a number of a column of floats, a whole one as a column of whole numbers does.
func (f *Field) SpellFloat(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 && !f.Exponents {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// Number returns a value as a number; NaN where there is none.
func (f *Field) Number(v *Vector, i int) float64 {
	if v.Null(i) {
		return math.NaN()
	}
	return f.DType.Float(v.Data[int64(i)*f.DType.Size():])
}

// exactDigits is how many digits of any decimal float64 tells apart.
const exactDigits = 15

// OfDecimals makes the field one of decimals, of which those of many digits are rounded.
func (f *Field) OfDecimals(digits, scale int) {
	if digits > exactDigits {
		f.Wide = math.Pow10(scale)
	}
}

// BigEndian returns the integer in two's complement that bytes are, exactly where 53 bits hold it.
func BigEndian(b []byte) float64 {
	if len(b) == 0 {
		return 0
	}
	x := float64(int8(b[0]))
	for _, c := range b[1:] {
		x = x*256 + float64(c)
	}
	return x
}
