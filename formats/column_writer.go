package formats

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/direct"
)

// writeBuffer is how much a column writer collects before it writes.
const writeBuffer = 256 << 10

// ColumnMemory is what an open ColumnWriter takes, in bytes, about.
const ColumnMemory = writeBuffer + 4<<10

// ColumnWriter takes the elements of one array, in order, as their bytes in little-endian order and in pieces of any
// length, in constant memory. One goroutine at a time; different column writers are independent.
type ColumnWriter struct {
	a    *written
	l    layout
	buf  []byte
	sums chunkHasher
	n    int64 // bytes taken
	most bool  // the announced rows are a bound
	err  error
}

func newColumnWriter(w *Writer, a *written, rows int64) (*ColumnWriter, error) {
	c := &ColumnWriter{a: a, l: newLayout(a.typ, rows, 0), sums: newChunkHasher(w.opt.chunkBytes)}
	if err := a.file.reserve(c.l.bodyOffset + c.l.bytes + int64(len(c.l.tail()))); err != nil {
		return nil, err
	}
	if max(w.opt.ExpectBytes, c.l.bytes) >= directDataset && c.l.bytes >= directArray {
		a.file.passCache()
	}
	head := c.l.head()
	if err := a.file.writeAll(head); err != nil {
		return nil, err
	}
	c.buf = make([]byte, 0, min(writeBuffer, max(c.l.bytes, 1)))
	return c, nil
}

// Annotate sets what the manifest says besides of the column, before Close: the unit of its values, the scale that a
// stored number is multiplied by, and the fill that stands for absent values. NaN is none.
func (c *ColumnWriter) Annotate(unit string, scale, fill float64) {
	c.a.info.Unit, c.a.info.Scale, c.a.info.Fill = unit, optional(scale), optional(fill)
}

func optional(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Write takes the next bytes of the array; p is not kept. An error is final: later calls return it again.
func (c *ColumnWriter) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if int64(len(p)) > c.l.bytes-c.n {
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

func (c *ColumnWriter) flush() error {
	err := c.put(c.buf)
	c.buf = c.buf[:0]
	return err
}

func (c *ColumnWriter) put(p []byte) error {
	c.sums.add(p)
	err := c.a.file.writeAll(p)
	c.a.file.w.progress.add(int64(len(p)))
	return err
}

func (c *ColumnWriter) lengthError(n int64) error {
	return &Error{Path: c.a.file.path, Column: c.a.typ.name, Row: -1,
		Err: fmt.Errorf("%s bytes written, but %s rows take %s",
			humanize.Comma(n), humanize.Comma(c.l.rows), humanize.Comma(c.l.bytes))}
}

// Close finishes the file and waits until it is on the disk. It is an error if bytes are missing. Later calls return
// the first result.
func (c *ColumnWriter) Close() error {
	if c.a.closed || c.err != nil {
		return c.err
	}
	if c.most && c.n < c.l.bytes && c.n%c.a.typ.rowBytes() == 0 {
		if c.err = c.flush(); c.err == nil {
			c.err = c.shorten()
		}
		if c.err != nil {
			return c.err
		}
	}
	if c.n != c.l.bytes {
		c.err = c.lengthError(c.n)
		return c.err
	}
	if c.err = c.flush(); c.err == nil {
		c.err = c.a.finish(c.l, c.sums.finish())
	}
	c.buf = nil
	return c.err
}

// AtMost says that the rows that were announced are a bound: Close takes fewer. It is called before the first Write.
func (c *ColumnWriter) AtMost() { c.most = true }

// shorten makes the file one of as many rows as were written.
func (c *ColumnWriter) shorten() error {
	rows := c.n / c.a.typ.rowBytes()
	l := newLayout(c.a.typ, rows, 0)
	f := c.a.file
	if err := f.settle(); err != nil {
		return err
	}
	fail := func(err error) error { return writeError(f.path, err, 0) }
	if l.bodyOffset != c.l.bodyOffset { // of a short body, which has another alignment
		body := make([]byte, l.bytes)
		if _, err := f.ReadAt(body, c.l.bodyOffset); err != nil {
			return fail(err)
		}
		if _, err := f.WriteAt(body, l.bodyOffset); err != nil {
			return fail(err)
		}
	}
	if _, err := f.WriteAt(l.head(), 0); err != nil {
		return fail(err)
	}
	if err := f.Truncate(l.bodyOffset + l.bytes); err != nil {
		return fail(err)
	}
	if _, err := f.Seek(l.bodyOffset+l.bytes, io.SeekStart); err != nil {
		return fail(err)
	}
	c.l, c.a.part.Rows = l, rows
	return nil
}

// finish writes the tail at the file's present position, closes the file and fills in the part.
func (a *written) finish(l layout, chunks []uint64) error {
	tail := l.tail()
	err := a.file.writeAll(tail)
	if err == nil {
		err = a.file.sync()
	}
	if err != nil {
		return err
	}
	h := xxh3.New()
	_, _ = h.Write(l.head())
	_, _ = h.Write(tail)
	w := a.file.w
	w.mu.Lock()
	defer w.mu.Unlock()
	a.part.BodyOffset, a.part.Bytes = l.bodyOffset, l.bytes
	a.part.FileBytes = l.bodyOffset + l.bytes + int64(len(tail))
	a.part.HeadXXH3, a.part.ChunkXXH3 = formatHash(h.Sum64()), newSums(chunks)
	a.closed = true
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

// columnFile is a file being written, whose errors say what they mean.
type columnFile struct {
	*os.File
	path string
	w    *Writer
	need int64 // bytes that the whole file takes, as far as that is known
	have int64 // bytes written
	sent int64 // of these the system was told to bring to the disk
	// takes what is written, past the page cache; nil: it goes through the cache
	behind *direct.Behind
}

// Arrays of datasets from directDataset bytes on pass the page cache by, where they have directArray or more: copying
// costs more than writing does, and the cache, which would lose what it holds, could keep little of them. Smaller ones
// stay in the cache, where whoever trains next finds them. Tests change these.
var (
	directDataset int64 = 1 << 30
	directArray   int64 = 64 << 20
	directBlock         = 1 << 20
)

// mostDirect is how many files of a dataset pass the cache by at a time: each takes memory.
const mostDirect = 8

// passCache has what is written from here on, the beginning of the file, pass the page cache by where that can be.
func (f *columnFile) passCache() {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.w.direct == mostDirect {
		return
	}
	if b, err := direct.NewBehind(f.File, directBlock); err == nil {
		f.behind = b
		f.w.direct++
	}
}

// settle ends that, and returns the error of what was written so far.
func (f *columnFile) settle() error {
	if f.behind == nil {
		return nil
	}
	err := f.behind.Close()
	f.behind = nil
	f.w.mu.Lock()
	f.w.direct--
	f.w.mu.Unlock()
	if err != nil {
		return writeError(f.path, err, f.need)
	}
	return nil
}

// sendStep is how much is written before the system is told to bring it to the disk: by itself it waits for long, and
// then whoever syncs the file waits for it.
const sendStep = 32 << 20

// reserve says what the file will take, and takes it from the disk where that is possible.
func (f *columnFile) reserve(n int64) error {
	f.need = n
	if err := reserveSpace(f.File, n); err != nil {
		return writeError(f.path, err, n)
	}
	return nil
}

func (f *columnFile) writeAll(p []byte) error {
	var to io.Writer = f.File
	if f.behind != nil {
		to = f.behind
	}
	n, err := to.Write(p)
	f.have += int64(n)
	if err != nil {
		return writeError(f.path, err, max(f.need-f.have, int64(len(p)-n)))
	}
	if f.behind == nil && f.have-f.sent >= sendStep {
		sendToDisk(f.File, f.sent, f.have-f.sent)
		f.sent = f.have
	}
	return nil
}

// sync makes the file durable and closes it.
func (f *columnFile) sync() error {
	err := f.settle()
	if err == nil {
		err = f.File.Sync()
	}
	if e := f.File.Close(); err == nil {
		err = e
	}
	if err != nil {
		return writeError(f.path, err, f.need)
	}
	return nil
}

// writeError explains an error of the system. need is how many bytes were still to be written, 0 if that is not known.
func writeError(path string, err error, need int64) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if !isNoSpace(err) {
		return fileError(path, "", err)
	}
	what := "the disk is full"
	if free, e := freeSpace(dirOf(path)); e == nil {
		what = fmt.Sprintf("%s bytes (%s) are free", humanize.Comma(free), humanize.IBytes(uint64(free)))
	}
	if need > 0 {
		what = fmt.Sprintf("%s bytes (%s) more are needed for this file alone, %s", humanize.Comma(need),
			humanize.IBytes(uint64(need)), what)
	}
	return fileError(path, "make room, or choose another disk", fmt.Errorf("%w: %s: %w", ErrSpace, what, err))
}

// progressMeter counts bytes over all column writers.
type progressMeter struct {
	mu    sync.Mutex
	f     Progress
	stage string
	done  int64
	total int64
	told  int64
}

const progressStep = 16 << 20

func (p *progressMeter) add(n int64) {
	if p.f == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.done-p.told >= progressStep {
		p.told = p.done
		p.f(p.stage, p.done, p.total)
	}
}

func (p *progressMeter) finish() {
	if p.f == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.f(p.stage, p.done, p.done)
}
