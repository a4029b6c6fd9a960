package arrayfile

import (
	"io"
	"os"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/direct"
)

// ChunkBytes is how much of the elements one checksum covers in datasets that are written. Tests of other packages make
// it smaller.
var ChunkBytes int64 = 64 << 20

// Shared is what the files of one dataset share while they are written. It is set before the first of them.
type Shared struct {
	ChunkBytes int64             // of elements that one checksum covers
	Expect     int64             // bytes of all files, about; 0 is not known
	Direct     Direct            // which arrays pass the page cache by
	Wrote      func(bytes int64) // receives the bytes of elements that were written
	// WriteError explains an error of the system. need is how many bytes were still to be written; 0: not known.
	WriteError func(path string, err error, need int64) error
	// Misuse says of an array, or of its row from 0, what its writer got wrong.
	Misuse func(path, array string, row int64, err error) error

	mu     sync.Mutex
	direct int // files that pass the page cache by, now
}

// Direct says that arrays of at least Array bytes pass the page cache by, in blocks, in datasets of at least Dataset
// bytes: copying costs more than writing does, and the cache, which would lose what it holds, could keep little of
// them. Smaller ones stay in the cache, where whoever trains next finds them.
type Direct struct {
	Dataset, Array int64
	Block          int
}

// mostDirect is how many files of a dataset pass the cache by at a time: each takes memory.
const mostDirect = 8

// file is a file being written, whose errors say what they mean.
type file struct {
	*os.File
	path string
	s    *Shared
	need int64 // bytes that the whole file takes, as far as that is known
	have int64 // bytes written
	sent int64 // of these, what the system was asked to bring to the disk
	// takes what is written, past the page cache; nil: it goes through the cache
	behind *direct.Behind
}

// passCache has what is written from here on, the beginning of the file, pass the page cache by where that can be.
func (f *file) passCache() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.s.direct == mostDirect {
		return
	}
	if b, err := direct.NewBehind(f.File, f.s.Direct.Block); err == nil {
		f.behind = b
		f.s.direct++
	}
}

// settle ends that, and returns the error of what was written so far.
func (f *file) settle() error {
	if f.behind == nil {
		return nil
	}
	err := f.behind.Close()
	f.behind = nil
	f.s.mu.Lock()
	f.s.direct--
	f.s.mu.Unlock()
	if err != nil {
		return f.fail(err, f.need)
	}
	return nil
}

// sendStep is how much is written before the system is asked to bring it to the disk: by itself it waits for long, and
// then whoever syncs the file waits for it.
const sendStep = 32 << 20

// reserve says what the file will take, and takes it from the disk where that is possible.
func (f *file) reserve(n int64) error {
	f.need = n
	if err := reserveSpace(f.File, n); err != nil {
		return f.fail(err, n)
	}
	return nil
}

func (f *file) writeAll(p []byte) error {
	var to io.Writer = f.File
	if f.behind != nil {
		to = f.behind
	}
	n, err := to.Write(p)
	f.have += int64(n)
	if err != nil {
		return f.fail(err, max(f.need-f.have, int64(len(p)-n)))
	}
	if f.behind == nil {
		direct.Wrote(f.File, f.have-int64(n), int64(n))
		if f.have-f.sent >= sendStep {
			sendToDisk(f.File, f.sent, f.have-f.sent)
			f.sent = f.have
		}
	}
	return nil
}

// finish writes the tail at the file's present position, makes the file durable and closes it.
func (f *file) finish(l Layout, chunks []uint64) (*Written, error) {
	tail := l.Tail()
	if err := f.writeAll(tail); err != nil {
		return nil, err
	}
	err := f.settle()
	if err == nil {
		if e := f.File.Sync(); e != nil {
			err = f.fail(e, f.need)
		}
	}
	if e := f.File.Close(); err == nil && e != nil {
		err = f.fail(e, f.need)
	}
	if err != nil {
		return nil, err
	}
	h := xxh3.New()
	_, _ = h.Write(l.Head())
	_, _ = h.Write(tail)
	bytes := l.BodyOffset + l.Bytes + int64(len(tail))
	return &Written{Layout: l, FileBytes: bytes, Head: h.Sum64(), Chunks: chunks}, nil
}

// fail explains an error of the system. need is how many bytes were still to be written, 0 if that is not known.
func (f *file) fail(err error, need int64) error { return f.s.WriteError(f.path, err, need) }
