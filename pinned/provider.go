package pinned

// Provider gives memory in place of the system, or of the driver: Options.From. Memory that other processes map, for
// instance. Who sets Options.From knows whether Options.Device is set beside it, and takes a provider of host memory or
// one of that device's: there the bytes of Take have the device's address and length, as Region.Bytes has. Its methods
// are called by any goroutine.
type Provider interface {
	// Take returns n bytes, n > 0, aligned to HugePage where n is a multiple of it, else to a page; device memory to
	// 256 bytes at least. They need not be zero. An error that wraps device.ErrOutOfMemory or ErrLimit lets a Buffer that
	// asked for more than it needs ask again.
	Take(n int64) ([]byte, error)
	// Give takes back what Take has returned: the very slice.
	Give(b []byte) error
}
