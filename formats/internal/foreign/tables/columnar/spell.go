package columnar

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
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

// TimesOf appends times of a column: text as microseconds, integers as int64, floats as they are. One that is missing
// is source.NoTime, or NaN.
func (f *Field) TimesOf(v *Vector, rows int, dtype unified.DType, to []byte) ([]byte, error) {
	if f.Text {
		for i := range rows {
			at := int64(source.NoTime)
			if text := strings.TrimSpace(string(v.Texts[i])); text != "" && !v.Null(i) {
				var ok bool
				if at, ok = ParseTime(text); !ok {
					return nil, AtRow(i, fmt.Errorf("%.40q is no date and no time, such as 2026-01-31 or "+
						"2026-01-31T12:00:00.5Z, of whole microseconds", text))
				}
			}
			to = binary.LittleEndian.AppendUint64(to, uint64(at))
		}
		return to, nil
	}
	from := len(to)
	if dtype == unified.Int64 && f.DType == unified.Uint64 {
		for i := 0; i < rows; i++ {
			if f.DType.Integer(v.Data[8*i:]) < 0 && !v.Null(i) {
				return nil, AtRow(i, fmt.Errorf("the time %v is too large", f.DType.Float(v.Data[8*i:])))
			}
		}
	}
	if to = source.Convert(to, f.DType, dtype, v.Data); !dtype.IsFloat() && v.Valid != nil && !f.List {
		for i, there := range v.Valid {
			if !there {
				binary.LittleEndian.PutUint64(to[from+8*i:], 1<<63) // source.NoTime
			}
		}
	}
	return to, nil
}

// timeLayouts are how dates and times are written; without a zone they are UTC. time.Parse takes fractions of seconds
// behind any of them.
var timeLayouts = []string{time.DateOnly, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02 15:04",
	"2006-01-02 15:04Z07:00"}

// ParseTime returns a date or time in microseconds; ok is false for other texts, and for finer ones.
func ParseTime(text string) (_ int64, ok bool) {
	if len(text) < len(time.DateOnly) || text[4] != '-' || text[7] != '-' {
		return 0, false
	}
	if len(text) > 10 && text[10] == 'T' {
		text = text[:10] + " " + text[11:]
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMicro(), t.Nanosecond()%1000 == 0
		}
	}
	return 0, false
}
