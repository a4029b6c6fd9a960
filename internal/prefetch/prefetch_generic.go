//go:build !(amd64 || arm64) || purego

package prefetch

import "unsafe"

// Index4 prefetches base[ids[i]] for each i: elements of 4 bytes, positions of 64 bits.
func Index4(base unsafe.Pointer, ids []int64) {}

// Index8 prefetches base[ids[i]] for each i: elements of 8 bytes, positions of 64 bits.
func Index8(base unsafe.Pointer, ids []int64) {}

// Node32x4 prefetches base[ids[i]] for each i: elements of 4 bytes, such as a direct map from node to local id.
func Node32x4(base unsafe.Pointer, ids []int32) {}

// Node32x8 prefetches base[ids[i]] for each i: elements of 8 bytes, such as indptr.
func Node32x8(base unsafe.Pointer, ids []int32) {}

// Hash32x8 prefetches slot (uint64(ids[i]) * Multiplier) >> shift of a table of 8-byte slots, for each i. shift is
// below 64.
func Hash32x8(base unsafe.Pointer, ids []int32, shift uint8) {}

// Hash64x16 prefetches slot (uint64(ids[i]) * Multiplier) >> shift of a table of 16-byte slots, for each i. shift is
// below 64.
func Hash64x16(base unsafe.Pointer, ids []int64, shift uint8) {}

// Rows32 prefetches the first lines of each row ids[i] of a table, and its last line.
func Rows32(base unsafe.Pointer, ids []int32, rowBytes, lines int) {}

// Rows64 prefetches the first lines of each row ids[i] of a table, and its last line.
func Rows64(base unsafe.Pointer, ids []int64, rowBytes, lines int) {}

// Range prefetches every line of 64 bytes that the n bytes at p touch; none for n <= 0. Nothing is read.
func Range(p unsafe.Pointer, n int) {}
