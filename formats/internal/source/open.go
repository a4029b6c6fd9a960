package source

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/pinned"
)

// File is an input file being read, decompressed where it is compressed.
type File struct {
	io.Reader
	Path        string
	Compression string // "gzip", "zstd" or ""
	Size        int64  // of the file, in bytes as it lies on the disk
	in          *counted
	raw         io.Closer
	close       func()
	window      int64 // bytes that decompressing keeps, where they are many
	ledger      *pinned.Ledger
	mark        int64 // bytes of the byte order mark that a text begins with
}

// counted reads a file from its beginning on, and counts. One that ends before its size is an error.
type counted struct {
	r    *Raw
	read int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.ReadAt(p, c.read)
	c.read += int64(n)
	switch {
	case n > 0 && err == io.EOF:
		err = nil
	case err == io.EOF && c.read < c.r.Size:
		err = wholefile.EndsEarly(c.read, c.r.Size)
	}
	return n, err
}

var magics = []struct{ name, bytes string }{
	{"gzip", "\x1f\x8b"}, {"zstd", "\x28\xb5\x2f\xfd"}, {"bzip2", "BZh"}, {"xz", "\xfd7zXZ\x00"},
	{"lz4", "\x04\x22\x4d\x18"},
}

// The window is what a Zstandard file makes the reader keep: freeWindow without being counted, at most maxWindow.
const (
	freeWindow = 8 << 20
	maxWindow  = 512 << 20
)

// Stat tells what a source is: a regular file or a directory. Anything else is an error: sources are read more than
// once, and a pipe could not even be opened without waiting for who writes to it.
func Stat(path string) (fs.FileInfo, error) {
	st, err := os.Stat(path)
	switch {
	case path == "-" && errors.Is(err, fs.ErrNotExist):
		return nil, Error(path, "", -1, "write it to a file first", errors.New("standard input is not read"))
	case err != nil:
		return nil, err
	}
	if st.IsDir() || st.Mode().IsRegular() {
		return st, nil
	}
	return st, Error(path, "", -1, "copy it to a file first: a file is read more than once",
		fmt.Errorf("is %s", wholefile.KindOf(st.Mode())))
}

// OpenFile opens a regular file, as it lies on the disk. It never waits.
func OpenFile(path string) (*os.File, fs.FileInfo, error) {
	st, err := Stat(path)
	if err == nil && st.IsDir() {
		err = Error(path, "", -1, "name a file", errors.New("is a directory"))
	}
	if err != nil {
		return nil, nil, err
	}
	return wholefile.Open(path)
}

// Lines opens lines of a text that is not compressed, in UTF-8: those from a byte on to another, at both of which a
// line begins. Their text is plain, as that of OpenText.
func (p Place) Lines(from, to int64) (*File, error) {
	raw, err := p.Raw()
	if err != nil {
		return nil, err
	}
	if to > raw.Size {
		return nil, errors.Join(Error(raw.Path, "", -1, "", wholefile.EndsEarly(raw.Size, to)), raw.Close())
	}
	if raw.bring != nil { // at once, by several requests
		if err := raw.bring(from, to); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
	}
	raw.Size = to
	f := &File{Path: raw.Path, Size: to, in: &counted{r: raw, read: from}, raw: raw, close: func() {}}
	f.Reader = &text{path: f.Path, r: bufio.NewReaderSize(io.LimitReader(f.in, to-from), fileAhead)}
	return f, nil
}

// LineFrom returns where the first line begins that begins at a byte or behind it, of lines that end as OpenText
// defines; the end of the file for none. A line is expected to have MaxRecord bytes at most.
func (r *Raw) LineFrom(at int64) (int64, error) {
	if at == 0 {
		return 0, nil
	}
	buf := make([]byte, 4<<10)
	for from := at - 1; from < min(r.Size, at+2*MaxRecord); {
		n, err := r.ReadAt(buf, from)
		if err != nil && err != io.EOF {
			return 0, Error(r.Path, "", -1, "", err)
		}
		for i, c := range buf[:n] {
			last := from+int64(i)+1 == r.Size
			switch {
			case c == '\n' || last:
				return from + int64(i) + 1, nil
			case c == '\r' && i+1 < n && buf[i+1] != '\n':
				return from + int64(i) + 1, nil
			}
		}
		from += max(int64(n)-1, 1) // a CR at the end is looked at again
	}
	return r.Size, nil
}

// Open opens a regular file. gzip, bzip2 and Zstandard are recognised by their first bytes and decompressed as they are
// read.
func Open(path string) (*File, error) { return Local(path).Open() }

// fileAhead is how much of a file is read at a time.
const fileAhead = 1 << 18

func newFile(raw *Raw) (*File, error) {
	file := &File{Path: raw.Path, Size: raw.Size, in: &counted{r: raw}, raw: raw, close: func() {}}
	b := bufio.NewReaderSize(file.in, int(min(max(raw.Size, 64), fileAhead))) // an archive may have many that are small
	head, err := b.Peek(6)
	if err != nil && err != io.EOF { // it could be compressed
		return nil, errors.Join(Error(file.Path, "", -1, "", err), raw.Close())
	}
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.bytes)) {
			file.Compression = m.name
		}
	}
	if err := file.decompress(b); err != nil {
		return nil, errors.Join(Error(file.Path, "", -1, "", err), raw.Close())
	}
	return file, nil
}

func (f *File) decompress(b *bufio.Reader) error {
	switch f.Compression {
	case "":
		f.Reader = b
	case "gzip":
		r, err := gzip.NewReader(b)
		if err != nil {
			return err
		}
		f.Reader = r
	case "bzip2":
		f.Reader = bzip2.NewReader(b)
	case "zstd":
		f.window = zstdWindow(b)
		r, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(uint64(min(max(f.window, freeWindow), maxWindow))))
		if err != nil {
			return err
		}
		f.Reader, f.close = r, r.Close
	default:
		return fmt.Errorf("is compressed by %s, which is not supported: decompress it first", f.Compression)
	}
	return nil
}

// zstdWindow returns the window of the first frame, which later ones may not exceed, unless it is small.
func zstdWindow(b *bufio.Reader) int64 {
	head, _ := b.Peek(zstd.HeaderMaxSize)
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return 0 // the reader will say so
	}
	if h.SingleSegment {
		return int64(min(h.FrameContentSize, maxWindow))
	}
	return int64(min(h.WindowSize, maxWindow))
}

// Count counts what decompressing keeps in l, until Close. It is called before the first byte is read. pinned.ErrLimit
// says what is needed.
func (f *File) Count(l *pinned.Ledger) error {
	if f.window <= freeWindow || f.ledger != nil {
		return nil
	}
	if err := l.Take(pinned.Sources, f.window); err != nil {
		return Error(f.Path, "", -1, "decompress it first", err)
	}
	f.ledger = l
	return nil
}

// OpenCounted opens a file, and counts what decompressing it keeps.
func OpenCounted(open func() (*File, error), l *pinned.Ledger) (*File, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	if err := f.Count(l); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Done returns how many bytes of the file, as it lies on the disk, have been read.
func (f *File) Done() int64 { return f.in.read }

// Mark returns how many bytes of a text stand before the first that is read of it, and are left out.
func (f *File) Mark() int64 { return f.mark }

// Raw returns the file as it lies on the disk.
func (f *File) Raw() io.ReaderAt { return f.in.r }

// Close closes the file.
func (f *File) Close() error {
	f.close()
	if f.ledger != nil {
		f.ledger.Give(pinned.Sources, f.window)
		f.ledger = nil
	}
	return f.raw.Close()
}
