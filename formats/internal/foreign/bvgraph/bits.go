package bvgraph

import (
	"errors"
	"io"
	"math/bits"
)

// bitReader reads a stream of bits, the highest of each byte first. The first error stays.
type bitReader struct {
	r    io.Reader
	buf  []byte
	at   int // byte of buf that is taken next
	have int
	word uint64 // its highest n bits are the next ones
	n    int
	err  error
}

var errEnd = errors.New("the stream of bits ends too early")

// fill makes n at least 56, unless the stream ends.
func (b *bitReader) fill() {
	for b.n <= 56 {
		if b.at == b.have {
			if b.err != nil {
				return
			}
			var err error
			b.have, err = b.r.Read(b.buf)
			b.at = 0
			if err != nil && err != io.EOF {
				b.err = err
			} else if err == io.EOF && b.have == 0 {
				return
			}
			continue
		}
		b.word |= uint64(b.buf[b.at]) << (56 - b.n)
		b.at++
		b.n += 8
	}
}

func (b *bitReader) fail() {
	if b.err == nil {
		b.err = errEnd
	}
}

// bits reads a number of n bits, at most 56.
func (b *bitReader) bits(n int) uint64 {
	if n == 0 {
		return 0
	}
	if b.n < n {
		if b.fill(); b.n < n {
			b.fail()
			return 0
		}
	}
	v := b.word >> (64 - n)
	b.word <<= n
	b.n -= n
	return v
}

// unary counts zeros before a one.
func (b *bitReader) unary() uint64 {
	zeros := 0
	for {
		if b.n == 0 {
			if b.fill(); b.n == 0 {
				b.fail()
				return 0
			}
		}
		z := bits.LeadingZeros64(b.word)
		if z < b.n {
			b.word <<= z + 1
			b.n -= z + 1
			return uint64(zeros + z)
		}
		zeros += b.n
		b.word, b.n = 0, 0
	}
}

func (b *bitReader) gamma() uint64 {
	h := b.unary()
	if h > 48 {
		b.fail()
		return 0
	}
	return (1<<h | b.bits(int(h))) - 1
}

func (b *bitReader) delta() uint64 {
	h := b.gamma()
	if h > 48 {
		b.fail()
		return 0
	}
	return (1<<h | b.bits(int(h))) - 1
}

func (b *bitReader) zeta(k int) uint64 {
	h := int(b.unary())
	if h*k+k-1 > 48 {
		b.fail()
		return 0
	}
	left := uint64(1) << (h * k)
	m := b.bits(h*k + k - 1)
	if m < left {
		return m + left - 1
	}
	return m<<1 + b.bits(1) - 1
}

// signed maps 0, 1, 2, 3, .. to 0, -1, 1, -2, ..
func signed(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }
