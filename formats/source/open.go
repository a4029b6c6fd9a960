package source

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// File is an input file being read, decompressed where it is compressed.
type File struct {
	io.Reader
	Path        string
	Compression string // "gzip", "zstd" or ""
	Size        int64  // of the file, in bytes as it lies on the disk
	in          *counted
	close       func()
}

type counted struct {
	f    *os.File
	read int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.f.Read(p)
	c.read += int64(n)
	return n, err
}

var magics = []struct{ name, bytes string }{
	{"gzip", "\x1f\x8b"}, {"zstd", "\x28\xb5\x2f\xfd"}, {"bzip2", "BZh"}, {"xz", "\xfd7zXZ\x00"},
	{"lz4", "\x04\x22\x4d\x18"},
}

// maxWindow bounds what a Zstandard file may make the reader keep.
const maxWindow = 512 << 20

// Open opens a regular file. gzip, bzip2 and Zstandard are recognised by their first bytes and decompressed as they are
// read.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = Error(path, "", -1, "name a file", errors.New("is a directory"))
	} else if err == nil && !st.Mode().IsRegular() {
		err = Error(path, "", -1, "write it to a file first: it is read more than once",
			errors.New("is no regular file"))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	file := &File{Path: path, Size: st.Size(), in: &counted{f: f}, close: func() {}}
	b := bufio.NewReaderSize(file.in, 1<<18)
	head, _ := b.Peek(6)
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.bytes)) {
			file.Compression = m.name
		}
	}
	if err := file.decompress(b); err != nil {
		return nil, errors.Join(Error(path, "", -1, "", err), f.Close())
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
		r, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return err
		}
		f.Reader, f.close = r, r.Close
	default:
		return fmt.Errorf("is compressed by %s, which is not supported: decompress it first", f.Compression)
	}
	return nil
}

// Done returns how many bytes of the file, as it lies on the disk, have been read.
func (f *File) Done() int64 { return f.in.read }

// Close closes the file.
func (f *File) Close() error {
	f.close()
	return f.in.f.Close()
}
