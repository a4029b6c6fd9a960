//go:build cuda && cgo && linux && (amd64 || arm64)

package device

import (
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"io"
	"sync"
	"unsafe"
)

// packed is a member of a pack, whose bytes do not change.
type packed struct {
	pack   *byte
	length int
	member string
}

var unpacked sync.Map // packed: what it holds, as []byte

// unpack returns a member of a ZIP file. Callers share it.
func unpack(pack []byte, member string) ([]byte, error) {
	key := packed{unsafe.SliceData(pack), len(pack), member}
	if image, ok := unpacked.Load(key); ok {
		return image.([]byte), nil
	}
	image, err := decompress(pack, member)
	if err != nil {
		return nil, err
	}
	shared, _ := unpacked.LoadOrStore(key, image)
	return shared.([]byte), nil
}

// zipBzip2 is the number of bzip2 among the ways to compress a member.
const zipBzip2 = 12

func decompress(pack []byte, member string) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(pack), int64(len(pack)))
	if err != nil {
		return nil, err
	}
	z.RegisterDecompressor(zipBzip2, func(r io.Reader) io.ReadCloser { return io.NopCloser(bzip2.NewReader(r)) })
	f, err := z.Open(member)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
