package source

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"
)

// How much is read of files for their checksum. Tests change it.
var (
	wholeBytes int64 = 1 << 30   // what all have together at most for all of it to be read
	blockBytes int64 = 256 << 10 // of what is read of more
)

// read is a file that a source was read from.
type read struct {
	name string // the same on every machine
	path string
	size int64
}

// Checksum tells sources apart: by names and sizes of the files of a tree that were opened, and of others, and by what
// they hold. Of files that have more than 1 GiB together it reads blocks of 256 KiB, 1 GiB in all: the first and the
// last of each file, and others evenly between. docs/format.md says what that is good for.
func Checksum(ctx context.Context, t *Tree, others ...string) (sum [16]byte, err error) {
	var files []read
	for path, st := range t.opened {
		name, err := filepath.Rel(t.dir, path)
		if err != nil || t.single || t.spool != nil {
			name = filepath.Base(path)
		}
		files = append(files, read{filepath.ToSlash(name), path, st.Size()})
	}
	slices.SortFunc(files, func(a, b read) int { return cmp.Compare(a.name, b.name) })
	for _, path := range others {
		st, err := Stat(path)
		if err != nil {
			return sum, err
		}
		files = append(files, read{filepath.Base(path), path, st.Size()})
	}
	total, h := int64(0), xxh3.New()
	for _, f := range files {
		total += f.size
	}
	for _, f := range files {
		_, _ = h.Write(binary.LittleEndian.AppendUint64([]byte(f.name+"\x00"), uint64(f.size)))
		if err := f.addTo(ctx, h, total); err != nil {
			return sum, err
		}
	}
	return h.Sum128().Bytes(), nil
}

// addTo hashes what Checksum reads of a file, which is one of several of so many bytes together.
func (r read) addTo(ctx context.Context, h *xxh3.Hasher, total int64) error {
	f, _, err := OpenFile(r.path)
	if err != nil {
		return err
	}
	defer f.Close()
	blocks, apart := (r.size+blockBytes-1)/blockBytes, blockBytes
	if total > wholeBytes {
		if some := max(2, blocks/(total/wholeBytes+1)); some < blocks {
			blocks, apart = some, (r.size-blockBytes)/(some-1)
		}
	}
	buf := make([]byte, blockBytes)
	for i := range blocks {
		at := i * apart
		if i > 0 && i == blocks-1 {
			at = max(r.size-blockBytes, 0)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := f.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return Error(r.path, "", -1, "", err)
		}
		_, _ = h.Write(buf[:n])
	}
	return nil
}
