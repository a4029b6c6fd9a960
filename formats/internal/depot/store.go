package depot

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/tempdir"
)

// Store is a depot in an object store.
type Store struct {
	ctx    context.Context
	client *ranges.Client
	at     address.Location
}

// Path implements Depot.
func (s *Store) Path(name string) string { return s.at.Join(name).String() }

// In implements Depot.
func (s *Store) In(folder string) Depot { return &Store{s.ctx, s.client, s.at.Join(folder)} }

// Make implements Depot. Each file is refused where there is one, and then those are removed that were written.
func (s *Store) Make(files map[string][]byte, last string) (err error) {
	var mu sync.Mutex
	var written []string
	put := func(ctx context.Context, name string) error {
		err := s.client.PutBytes(ctx, s.at.Join(name), files[name], true)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			written = append(written, name)
		}
		return err
	}
	g, ctx := errgroup.WithContext(s.ctx)
	g.SetLimit(ranges.InFlight)
	for name := range files {
		if name != last {
			g.Go(func() error { return put(ctx, name) })
		}
	}
	if err = g.Wait(); err == nil {
		err = put(s.ctx, last)
	}
	if err == nil {
		return nil
	}
	for _, name := range written {
		err = errors.Join(err, s.client.Delete(context.WithoutCancel(s.ctx), s.at.Join(name)))
	}
	if errors.Is(err, ranges.ErrChanged) {
		err = errors.Join(&fs.PathError{Op: "make", Path: s.at.String(), Err: fs.ErrExist}, err)
	}
	return err
}

// Get implements Depot.
func (s *Store) Get(name string) ([]byte, error) {
	return s.client.Object(s.at.Join(name), -1).ReadAll(s.ctx, mostSmall)
}

// Open implements Depot. The store is asked for nothing yet.
func (s *Store) Open(name string, size int64) (File, error) {
	if err := valid(s, name); err != nil {
		return nil, err
	}
	return &storeFile{s: s, object: s.client.Object(s.at.Join(name), size), size: size}, nil
}

// storeFile is an object.
type storeFile struct {
	s      *Store
	object *ranges.Object
	size   int64
	all    ranges.Spans // from the beginning on; nil: nobody reads so
	rest   []byte       // of a span
}

// explain says that an object of another size is not what was written.
func (f *storeFile) explain(err error) error {
	if errors.Is(err, ranges.ErrChanged) {
		return Damaged(f.object.At().String(), "%v", err)
	}
	return err
}

// ReadAt implements io.ReaderAt.
func (f *storeFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.object.ReadAt(f.s.ctx, p, off); err != nil {
		return 0, f.explain(err)
	}
	return len(p), nil
}

// Read implements io.Reader.
func (f *storeFile) Read(p []byte) (n int, err error) {
	if f.all == nil {
		f.all = f.Ahead(ranges.Cut(f.size))
	}
	if len(f.rest) == 0 {
		if f.rest, err = f.all.Next(); err != nil {
			f.rest = nil
			return 0, err
		}
	}
	n = copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// Ahead implements File.
func (f *storeFile) Ahead(list []ranges.Span) ranges.Spans {
	return storeSpans{f.object.Ahead(f.s.ctx, list), f}
}

// storeSpans are spans whose errors say that the file was damaged.
type storeSpans struct {
	ranges.Spans
	f *storeFile
}

// Next implements ranges.Spans.
func (s storeSpans) Next() ([]byte, error) {
	p, err := s.Spans.Next()
	return p, s.f.explain(err)
}

// Close ends what is under way.
func (f *storeFile) Close() error {
	if f.all != nil {
		f.all.Close()
	}
	return nil
}

// Begin implements Depot: the attempt's folder is a temporary one, whose files become objects.
func (s *Store) Begin(folder string) (*Attempt, error) {
	temporary, err := tempdir.Make("", "khop-task-")
	if err != nil {
		return nil, err
	}
	dir := temporary.Path
	var written []string
	publish := func(name string, text []byte) (first bool, err error) {
		if written, err = s.put(dir, folder); err != nil {
			return false, err
		}
		err = s.client.PutBytes(s.ctx, s.at.Join(name), text, true)
		if errors.Is(err, ranges.ErrChanged) {
			return false, nil
		}
		if err != nil { // who knows whether it is there: what it names must stay
			written = nil
		}
		return err == nil, err
	}
	return &Attempt{Dir: dir, publish: publish, remove: func(first bool) error {
		err := temporary.Remove()
		for _, name := range written {
			if !first {
				err = errors.Join(err, s.client.Delete(context.WithoutCancel(s.ctx), s.at.Join(name)))
			}
		}
		return err
	}}, nil
}

// put makes objects of all files in a folder, and returns those that were made.
func (s *Store) put(dir, folder string) (written []string, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(s.ctx)
	g.SetLimit(2) // of which each has parts under way
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name = path.Join(folder, filepath.ToSlash(name))
		g.Go(func() error {
			err := s.client.PutFile(ctx, s.at.Join(name), file, false)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				written = append(written, name)
			}
			return err
		})
		return ctx.Err()
	})
	return written, errors.Join(g.Wait(), err)
}

// Remove implements Depot.
func (s *Store) Remove(names ...string) error {
	return s.client.DeleteFolder(s.ctx, s.at, func(name string) bool {
		first, _, _ := strings.Cut(name, "/")
		return slices.Contains(names, first)
	})
}
