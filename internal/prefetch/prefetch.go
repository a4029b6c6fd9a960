package prefetch

import "unsafe"

// Multiplier is that of the hash in Hash32x8 and Hash64x16: 2^64 divided by the golden ratio (Knuth, "The Art of
// Computer Programming", volume 3, section 6.4).
const Multiplier = 0x9E3779B97F4A7C15

// Node64x4 is Index4 under the name that reads well beside Node32x4 in code that is generic over the width of an id.
func Node64x4(base unsafe.Pointer, ids []int64) { Index4(base, ids) }

// Node64x8 is Index8 likewise.
func Node64x8(base unsafe.Pointer, ids []int64) { Index8(base, ids) }
