package sparse

// A variant is a way to compute; all give the same results. The processor decides which are available.
type variant uint8

const (
	plain  variant = iota // Go: the specification
	avx2                  // vectors of 32 bytes
	avx512                // vectors of 64 bytes
)

// String returns the variant's name.
func (v variant) String() string { return [...]string{"plain", "avx2", "avx512"}[v] }

// bytes returns the size of a vector.
func (v variant) bytes() int { return [...]int{4, 32, 64}[v] }

// tile returns the vectors of the widest tile.
func (v variant) tile() int { return [...]int{0, maxAVX2, maxAVX512}[v] }

// denseTile returns the vectors of the widest tile of a dense product.
func (v variant) denseTile() int { return [...]int{0, 2, 4}[v] }

const (
	maxAVX2   = 12
	maxAVX512 = 16
	maxHalf   = 8 // where x has 16 bits
)

// Kernel names the kernels that this processor runs: "avx512", "avx2" or "plain" Go. All give the same results.
func Kernel() string { return variants()[0].String() }

const (
	cacheLine   = 64
	smallWork   = 1 << 15  // elements below which waking a worker takes longer
	partBytes   = 1 << 20  // of x, read for one part
	streamBytes = 64 << 20 // of y, from which on it passes the caches
)

// floatBytes is the size of a float32.
const floatBytes = 4

// variantFor returns the best variant for a matrix. Kernels read only the lower half of an index.
func variantFor(a *Matrix) variant {
	if a.cols > 1<<32 {
		return plain
	}
	return variants()[0]
}

// defaultStrategy is the strategy of an SpMM that was not measured. Prefetching 8 to 64 edges ahead is the same within
// noise; wide tiles win because each row of x is then read at once, and its lines follow each other.
func defaultStrategy(a *Matrix, width int64) strategy {
	v := variantFor(a)
	return strategy{variant: v, tile: v.tile(), ahead: 16, part: min(max(partBytes/(4*width), 256), 16384), group: 256,
		stream: 4*width*a.rows >= streamBytes}
}
