package arrayfile

import (
	"fmt"
	"io"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/zeebo/xxh3"
)

// writeBuffer is how much a writer collects before it writes.
const writeBuffer = 256 << 10

// WriterMemory is what an open Writer takes, in bytes, about.
const WriterMemory = writeBuffer + 4<<10

// Written describes a file that was written whole.
type Written struct {
	Layout
	FileBytes int64
	Head      uint64   // checksum of all but the elements: what is before them, then what is behind
	Chunks    []uint64 // of each chunk of elements
}

// Writer takes the elements of one array, in order, as their bytes in little-endian order and in pieces of any length,
// in constant memory. One goroutine at a time; different writers are independent.
type Writer struct {
	f    *file
	l    Layout
	buf  []byte
	sums chunkHasher
	n    int64 // bytes taken
	most bool  // the announced rows are a bound
	done *Written
	err  error
}

// Writer begins an array in a file that is empty, and closes the file in the end.
func (s *Shared) Writer(f *os.File, path string, a Type, rows int64) (*Writer, error) {
	c := &Writer{f: &file{File: f, path: path, s: s}, l: NewLayout(a, rows, 0), sums: newChunkHasher(s.ChunkBytes)}
	if err := c.f.reserve(c.l.BodyOffset + c.l.Bytes + int64(len(c.l.Tail()))); err != nil {
		return nil, err
	}
	if max(s.Expect, c.l.Bytes) >= s.Direct.Dataset && c.l.Bytes >= s.Direct.Array {
		c.f.passCache()
	}
	if err := c.f.writeAll(c.l.Head()); err != nil {
		return nil, err
	}
	c.buf = make([]byte, 0, min(writeBuffer, max(c.l.Bytes, 1)))
	return c, nil
}

// Write takes the next bytes of the array; p is not kept. An error is final: later calls return it again.
func (c *Writer) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if int64(len(p)) > c.l.Bytes-c.n {
		c.err = c.lengthError(c.n + int64(len(p)))
		return 0, c.err
	}
	c.n += int64(len(p))
	taken := len(p)
	if len(c.buf)+len(p) > cap(c.buf) {
		c.err = c.flush()
		for ; c.err == nil && len(p) >= writeBuffer; p = p[min(len(p), 16*writeBuffer):] {
			c.err = c.put(p[:min(len(p), 16*writeBuffer)])
		}
	}
	c.buf = append(c.buf, p...)
	if c.err != nil {
		return 0, c.err
	}
	return taken, nil
}

func (c *Writer) flush() error {
	err := c.put(c.buf)
	c.buf = c.buf[:0]
	return err
}

func (c *Writer) put(p []byte) error {
	c.sums.add(p)
	err := c.f.writeAll(p)
	c.f.s.Wrote(int64(len(p)))
	return err
}

func (c *Writer) lengthError(n int64) error {
	return c.f.s.Misuse(c.f.path, c.l.Name, -1, fmt.Errorf("%s bytes written, but %s rows take %s",
		humanize.Comma(n), humanize.Comma(c.l.Rows), humanize.Comma(c.l.Bytes)))
}

// Close finishes the file, waits until it is on the disk, and says what was written. It is an error if bytes are
// missing. Later calls return the first result.
func (c *Writer) Close() (*Written, error) {
	if c.done == nil && c.err == nil {
		c.done, c.err = c.finish()
		c.buf = nil
	}
	return c.done, c.err
}

func (c *Writer) finish() (*Written, error) {
	short := c.most && c.n < c.l.Bytes && c.n%c.l.RowBytes() == 0
	if c.n != c.l.Bytes && !short {
		return nil, c.lengthError(c.n)
	}
	if err := c.flush(); err != nil {
		return nil, err
	}
	if short {
		if err := c.shorten(); err != nil {
			return nil, err
		}
	}
	return c.f.finish(c.l, c.sums.finish())
}

// AtMost says that the rows that were announced are a bound: Close takes fewer. It is called before the first Write.
func (c *Writer) AtMost() { c.most = true }

// shorten makes the file one of as many rows as were written.
func (c *Writer) shorten() error {
	rows := c.n / c.l.RowBytes()
	l := NewLayout(c.l.Type, rows, 0)
	f := c.f
	if err := f.settle(); err != nil {
		return err
	}
	fail := func(err error) error { return f.fail(err, 0) }
	if l.BodyOffset != c.l.BodyOffset { // of a short body, which has another alignment
		body := make([]byte, l.Bytes)
		if _, err := f.ReadAt(body, c.l.BodyOffset); err != nil {
			return fail(err)
		}
		if _, err := f.WriteAt(body, l.BodyOffset); err != nil {
			return fail(err)
		}
	}
	if _, err := f.WriteAt(l.Head(), 0); err != nil {
		return fail(err)
	}
	if err := f.Truncate(l.BodyOffset + l.Bytes); err != nil {
		return fail(err)
	}
	if _, err := f.Seek(l.BodyOffset+l.Bytes, io.SeekStart); err != nil {
		return fail(err)
	}
	c.l = l
	return nil
}

// chunkHasher makes a checksum of each chunk of a stream.
type chunkHasher struct {
	chunk int64
	left  int64 // of the present chunk
	h     *xxh3.Hasher
	sums  []uint64
}

func newChunkHasher(chunk int64) chunkHasher {
	return chunkHasher{chunk: chunk, left: chunk, h: xxh3.New()}
}

func (c *chunkHasher) add(p []byte) {
	for len(p) > 0 {
		n := min(int64(len(p)), c.left)
		_, _ = c.h.Write(p[:n])
		p = p[n:]
		if c.left -= n; c.left == 0 {
			c.close()
		}
	}
}

func (c *chunkHasher) close() {
	c.sums = append(c.sums, c.h.Sum64())
	c.h.Reset()
	c.left = c.chunk
}

// finish returns the checksums; the last chunk may be short, and a stream of no bytes has none.
func (c *chunkHasher) finish() []uint64 {
	if c.left < c.chunk {
		c.close()
	}
	return c.sums
}

// WholeRows takes bytes in pieces of any length, and hands them on in whole rows.
type WholeRows struct {
	Row  int64                   // bytes of a row
	Take func(rows []byte) error // at least one; they are the caller's again when it returns
	rest []byte
}

// Write implements io.Writer.
func (w *WholeRows) Write(p []byte) (int, error) {
	taken, row := len(p), int(w.Row)
	if len(w.rest) > 0 {
		more := min(row-len(w.rest), len(p))
		w.rest, p = append(w.rest, p[:more]...), p[more:]
		if len(w.rest) < row {
			return taken, nil
		}
		if err := w.Take(w.rest); err != nil {
			return 0, err
		}
		w.rest = w.rest[:0]
	}
	if whole := len(p) / row * row; whole > 0 {
		if err := w.Take(p[:whole]); err != nil {
			return 0, err
		}
		p = p[whole:]
	}
	w.rest = append(w.rest, p...)
	return taken, nil
}
