package edgelist

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/khop-gnn/khop/unified"
)

// What becomes of a field: an id, nothing, or a column's value.
const (
	fieldSrc = -3 + iota
	fieldDst
	fieldSkip
)

// fast parses lines of the usual form from an offset on: ids and values without quotes, signs before ids, or exponents.
// It returns the offset of the first line that is not of that form, or the end. Lines that it leaves alone are line's.
func (p *parser) fast(w *piece, i int) int {
	b, n := w.buf, w.n
	if p.plain {
		if p.lay.fields == 2 {
			i = p.marked(w, i)
		}
		return p.pairs(w, b, i, n)
	}
	for i < n {
		next := p.fastLine(w, b, i)
		if next < 0 {
			w.truncate()
			return i
		}
		i = next
	}
	return i
}

// pairs is fast for lines of two numbers, and perhaps fields that are not stored.
func (p *parser) pairs(w *piece, b []byte, i, n int) int {
	delim, limit, more := p.lay.delim, p.limit, p.lay.fields-2
	src, dst := w.src, w.dst
	for i < n {
		x, j := digits(b, i)
		if j == i || j-i > 18 || b[i] == '0' && j-i > 1 || x >= limit {
			break
		}
		if c := b[j]; c != delim && (c != '\t' || delim != ' ') {
			break
		}
		for j++; b[j] == ' ' || b[j] == '\t' && delim == ' '; j++ {
		}
		y, k := digits(b, j)
		if k == j || k-j > 18 || b[j] == '0' && k-j > 1 || y >= limit {
			break
		}
		if more > 0 {
			if k = skipFields(b, k, delim, more); k < 0 {
				break
			}
		}
		if b[k] == '\r' {
			k++
		}
		if b[k] != '\n' {
			break
		}
		i = k + 1
		src, dst = append(src, int64(x)), append(dst, int64(y))
	}
	w.src, w.dst = src, dst
	return i
}

// skipFields returns the end of a line that has exactly n more fields, without quotes, else -1.
func skipFields(b []byte, j int, delim byte, n int) int {
	for ; b[j] != '\n' && b[j] != '\r'; j++ {
		switch c := b[j]; {
		case c == '"':
			return -1
		case delim == ' ' && (c == ' ' || c == '\t'):
			if next := b[j+1]; next != ' ' && next != '\t' && next != '\n' && next != '\r' {
				n--
			}
		case c == delim:
			n--
		}
	}
	if n != 0 {
		return -1
	}
	return j
}

// fastLine parses the line at i, and returns where the next one begins; -1 if it is not of the usual form.
func (p *parser) fastLine(w *piece, b []byte, i int) int {
	delim := p.lay.delim
	var src, dst uint64
	for f, to := range p.fields {
		if f > 0 {
			if c := b[i]; c != delim && (c != '\t' || delim != ' ') {
				return -1
			}
			for i++; b[i] == ' ' || b[i] == '\t' && delim == ' '; i++ {
			}
		}
		from := i
		switch {
		case to == fieldSkip:
			for c := b[i]; c != delim && c != '\n' && c != '\r' && (c != '\t' || delim != ' '); c = b[i] {
				if c == '"' {
					return -1
				}
				i++
			}
		case to < 0:
			var x uint64
			x, i = digits(b, i)
			if i == from || i-from > 18 || b[from] == '0' && i-from > 1 || x >= p.limit {
				return -1
			}
			if to == fieldSrc {
				src = x
			} else {
				dst = x
			}
		default:
			if i = fastValue(&p.columns[to], &w.columns[to], b, i); i < 0 {
				return -1
			}
		}
	}
	if b[i] == '\r' {
		i++
	}
	if b[i] != '\n' {
		return -1
	}
	w.src, w.dst = append(w.src, int64(src)), append(w.dst, int64(dst))
	return i + 1
}

// fastValue stores the number at i, and returns where it ends; -1 where it is not digits, perhaps with a sign and a
// point, few enough that the nearest float64 is a quotient of two whole numbers that float64 holds exactly.
func fastValue(c *columnSpec, v *values, b []byte, i int) int {
	negative := b[i] == '-'
	if negative {
		i++
	}
	x, j := digits(b, i)
	count, fraction := j-i, 0
	if b[j] == '.' {
		y, k := digits(b, j+1)
		if fraction = k - j - 1; fraction == 0 || count+fraction > 15 {
			return -1
		}
		x, count, j = x*uint64(tens[fraction])+y, count+fraction, k
	}
	if count == 0 || count > 18 || negative && c.name == "weight" || v.dropped != nil {
		return -1
	}
	integers := c.dtype != unified.Invalid && c.dtype != unified.Float32 && c.dtype != unified.Float64
	if fraction == 0 && (integers || c.dtype == unified.Invalid && !v.floats) {
		if !v.putInt(c, int64(x), negative) {
			return -1
		}
		return j
	}
	if integers || count > 15 {
		return -1
	}
	v.beginFloats()
	f := float64(x) / tens[fraction]
	if negative {
		f = -f
	}
	v.putFloat(c, f)
	return j
}

var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

var powers = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7}

// digits reads a number, eight digits at a time; what has more than 18 digits is wrong but harmless. It reads up to
// slack bytes beyond them.
func digits(b []byte, j int) (uint64, int) {
	x := uint64(0)
	for {
		t := binary.LittleEndian.Uint64(b[j:]) ^ 0x3030303030303030
		other := (t + 0x7676767676767676 | t) & 0x8080808080808080 // of bytes; the lowest is right
		if other == 0 {
			x, j = x*1e8+eight(t), j+8
			continue
		}
		n := bits.TrailingZeros64(other) >> 3
		if n > 0 {
			x = x*powers[n&7] + eight(t<<(64-8*n))
		}
		return x, j + n
	}
}

// eight returns the number of eight digits, the first in the lowest byte.
func eight(t uint64) uint64 {
	t = t*10 + t>>8
	return (t&0x000000FF000000FF*0x000F424000000064 + t>>16&0x000000FF000000FF*0x0000271000000001) >> 32
}

// putInt stores a whole number, and reports whether the column's type holds it.
func (v *values) putInt(c *columnSpec, n int64, negative bool) bool {
	if negative {
		n = -n
	}
	switch c.dtype {
	case unified.Invalid, unified.Int64:
		v.data = binary.LittleEndian.AppendUint64(v.data, uint64(n))
	case unified.Int32:
		if n != int64(int32(n)) {
			return false
		}
		v.data = binary.LittleEndian.AppendUint32(v.data, uint32(n))
	case unified.Int16:
		if n != int64(int16(n)) {
			return false
		}
		v.data = binary.LittleEndian.AppendUint16(v.data, uint16(n))
	default:
		if n != int64(int8(n)) {
			return false
		}
		v.data = append(v.data, byte(n))
	}
	v.rows++
	return true
}

// putFloat stores a number.
func (v *values) putFloat(c *columnSpec, x float64) {
	if c.dtype == unified.Float32 {
		v.data = binary.LittleEndian.AppendUint32(v.data, math.Float32bits(float32(x)))
	} else {
		v.data = binary.LittleEndian.AppendUint64(v.data, math.Float64bits(x))
	}
	v.rows++
}
