package pinned

// Provider gives memory in place of the system: Options.From. Memory that other processes map, for instance. Its methods are
// called by any goroutine.
type Provider interface {
	// Take returns n bytes, n > 0, aligned to HugePage where n is a multiple of it, else to a page. They need not be zero.
	Take(n int64) ([]byte, error)
	// Give takes back what Take has returned: the very slice.
	Give(b []byte) error
}
