package formats

import (
	"cmp"
	"slices"
	"sync"
	"unsafe"

	"github.com/dustin/go-humanize"
	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// chunks are the checksums of a file's elements: all that reads elements to compare them goes by these.
type chunks struct {
	path string
	part *Part
	size int64 // of a chunk
	sums []uint64
}

// chunksOf decodes the checksums of a file.
func chunksOf(path string, p *Part, size int64) (chunks, error) {
	sums, err := p.sums(size)
	if err != nil {
		return chunks{}, fileError(path, remedyConvert, err)
	}
	return chunks{path, p, size, sums}, nil
}

// bounds returns where among the elements a chunk lies.
func (c *chunks) bounds(i int) (from, to int64) {
	from = int64(i) * c.size
	return from, min(from+c.size, c.part.Bytes)
}

// compare says that a chunk, whose bytes have that sum, is not what it was.
func (c *chunks) compare(i int, sum uint64) error {
	if sum == c.sums[i] {
		return nil
	}
	from, to := c.bounds(i)
	return corrupt(c.path, "bytes %s to %s (chunk %d of %d) do not fit their checksum",
		humanize.Comma(c.part.BodyOffset+from), humanize.Comma(c.part.BodyOffset+to), i+1, len(c.sums))
}

// verifiedFile is the elements of a file, and which chunks of them have been compared with their checksums.
type verifiedFile struct {
	chunks
	dir  string
	body []byte // mapped

	once sync.Once
	err  error // of the list of sums
	each []verifiedChunk
}

type verifiedChunk struct {
	mu   sync.Mutex
	done bool
	err  error
}

// verifiable notes the elements of a file that was mapped.
func (d *Dataset) verifiable(path string, p *Part, body []byte) {
	if len(body) > 0 {
		d.verified = append(d.verified, &verifiedFile{dir: d.dir, body: body,
			chunks: chunks{path: path, part: p, size: d.manifest.ChunkBytes}})
	}
}

// Verify compares the chunks of the dataset's files that contain b with their checksums. b is elements of a tensor of
// this dataset; other memory passes. A chunk has 64 MiB. It is read whole, once while the dataset is open.
//
// ErrCorrupt, with the file and the bytes, if a chunk does not fit its checksum; pinned.ErrFault if it cannot be read.
// It is safe for concurrent use: a call for a chunk that is being read waits for it.
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

// VerifyTopology compares the arrays of the graph's edges with their checksums, as Verify does. Who writes what it
// makes of the edges calls it first: else damage would get a checksum of its own.
func (d *Dataset) VerifyTopology() error {
	for _, t := range []unified.Tensor{unified.FromSlice(d.graph.Indptr()), d.graph.Indices(), d.graph.Types()} {
		if err := d.Verify(t.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// Each verifies elements of the dataset, some megabytes at a time, and calls yield for each part in order.
// Errors are those of Verify and of yield.
func (d *Dataset) Each(elements []byte, yield func(part []byte) error) error {
	for rest := elements; len(rest) > 0; {
		part := rest[:min(len(rest), eachBytes)]
		if err := d.Verify(part); err != nil {
			return err
		}
		if err := yield(part); err != nil {
			return err
		}
		rest = rest[len(part):]
	}
	return nil
}

// eachBytes is how many bytes Each hands on at a time.
const eachBytes = 4 << 20

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// verify compares the chunks of bytes lo to hi.
func (f *verifiedFile) verify(lo, hi int64) error {
	f.once.Do(func() {
		if f.chunks, f.err = chunksOf(f.path, f.part, f.size); f.err != nil {
			f.err = withRemedy(f.dir, f.err)
		}
		f.each = make([]verifiedChunk, len(f.sums))
	})
	if f.err != nil {
		return f.err
	}
	for c := lo / f.size; c*f.size < hi; c++ {
		if err := f.verifyChunk(int(c)); err != nil {
			return err
		}
	}
	return nil
}

func (f *verifiedFile) verifyChunk(c int) error {
	v := &f.each[c]
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done {
		return v.err
	}
	from, to := f.bounds(c)
	v.err = pinned.Guard(func() error { return f.compare(c, xxh3.Hash(f.body[from:to])) })
	if v.err != nil {
		v.err = withRemedy(f.dir, v.err)
	}
	v.done = true
	return v.err
}
