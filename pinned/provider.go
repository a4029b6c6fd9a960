package pinned

// Provider gives memory in place of the system or the driver (Options.From), such as memory that other processes map:
// device memory with Options.Device, whose bytes are as those of Region.Bytes, else host memory. Any goroutine may call
// it. One with a method Accounts(), which does nothing, counts its memory in a Ledger itself: Options.Ledger does not
// count it again.
type Provider interface {
	// Take returns n bytes, n > 0, aligned to HugePage where n is a multiple of it, else to a page; device memory to
	// 256 bytes at least. They need not be zero. An error that wraps device.ErrOutOfMemory or ErrLimit lets a Buffer
	// that asked for more than it needs ask again.
	Take(n int64) ([]byte, error)
	// Give takes back what Take has returned: the very slice.
	Give(b []byte) error
}
