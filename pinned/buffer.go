package pinned

import "fmt"

// Buffer is a region that grows. The zero value with Options set holds no memory. A buffer has one owner at a time; it
// is not safe for concurrent use. Growing may free its memory, so no device may still use it.
type Buffer struct {
	Options Options
	region  *Region
	touched int64
}

// Bytes returns the whole capacity. It is valid until the next call of Grow, Claim, Reserve or Close.
func (b *Buffer) Bytes() []byte { return b.region.Bytes() }

// Cap returns the capacity in bytes.
func (b *Buffer) Cap() int64 { return b.region.Len() }

// Grow makes the capacity at least n bytes and keeps the first keep bytes; a buffer of device memory cannot keep any
// (ErrPlacement). If it has to move, it takes a quarter more than n, so that batches of similar size soon need no more;
// only n where a quarter more exceeds the Ledger's limit or the device's memory.
func (b *Buffer) Grow(n, keep int64) error {
	if n <= b.Cap() {
		return nil
	}
	err := b.move(n+n/4, keep)
	if lacksRoom(err) {
		err = b.move(n, keep)
	}
	return err
}

// Claim makes the capacity at least n bytes, takes no more than that, and keeps nothing. It touches no page. This is
// how buffers of device memory are sized.
func (b *Buffer) Claim(n int64) error {
	if n <= b.Cap() {
		return nil
	}
	return b.move(n, 0)
}

// Reserve is Claim, and touches the pages, so that the first use is as fast as later ones.
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
	if keep == 0 { // nothing to keep: free first, so that the peak is the new size alone
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
	return r.Close()
}
