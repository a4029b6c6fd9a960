package pinned

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
)

// Buffer is a region that grows. The zero value with Options set is an empty buffer that holds no memory. A buffer has
// one owner at a time; it is not safe for concurrent use. Growing may free what it held, so no device may still use
// that.
type Buffer struct {
	Options Options
	region  *Region
	touched int64
}

// Bytes returns the whole capacity, as Region.Bytes does. It is valid until the next call of Grow, Claim, Reserve or
// Close.
func (b *Buffer) Bytes() []byte {
	if b.region == nil {
		return nil
	}
	return b.region.data
}

// Address returns the address of the first byte for kernels; 0 as Region.Address. It is valid as long as Bytes.
func (b *Buffer) Address() device.Address {
	if b.region == nil {
		return 0
	}
	return b.region.Address()
}

// Cap returns the capacity in bytes.
func (b *Buffer) Cap() int64 {
	if b.region == nil {
		return 0
	}
	return b.region.Len()
}

// Grow makes the capacity at least n bytes and keeps the first keep bytes. If it has to move it takes a quarter more
// than asked, so that batches of similar size settle after few moves. Where a quarter more would exceed the Ledger's
// limit or the device's memory, it takes only what was asked. Device memory keeps nothing: keep must be 0 there
// (ErrPlacement).
func (b *Buffer) Grow(n, keep int64) error {
	if n <= b.Cap() {
		return nil
	}
	err := b.move(n+n/4, keep)
	if errors.Is(err, ErrLimit) || errors.Is(err, device.ErrOutOfMemory) {
		err = b.move(n, keep)
	}
	return err
}

// Claim makes the capacity at least n bytes, takes no more than that, and leaves it to later writes to take the pages
// from the system. It keeps nothing. This is how buffers of device memory are sized.
func (b *Buffer) Claim(n int64) error {
	if n <= b.Cap() {
		return nil
	}
	return b.move(n, 0)
}

// Reserve makes the capacity at least n bytes, takes no more than that, and touches the pages. It keeps nothing.
func (b *Buffer) Reserve(n int64) error {
	if err := b.Claim(n); err != nil {
		return err
	}
	if b.touched < n {
		b.region.Touch(n)
		b.touched = n
	}
	return nil
}

func (b *Buffer) move(n, keep int64) error {
	if keep > 0 && b.Options.Placement() == Device {
		return fmt.Errorf("grow to %d bytes of device memory and keep %d: %w", n, keep, ErrPlacement)
	}
	if keep == 0 && b.region != nil { // nothing to keep: free first, so that the peak is the new size alone
		if err := b.Close(); err != nil {
			return err
		}
	}
	r, err := Allocate(n, b.Options)
	if err != nil {
		return err
	}
	if b.region != nil {
		copy(r.data, b.region.data[:keep])
		if err := b.region.Close(); err != nil {
			return err
		}
	}
	b.region, b.touched = r, 0
	return nil
}

// Close frees the memory; the buffer is then empty and may be used again.
func (b *Buffer) Close() error {
	r := b.region
	b.region, b.touched = nil, 0
	if r == nil {
		return nil
	}
	return r.Close()
}
