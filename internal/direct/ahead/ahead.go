// Package ahead reads a range of a file in order, past the page cache, and asks the disk for what comes next.
package ahead

import (
	"io"
	"os"

	"github.com/khop-gnn/khop/internal/direct"
)

// Reader reads some blocks of the range before they are needed. It has one owner, who calls Close.
type Reader struct {
	f    *os.File
	size int64 // of a block
	end  int64 // of the range
	now  block
	full chan block // nil before the first call
	free chan []byte
	err  error
}

// block is bytes of the file from a place on.
type block struct {
	at   int64
	data []byte // from there
	mem  []byte // all of it; nil: there is none
	err  error
}

// blocks is how many blocks a Reader has: one is used, one is ready, one is read.
const blocks = 3

// Memory returns the memory of a Reader with blocks of that size.
func Memory(blockBytes int) int64 { return blocks * int64(blockBytes+2*direct.Align) }

// New returns a reader of bytes at to end of a file, which stays the caller's, in blocks of blockBytes. It reads from
// the first call of From on. An error says that the file cannot be read past the page cache.
func New(f *os.File, at, end int64, blockBytes int) (*Reader, error) {
	d, err := direct.Open(f)
	if err != nil {
		return nil, err
	}
	if _, err := direct.ReadAt(d, make([]byte, min(1, end-at)), at); err != nil {
		_ = d.Close()
		return nil, err
	}
	return &Reader{f: d, size: int64(blockBytes), now: block{at: at}, end: end}, nil
}

// begin begins to read at a place.
func (r *Reader) begin(at int64) {
	r.full, r.free = make(chan block, blocks), make(chan []byte, blocks)
	for range blocks {
		r.free <- direct.Buffer((int(r.size) + 2*direct.Align) &^ (direct.Align - 1))
	}
	go r.read(at)
}

// read fills blocks until Close, or until there are no more.
func (r *Reader) read(at int64) {
	defer close(r.full)
	for ; at < r.end; at += r.size {
		mem, more := <-r.free
		if !more {
			return
		}
		from, n := at&^(direct.Align-1), min(r.size, r.end-at)
		skip := at - from
		got, err := r.f.ReadAt(mem[:(skip+n+direct.Align-1)&^(direct.Align-1)], from)
		if int64(got) >= skip+n {
			err = nil
		} else if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		b := block{at: at, mem: mem, err: err}
		if err == nil {
			b.data = mem[skip : skip+n]
		}
		r.full <- b
	}
}

// From returns bytes of the file from a place on, at least one, which is not before that of the last call. They are
// valid until the next call. io.ErrUnexpectedEOF behind the end.
func (r *Reader) From(at int64) ([]byte, error) {
	if r.full == nil && at >= r.now.at {
		r.begin(at)
	}
	for r.err == nil && at >= r.now.at+int64(len(r.now.data)) {
		if r.now.mem != nil {
			r.free <- r.now.mem
		}
		next, more := <-r.full
		if !more {
			next.err = io.ErrUnexpectedEOF
		}
		r.now, r.err = next, next.err
	}
	if r.err == nil && at < r.now.at {
		r.err = io.ErrUnexpectedEOF
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.now.data[at-r.now.at:], nil
}

// Close ends the reading.
func (r *Reader) Close() error {
	if r.full == nil {
		return r.f.Close()
	}
	close(r.free)
	for range r.full { // until the goroutine has ended
	}
	return r.f.Close()
}
