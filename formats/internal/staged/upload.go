package staged

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/internal/option"
)

// uploadsAtATime is how many files are written at a time.
const uploadsAtATime = 2

// Target is the address at which a dataset is to be.
type Target struct {
	Client *ranges.Client
	At     address.Location
	Force  bool // a dataset that is there may be replaced
	// Shared says that others may be writing the same dataset: what was written stays after a failure, for them.
	Shared bool
	// Was is a folder that has what is there already; "" where nobody knows.
	Was string
}

// Check refuses a target at which a dataset is that may not be replaced: transaction.ErrExist. It reports whether one
// is.
func (t *Target) Check(ctx context.Context) (there bool, err error) {
	err = t.Client.Object(t.At.Join(Manifest), -1).Stat(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil && !t.Force:
		return true, t.taken()
	}
	return true, err
}

func (t *Target) taken() error {
	return option.Textf("%s: %w: it is a complete dataset; choose another target, or replace it (%s)", t.At,
		transaction.ErrExist, option.On("Force"))
}

// Upload writes the dataset in a folder, whole or not at all: its manifest comes last. One that is to be replaced loses
// its manifest first, so that nobody opens half of each; but where it only gets more files the new manifest takes the
// place of the old one in one step. Files that are there already are left out.
func (t *Target) Upload(ctx context.Context, dir string, progress func(done, total int64)) (err error) {
	files, total, more, err := t.news(dir)
	if err != nil {
		return err
	}
	there, err := t.Check(ctx)
	if err == nil && there && !more {
		err = t.Client.Delete(ctx, t.At.Join(Manifest))
	}
	if err != nil {
		return err
	}
	var mu sync.Mutex
	done, written := int64(0), []string{}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(uploadsAtATime)
	for _, f := range files {
		g.Go(func() error {
			if err := t.put(inner, dir, f.Name, false); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done += f.Size
			written = append(written, f.Name)
			progress(done, total)
			return nil
		})
	}
	if err = g.Wait(); err == nil {
		if err = t.put(ctx, dir, Manifest, !more); errors.Is(err, ranges.ErrChanged) { // another writer's came first
			return t.taken()
		}
	}
	if err != nil && !t.Shared {
		for _, name := range written {
			err = errors.Join(err, t.Client.Delete(context.WithoutCancel(ctx), t.At.Join(name)))
		}
	}
	return err
}

// Clean removes what writers have left of a dataset that is not complete.
func (t *Target) Clean(ctx context.Context) error {
	if there, err := t.Check(ctx); there || err != nil {
		return err
	}
	return t.Client.DeleteFolder(ctx, t.At, func(name string) bool { return path.Ext(name) == extension })
}

// extension is that of all files of a dataset but its manifest.
const extension = ".arrow"

// put writes a file.
func (t *Target) put(ctx context.Context, dir, name string, fresh bool) error {
	return t.Client.PutFile(ctx, t.At.Join(name), filepath.Join(dir, filepath.FromSlash(name)), fresh)
}

// news lists the files of a dataset that are not there, but its manifest; more says that none of them takes the place
// of another.
func (t *Target) news(dir string) (list []ranges.Found, total int64, more bool, err error) {
	more = t.Was != ""
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if name = filepath.ToSlash(name); err != nil || name == Manifest {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		if was, err := os.Stat(filepath.Join(t.Was, filepath.FromSlash(name))); t.Was != "" && err == nil {
			if os.SameFile(was, st) {
				return nil
			}
			more = false
		}
		list = append(list, ranges.Found{Name: name, Size: st.Size()})
		total += st.Size()
		return nil
	})
	slices.SortFunc(list, func(a, b ranges.Found) int { return cmp.Compare(b.Size, a.Size) }) // long ones first
	return list, total, more, err
}
