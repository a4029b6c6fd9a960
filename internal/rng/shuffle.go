package rng

import "math/bits"

// maxStored is the greatest length whose shuffle is a stored table (Fisher-Yates); a longer one is computed position by
// position (Feistel). The limit is part of the specification: the two methods give different orders.
const maxStored = 1 << 16

const rounds = 8

// Permutation is a keyed shuffle: an order of the items 0 .. n-1. Make it with NewPermutation.
//
// It never changes: any number of goroutines may use it, and copies of the value are the same permutation. The zero
// value is the order of no items.
//
// Memory: 2 bytes an item up to 65536 items; above that the struct alone. Each position is then computed alone, so no
// rank or worker ever holds the whole order.
type Permutation struct {
	n uint64

	items []uint16 // the item at each position, up to maxStored items

	// Above: a Feistel network over 2·half bits, with 2^(2·half) >= n the smallest such domain.
	keys [rounds]uint64
	half uint
}

// NewPermutation returns the order of n items drawn from the stream with state s. A length above 2⁶³ is outside the
// specification; callers refuse it.
//
// Draws: 0 .. n-2 for n <= 65536, else 0 .. 7. Cost: O(n) time and one allocation for n <= 65536, else O(1) and none.
// Method: R. Durstenfeld, "Algorithm 235: random permutation", CACM 7(7), 1964 (the Fisher-Yates shuffle); for long
// lists a balanced Feistel network with cycle walking, J. Black and P. Rogaway, "Ciphers with arbitrary finite
// domains", CT-RSA 2002.
func NewPermutation(s uint64, n uint64) *Permutation {
	p := &Permutation{n: n} // inlined into the caller, who so keeps it on its stack
	p.init(s)
	return p
}

func (p *Permutation) init(s uint64) {
	if p.n <= maxStored {
		p.fisherYates(s)
	} else {
		p.feistel(s)
	}
}

func (p *Permutation) fisherYates(s uint64) {
	n := int(p.n)
	p.items = make([]uint16, n)
	for i := range p.items {
		p.items[i] = uint16(i)
	}
	for i := n - 1; i >= 1; i-- {
		j := Bounded(Draw(s, uint64(n-1-i)), uint64(i+1))
		p.items[i], p.items[j] = p.items[j], p.items[i]
	}
}

// feistel requires n >= 2.
func (p *Permutation) feistel(s uint64) {
	p.half = uint(bits.Len64(p.n-1)+1) / 2
	for r := range p.keys {
		p.keys[r] = Draw(s, uint64(r))
	}
}

// Len returns n, the number of items.
func (p *Permutation) Len() uint64 { return p.n }

// At returns the item at position i. For i >= Len it returns i, so that a position out of range is seen as an item out
// of range.
//
// Cost: a table look-up up to 65536 items; above that fewer than 4 evaluations, on average, of a Feistel network of 8
// Mix64.
func (p *Permutation) At(i uint64) uint64 {
	if i < uint64(len(p.items)) {
		return uint64(p.items[i])
	}
	return p.walk(i)
}

// walk brings the network's domain down to n by cycle walking: it ends, since the cycle through i < n comes back to i.
func (p *Permutation) walk(i uint64) uint64 {
	if i >= p.n {
		return i
	}
	x := p.encrypt(i)
	for x >= p.n {
		x = p.encrypt(x)
	}
	return x
}

func (p *Permutation) encrypt(x uint64) uint64 {
	// The masks change nothing (half is 1 .. 32); they spare the compiler the test for shifts of 64 and more.
	half, drop := p.half&63, (64-p.half)&63
	left, right := x>>half, x&(1<<half-1)
	for r := range rounds {
		left, right = right, left^Mix64(p.keys[r]+right*Golden)>>drop
	}
	return left<<half | right
}
