package direct

import (
	"io"
	"os"
)

// Ahead reads a range of a file in order, some blocks before they are needed. It has one owner, who calls Close.
type Ahead struct {
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

// aheadBlocks is how many blocks an Ahead has: one is used, one is ready, one is read.
const aheadBlocks = 3

// AheadMemory returns the memory of an Ahead with blocks of that size.
func AheadMemory(blockBytes int) int64 { return aheadBlocks * int64(blockBytes+2*Align) }

// NewAhead returns a reader of bytes at to end of a file, which stays the caller's, in blocks of blockBytes. It reads
// from the first call of From on. An error says that the file cannot be read past the page cache.
func NewAhead(f *os.File, at, end int64, blockBytes int) (*Ahead, error) {
	d, err := Open(f)
	if err != nil {
		return nil, err
	}
	if _, err := ReadAt(d, make([]byte, min(1, end-at)), at); err != nil {
		_ = d.Close()
		return nil, err
	}
	return &Ahead{f: d, size: int64(blockBytes), now: block{at: at}, end: end}, nil
}

// begin begins to read at a place.
func (a *Ahead) begin(at int64) {
	a.full, a.free = make(chan block, aheadBlocks), make(chan []byte, aheadBlocks)
	for range aheadBlocks {
		a.free <- Buffer((int(a.size) + 2*Align) &^ (Align - 1))
	}
	go a.read(at)
}

// read fills blocks until Close, or until there are no more.
func (a *Ahead) read(at int64) {
	defer close(a.full)
	for ; at < a.end; at += a.size {
		mem, more := <-a.free
		if !more {
			return
		}
		from, n := at&^(Align-1), min(a.size, a.end-at)
		skip := at - from
		got, err := a.f.ReadAt(mem[:(skip+n+Align-1)&^(Align-1)], from)
		if int64(got) >= skip+n {
			err = nil
		} else if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		b := block{at: at, mem: mem, err: err}
		if err == nil {
			b.data = mem[skip : skip+n]
		}
		a.full <- b
	}
}

// From returns bytes of the file from a place on, at least one, which is not before that of the last call. They are
// valid until the next call. io.ErrUnexpectedEOF behind the end.
func (a *Ahead) From(at int64) ([]byte, error) {
	if a.full == nil && at >= a.now.at {
		a.begin(at)
	}
	for a.err == nil && at >= a.now.at+int64(len(a.now.data)) {
		if a.now.mem != nil {
			a.free <- a.now.mem
		}
		next, more := <-a.full
		if !more {
			next.err = io.ErrUnexpectedEOF
		}
		a.now, a.err = next, next.err
	}
	if a.err == nil && at < a.now.at {
		a.err = io.ErrUnexpectedEOF
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.now.data[at-a.now.at:], nil
}

// Close ends the reading.
func (a *Ahead) Close() error {
	if a.full == nil {
		return a.f.Close()
	}
	close(a.free)
	for range a.full { // until the goroutine has ended
	}
	return a.f.Close()
}
