package gpu

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
)

// memoryOptions say which host memory is read over the bus.
type memoryOptions struct {
	bytes int64
	file  string // to map; made where it is missing. Empty: anonymous memory
	pages string // of anonymous memory: small, huge
	copy  bool   // the file to huge pages, rather than attach it where it lies
}

func (o *memoryOptions) flags(f *flag.FlagSet) {
	f.Var((*size)(&o.bytes), "bytes", "size of the memory that is read")
	f.StringVar(&o.file, "file", "", "file to map, made where it is missing; default: anonymous memory")
	f.StringVar(&o.pages, "pages", "huge", "pages of anonymous memory: small or huge")
	f.BoolVar(&o.copy, "copy", false, "copy the file to huge pages, rather than read its own")
}

type memoryResult struct {
	Bytes   int64         `json:"bytes"`
	Backing string        `json:"backing"` // file or anonymous
	Pages   string        `json:"pages"`   // small, huge; of a file: page cache, or huge of its copy
	Rung    string        `json:"rung"`    // how the device addresses it (docs/memory.md)
	Better  []pinned.Step `json:"better,omitempty"`
	Seconds float64       `json:"seconds"` // to make it addressable
}

// memory is host memory that the device addresses. Its bytes are pattern's, here and there.
type memory struct {
	bytes      []byte
	addr       device.Address
	contiguous int64 // what one copy from the first byte on may take
	result     memoryResult
	undo       undo
}

func (r *rig) take(o memoryOptions) (*memory, error) {
	m := &memory{result: memoryResult{Bytes: o.bytes}}
	var err error
	switch {
	case o.bytes < 1<<12:
		err = fmt.Errorf("-bytes %d: must be 4096 or more", o.bytes)
	case o.file != "":
		err = r.mapFile(m, o)
	default:
		err = r.anonymous(m, o)
	}
	if err != nil {
		return nil, m.undo.run(err)
	}
	return m, nil
}

// mapFile maps a file and attaches it as a loader does.
func (r *rig) mapFile(m *memory, o memoryOptions) error {
	if err := writePattern(o.file, o.bytes); err != nil {
		return err
	}
	region, err := pinned.MapFile(o.file)
	if err != nil {
		return err
	}
	m.undo = append(m.undo, region.Close)
	begin := seconds()
	opt := pinned.AttachOptions{}
	m.result.Pages = "page cache"
	if o.copy {
		opt.From, m.result.Pages = pinned.RungCopy, "huge"
	}
	a, err := pinned.Attach(r.ctx, r.dev, region.Bytes(), opt)
	if err != nil {
		return err
	}
	m.undo = append(m.undo, a.Close)
	m.bytes, m.addr, m.contiguous = a.Bytes(), a.Address(), a.Contiguous(0)
	m.result.Backing, m.result.Rung, m.result.Better = "file", a.Rung().String(), a.Reasons()
	m.result.Seconds = begin()
	return nil
}

// patternEvery is the distance of the pages that hold a pattern; those between hold zeros, and take no room on a disk.
const (
	patternEvery = 64 << 10
	patternBytes = 4 << 10
)

// writePattern makes a file of size bytes, where there is none.
func writePattern(path string, n int64) (err error) {
	if s, err := os.Stat(path); err == nil && s.Size() == n {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	page := make([]byte, patternBytes)
	for at := int64(0); at+patternBytes <= n; at += patternEvery {
		pattern(page, at)
		if _, err := f.WriteAt(page, at); err != nil {
			return err
		}
	}
	return f.Truncate(n)
}

// pattern fills memory that begins at an offset.
func pattern(b []byte, at int64) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(at+int64(i)+8)*0x9E3779B97F4A7C15)
	}
}

// chunkBytes is how much is registered at a time.
const chunkBytes = 1 << 30

// anonymous takes anonymous memory on pages of one size, and registers it.
func (r *rig) anonymous(m *memory, o memoryOptions) error {
	b, free, err := takePages(o.bytes, o.pages)
	if err != nil {
		return err
	}
	m.undo = append(m.undo, free)
	begin := seconds()
	touch(b)
	for at := int64(0); at < o.bytes; at += chunkBytes {
		chunk := b[at:min(at+chunkBytes, o.bytes)]
		if err := r.dev.Register(chunk, false); err != nil {
			return err
		}
		m.undo = append(m.undo, func() error { return r.dev.Unregister(chunk) })
		a, err := r.dev.HostAddress(chunk)
		if err != nil {
			return err
		}
		if at == 0 {
			m.addr = a
		}
		if a != m.addr+device.Address(at) {
			return errors.New("the device addresses the pieces of the memory apart from one another")
		}
	}
	m.bytes, m.contiguous = b, min(o.bytes, chunkBytes)
	m.result.Backing, m.result.Pages, m.result.Rung = "anonymous", o.pages, "registered"
	m.result.Seconds = begin()
	return nil
}

// touch writes the pattern where a file has it, and a byte to every other page, on all cores.
func touch(b []byte) {
	var wg sync.WaitGroup
	parts := int64(runtime.GOMAXPROCS(0))
	each := (int64(len(b))/parts/patternEvery + 1) * patternEvery
	for lo := int64(0); lo < int64(len(b)); lo += each {
		hi := min(lo+each, int64(len(b)))
		wg.Go(func() {
			for at := lo; at < hi; at += patternBytes {
				if page := b[at:min(at+patternBytes, hi)]; at%patternEvery == 0 {
					pattern(page, at)
				} else {
					page[0] = 0
				}
			}
		})
	}
	wg.Wait()
}
