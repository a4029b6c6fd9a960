//go:build (amd64 || arm64) && !purego

package prefetch

import "unsafe"

// Enabled reports whether this build prefetches, or does nothing.
const Enabled = true

// Index4 prefetches base[pos[i]] for each i: elements of 4 bytes, positions of 64 bits.
//
//go:noescape
func Index4(base unsafe.Pointer, pos []int64)

// Index8 prefetches base[pos[i]] for each i: elements of 8 bytes, positions of 64 bits.
//
//go:noescape
func Index8(base unsafe.Pointer, pos []int64)

// Node32x4 prefetches base[ids[i]] for each i: elements of 4 bytes, such as a direct map from node to local id.
//
//go:noescape
func Node32x4(base unsafe.Pointer, ids []int32)

// Node32x8 prefetches base[ids[i]] for each i: elements of 8 bytes, such as indptr.
//
//go:noescape
func Node32x8(base unsafe.Pointer, ids []int32)

// Hash32x8 prefetches slot (uint64(ids[i]) * Multiplier) >> shift of a table of 8-byte slots, for each i. shift is
// below 64.
//
//go:noescape
func Hash32x8(base unsafe.Pointer, ids []int32, shift uint8)

// Hash64x16 prefetches slot (uint64(ids[i]) * Multiplier) >> shift of a table of 16-byte slots, for each i. shift is
// below 64.
//
//go:noescape
func Hash64x16(base unsafe.Pointer, ids []int64, shift uint8)

// Range prefetches every line of 64 bytes that the n bytes at p touch; none for n <= 0. Nothing is read.
//
//go:noescape
func Range(p unsafe.Pointer, n int)
