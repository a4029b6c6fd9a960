package staged

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/internal/machine"
)

// sourceChunk is the bytes of the chunks that files of sources are brought by, several of them by a request: few beside
// a part of a source, and beside what is read at the ends of its files. Those of large sources are longer, so that
// there are mostUnits.
const (
	sourceChunk = 256 << 10
	mostUnits   = 1 << 22
)

// Source is a source from elsewhere, in the cache.
type Source struct {
	*Entry
	Path    string // of the file or folder
	Content string // tells it from others, and from what it was
	Files   int
	Bytes   int64
}

// OpenSource makes the entry of a source, an object or all objects of a folder. Nothing is brought. Where one of them
// changes, the source is another one.
func OpenSource(ctx context.Context, c Cache, client *ranges.Client, at address.Location) (*Source, error) {
	list, folder, err := client.Find(ctx, at)
	if err != nil {
		return nil, err
	}
	key := sha256.New()
	fmt.Fprintln(key, at)
	d, bytes := Dataset{Source: at.String(), Chunk: sourceChunk}, int64(0)
	d.Files = make([]File, 0, len(list))
	for _, f := range list {
		fmt.Fprintf(key, "%q %d %q\n", f.Name, f.Size, f.Version)
		d.Files = append(d.Files, File{Path: f.Name, Bytes: f.Size, Size: f.Size})
		bytes += min(f.Size, math.MaxInt64-bytes)
	}
	for d.Chunk < ranges.RangeBytes && bytes/d.Chunk > mostUnits {
		d.Chunk *= 2
	}
	if bytes/d.Chunk > mostUnits {
		return nil, fmt.Errorf("%s: %w: it has %s, and %s are the most that are brought", at, ErrRoom,
			machine.Bytes(bytes), machine.Bytes(mostUnits*d.Chunk))
	}
	d.Key = fmt.Sprintf("source-%x", key.Sum(nil)[:16])
	d.Object = func(i int) *ranges.Object {
		if folder {
			return client.Object(at.Join(list[i].Name), list[i].Size).Expect(list[i].Version)
		}
		return client.Object(at, list[i].Size).Expect(list[i].Version)
	}
	e, err := Open(ctx, c, d)
	if err != nil {
		return nil, err
	}
	s := &Source{e, e.Dir(), d.Key, len(list), bytes}
	if !folder {
		s.Path = filepath.Join(s.Path, filepath.FromSlash(list[0].Name))
	}
	return s, nil
}

// At returns what brings the bytes of a file in the cache, from one on to another; nil of a file that is not the
// source's.
func (s *Source) At(path string) func(ctx context.Context, from, to int64) error {
	name, err := filepath.Rel(s.Dir(), path)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(s.x.Files, func(f File) bool { return f.Path == filepath.ToSlash(name) })
	if i < 0 {
		return nil
	}
	return func(ctx context.Context, from, to int64) error { return s.Range(ctx, i, from, to) }
}

// Bring brings all of it.
func (s *Source) Bring(ctx context.Context, progress func(done, total int64)) error {
	all := make([]int, s.Files)
	for i := range all {
		all[i] = i
	}
	return s.Whole(ctx, all, progress)
}
