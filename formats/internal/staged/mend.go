package staged

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/internal/wholefile"
)

// mend makes again what somebody removed or changed of an entry: its lock, its manifest, and files that are missing or
// of another size, of which then nothing is there. The cache is locked.
func (e *Entry) mend() error {
	held, err := os.OpenFile(e.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = errors.Join(held.Close(), os.MkdirAll(e.path(fillName), 0o700), e.mendManifest())
	}
	if err != nil {
		return err
	}
	for i := range e.x.Files {
		f := &e.x.Files[i]
		name := filepath.Join(e.Dir(), filepath.FromSlash(f.Path))
		if st, err := os.Lstat(name); err == nil && st.Mode().IsRegular() && st.Size() == f.Bytes {
			continue
		}
		err := errors.Join(os.RemoveAll(name), os.MkdirAll(filepath.Dir(name), 0o700), hole(name, f.Bytes))
		if err != nil {
			return err
		}
		if err := e.note(e.all(i), absent); err != nil {
			return err
		}
	}
	return nil
}

// mendManifest writes the manifest again where it is not that of the dataset.
func (e *Entry) mendManifest() error {
	if e.of.Manifest == nil {
		return nil
	}
	name := filepath.Join(e.Dir(), Manifest)
	text, err := os.ReadFile(name)
	if err == nil && slices.Equal(text, e.of.Manifest) {
		return nil
	}
	return errors.Join(os.RemoveAll(name), os.MkdirAll(e.Dir(), 0o700), wholefile.New(name, 0o600, e.of.Manifest))
}

// Verify compares all that is there with its checksums. What does not fit is not there any more: Whole
// brings it again.
func (e *Entry) Verify(ctx context.Context) error {
	if e.of.Sums == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range e.x.Files {
		for u := range e.x.units(&e.x.Files[i]) {
			if e.Has(i, u) {
				g.Go(func() error { return e.verify(ctx, i, u) })
			}
		}
	}
	return g.Wait()
}

// verify compares a unit that is there.
func (e *Entry) verify(ctx context.Context, i, unit int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f, err := e.open(i)
	if err != nil {
		return err
	}
	h := xxh3.New()
	for _, span := range e.spans(part{i, unit, unit + 1}) {
		n := span[1] - span[0]
		if _, err := io.CopyN(h, io.NewSectionReader(f.data, span[0], n), n); err != nil {
			return err
		}
	}
	if e.compare(i, f, unit, h.Sum64()) == nil {
		return nil
	}
	return e.note(part{i, unit, unit + 1}, reserved)
}
