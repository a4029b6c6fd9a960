package staged

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"github.com/khop-gnn/khop/internal/ranges"
)

// sourceChunk is the bytes of the chunks that files of sources are brought by.
const sourceChunk = 64 << 20

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
func OpenSource(ctx context.Context, c Cache, client *ranges.Client, at ranges.Location) (*Source, error) {
	list, folder, err := client.Find(ctx, at)
	if err != nil {
		return nil, err
	}
	key := sha256.New()
	fmt.Fprintln(key, at)
	d, bytes := Dataset{Source: at.String(), Chunk: sourceChunk}, int64(0)
	objects := map[string]ranges.Location{}
	for _, f := range list {
		fmt.Fprintf(key, "%q %d %q\n", f.Name, f.Size, f.Version)
		d.Files = append(d.Files, File{Path: f.Name, Bytes: f.Size, Size: f.Size})
		if objects[f.Name] = at; folder {
			objects[f.Name] = at.Join(f.Name)
		}
		bytes += f.Size
	}
	d.Key = fmt.Sprintf("source-%x", key.Sum(nil)[:16])
	d.Object = func(path string, size int64) *ranges.Object { return client.Object(objects[path], size) }
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

// Bring brings all of it.
func (s *Source) Bring(ctx context.Context, progress func(done, total int64)) error {
	all := make([]int, s.Files)
	for i := range all {
		all[i] = i
	}
	return s.Whole(ctx, all, progress)
}
