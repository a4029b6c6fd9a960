package formats

import (
	"cmp"
	"slices"
	"sync"
	"unsafe"

	"github.com/dustin/go-humanize"
	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/pinned"
)

// verifiedFile is the elements of a file, and which chunks of them have been compared with their checksums.
type verifiedFile struct {
	dir   string
	path  string
	part  *Part
	body  []byte // mapped
	chunk int64

	once   sync.Once
	err    error // of the list of sums
	sums   []uint64
	chunks []verifiedChunk
}

type verifiedChunk struct {
	mu   sync.Mutex
	done bool
	err  error
}

// verifiable notes the elements of a file that was mapped.
func (d *Dataset) verifiable(path string, p *Part, body []byte) {
	if len(body) > 0 {
		d.verified = append(d.verified, &verifiedFile{dir: d.dir, path: path, part: p, body: body,
			chunk: d.manifest.ChunkBytes})
	}
}

// Verify compares the chunks of the dataset's files in which b lies with their checksums, each chunk once in the life
// of the dataset: b is elements of a tensor of this dataset. Memory that is not of its files is right. A chunk has
// 64 MiB, which are read whole.
//
// ErrCorrupt, with the file and the bytes, where a chunk does not fit; pinned.ErrFault where it cannot be read. It is
// safe for concurrent use: who asks for a chunk that is being read waits for it.
func (d *Dataset) Verify(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	d.byAddress.Do(func() {
		slices.SortFunc(d.verified, func(a, b *verifiedFile) int {
			return cmp.Compare(addressOf(a.body), addressOf(b.body))
		})
	})
	p := addressOf(b)
	i, found := slices.BinarySearchFunc(d.verified, p, func(f *verifiedFile, p uintptr) int {
		return cmp.Compare(addressOf(f.body), p)
	})
	if !found {
		i--
	}
	if i < 0 || p-addressOf(d.verified[i].body) >= uintptr(len(d.verified[i].body)) {
		return nil
	}
	f := d.verified[i]
	lo := int64(p - addressOf(f.body))
	return f.verify(lo, min(lo+int64(len(b)), int64(len(f.body))))
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// verify compares the chunks of bytes lo to hi.
func (f *verifiedFile) verify(lo, hi int64) error {
	f.once.Do(func() {
		f.chunks = make([]verifiedChunk, (int64(len(f.body))+f.chunk-1)/f.chunk)
		if f.sums, f.err = f.part.sums(f.chunk); f.err != nil {
			f.err = withRemedy(f.dir, fileError(f.path, remedyConvert, f.err))
		}
	})
	if f.err != nil {
		return f.err
	}
	for c := lo / f.chunk; c*f.chunk < hi; c++ {
		if err := f.verifyChunk(c); err != nil {
			return err
		}
	}
	return nil
}

func (f *verifiedFile) verifyChunk(c int64) error {
	v := &f.chunks[c]
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done {
		return v.err
	}
	from, to := c*f.chunk, min((c+1)*f.chunk, int64(len(f.body)))
	sum := uint64(0)
	v.err = pinned.Guard(func() error {
		sum = xxh3.Hash(f.body[from:to])
		return nil
	})
	if v.err == nil && sum != f.sums[c] {
		v.err = withRemedy(f.dir, chunkError(f.path, f.part, from, to))
	}
	v.done = true
	return v.err
}

// chunkError says that bytes from to to of a file's elements are not what they were.
func chunkError(path string, p *Part, from, to int64) error {
	return corrupt(path, "bytes %s to %s do not fit their checksum", humanize.Comma(p.BodyOffset+from),
		humanize.Comma(p.BodyOffset+to))
}
