package direct

import (
	"errors"
	"io"
	"os"
)

// Behind writes a file from its beginning on, past the page cache: one block while its owner fills the next. It has one
// owner, who calls Close, or closes the file and drops the Behind.
type Behind struct {
	f     *os.File
	at    int64  // in the file, of the block that is filled
	buf   []byte // that block, so far
	spare []byte // the other one
	done  chan error
	err   error
}

// NewBehind returns a writer of an empty file, which stays the caller's, in blocks of that many bytes, a multiple of
// Align. Until Close nobody else may write the file. An error says that it cannot be written past the page cache.
func NewBehind(f *os.File, blockBytes int) (*Behind, error) {
	if err := Set(f, true); err != nil {
		return nil, err
	}
	return &Behind{f: f, buf: Buffer(blockBytes)[:0], spare: Buffer(blockBytes)[:0]}, nil
}

// Write takes the next bytes; p is not kept. An error is that of writing these, or of what was taken before. It is
// final.
func (b *Behind) Write(p []byte) (n int, err error) {
	for n < len(p) && b.err == nil {
		k := min(len(p)-n, cap(b.buf)-len(b.buf))
		b.buf = append(b.buf, p[n:n+k]...)
		n += k
		if len(b.buf) == cap(b.buf) {
			b.send()
		}
	}
	return n, b.err
}

// send begins to write the block that is full, and takes up the other one.
func (b *Behind) send() {
	if b.wait(); b.err != nil {
		return
	}
	full, at, done := b.buf, b.at, make(chan error, 1)
	b.buf, b.spare, b.at, b.done = b.spare[:0], full, at+int64(len(full)), done
	go func() { done <- writeAt(b.f, full, at) }()
}

// wait waits for the block that is being written.
func (b *Behind) wait() {
	if b.done != nil {
		b.err = errors.Join(b.err, <-b.done)
		b.done = nil
	}
}

// writeAt writes all of p at a place, through the page cache where the file system refuses to pass it by. The rest
// of a transfer that was cut short may not be whole blocks: it goes through the cache, too, which reports the error.
func writeAt(f *os.File, p []byte, at int64) error {
	n, err := f.WriteAt(p, at)
	if Refused(err) {
		if err = Set(f, false); err == nil {
			_, err = f.WriteAt(p[n:], at+int64(n))
		}
	}
	return err
}

// Close writes the remaining bytes, and waits until all is written, which does not mean that it is on the disk. The
// file's place is behind the last byte then, and its transfers go through the page cache again.
func (b *Behind) Close() error {
	b.wait()
	if err := Set(b.f, false); b.err == nil {
		b.err = err
	}
	if b.err == nil {
		b.err = writeAt(b.f, b.buf, b.at)
	}
	if b.err == nil {
		_, b.err = b.f.Seek(b.at+int64(len(b.buf)), io.SeekStart)
	}
	b.buf, b.spare = nil, nil
	return b.err
}
