package edgelist

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Most edge lists have nothing but two numbers a line. What is not a digit in them is found for some kilobytes at once:
// so a number does not wait for the end of the one before.

// markBlocks is how many blocks of 64 bytes are looked through at once.
const markBlocks = 64

// marks are offsets of the bytes that are not digits, and room for what is written ahead.
type marks [64*markBlocks + 16]int32

const (
	zeros = 0x3030303030303030
	highs = 0x8080808080808080
)

// find notes the bytes of b that are not digits, from an offset on, in this number of blocks, and returns how many they
// are.
func (at *marks) find(b []byte, from, blocks int) (n int) {
	for ; blocks > 0; blocks-- {
		c := b[from:][:64]
		m := others(c[:8]) | others(c[8:16])<<8 | others(c[16:24])<<16 | others(c[24:32])<<24 |
			others(c[32:40])<<32 | others(c[40:48])<<40 | others(c[48:56])<<48 | others(c[56:64])<<56
		end := n + bits.OnesCount64(m)
		for ; m != 0; n += 6 { // bytes behind end are written again
			to := at[n:][:6]
			to[0] = int32(from + bits.TrailingZeros64(m))
			m &= m - 1
			to[1] = int32(from + bits.TrailingZeros64(m))
			m &= m - 1
			to[2] = int32(from + bits.TrailingZeros64(m))
			m &= m - 1
			to[3] = int32(from + bits.TrailingZeros64(m))
			m &= m - 1
			to[4] = int32(from + bits.TrailingZeros64(m))
			m &= m - 1
			to[5] = int32(from + bits.TrailingZeros64(m))
			m &= m - 1
		}
		n = end
		from += 64
	}
	return n
}

// others returns a bit for each of eight bytes, which is set where the byte is not a digit.
func others(b []byte) uint64 {
	t := binary.LittleEndian.Uint64(b) ^ zeros
	return ((t&^highs + 0x7676767676767676 | t) & highs * 0x0002040810204081) >> 56
}

// marked parses lines of two numbers from an offset on, some blocks at a time. It returns where the first line begins
// that is too near to the end, or too long, or of another form; the last makes the piece odd.
func (p *parser) marked(w *piece, i int) int {
	for w.n-i >= 64 && !w.odd {
		i = p.vectors(w, i)
		at := p.at[:p.at.find(w.buf, i, min((w.n-i)/64, markBlocks))]
		src, dst := w.room(len(at) / 2)
		next, n, odd := p.lines(w.buf, i, at, src, dst)
		w.src, w.dst, w.odd = w.src[:len(w.src)+n], w.dst[:len(w.dst)+n], odd
		if n == 0 {
			break
		}
		i = next
	}
	return i
}

// room returns the memory behind the edges, with room for more of them.
func (p *piece) room(more int) (src, dst []int64) {
	p.src, p.dst = slices.Grow(p.src, more), slices.Grow(p.dst, more)
	return p.src[len(p.src):][:more], p.dst[len(p.dst):][:more]
}

// vectors is lines by vector instructions, for numbers of up to 8 digits: it returns where a line begins that is not
// for it.
func (p *parser) vectors(w *piece, i int) int {
	for pairsVectors && w.n-i >= 32 {
		src, dst := w.room(vectorRows)
		bytes, n, most := pairs32(&w.buf[i], w.n-i, p.lay.delim, &src[0], &dst[0], len(src))
		if n == 0 || most >= p.limit {
			break
		}
		w.src, w.dst, i = w.src[:len(w.src)+n], w.dst[:len(w.dst)+n], i+bytes
		if n < len(src) {
			break
		}
	}
	return i
}

// vectorRows is how many lines are parsed at once.
const vectorRows = 4096

// lines parses the lines from i on that end at a mark, and stops at one that is not two numbers of up to 16 digits with
// a delimiter between them, which is odd. It returns where it stopped, and how many lines came before.
func (p *parser) lines(b []byte, i int, at []int32, src, dst []int64) (next, n int, odd bool) {
	delim, limit := p.lay.delim, p.limit
	for ; len(at) >= 2 && n < len(src) && n < len(dst); n++ {
		j, k := int(at[0]), int(at[1])
		at = at[2:]
		xn, yn := j-i, k-j-1
		t, u := binary.LittleEndian.Uint64(b[i:])^zeros, binary.LittleEndian.Uint64(b[j+1:])^zeros
		var x, y uint64
		switch digits := uint(xn-1) | uint(yn-1); {
		case b[j] != delim || byte(t) == 0 && xn > 1 || byte(u) == 0 && yn > 1:
			return i, n, true
		case digits < 8:
			x, y = eight(t<<(uint(-8*xn)&63)), eight(u<<(uint(-8*yn)&63))
		case digits < 16:
			x, y = sixteen(b[i:], xn), sixteen(b[j+1:], yn)
		default:
			return i, n, true
		}
		if b[k] == '\r' {
			if len(at) == 0 {
				return i, n, false
			}
			k, at = k+1, at[1:]
		}
		if x >= limit || y >= limit || b[k] != '\n' {
			return i, n, true
		}
		i = k + 1
		src[n], dst[n] = int64(x), int64(y)
	}
	return i, n, false
}

// sixteen returns a number of n digits, 1 to 16.
func sixteen(b []byte, n int) uint64 {
	t := binary.LittleEndian.Uint64(b) ^ zeros
	if n <= 8 {
		return eight(t << (uint(-8*n) & 63))
	}
	rest := binary.LittleEndian.Uint64(b[8:]) ^ zeros
	return eight(t)*uint64(tens[n-8]) + eight(rest<<(uint(-8*n)&63))
}
