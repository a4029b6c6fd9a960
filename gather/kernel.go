package gather

// Kernel names the way in which rows of 64 bytes and more are copied on this processor: "avx512", "avx2", "prefetched"
// (by Go's own copy, rows prefetched ahead) or "plain". All copy the same bytes.
func Kernel() string { return best.String() }
