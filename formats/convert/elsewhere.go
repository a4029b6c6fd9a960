package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/staged"
	"github.com/khop-gnn/khop/formats/internal/tempdir"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
)

// to has a dataset written at its place. Where that has an address it is made in a temporary folder, and written from
// there (docs/machines.md).
func to(ctx context.Context, dst string, opt Options, write func(dir string) error) error {
	if !address.Is(dst) {
		return write(dst)
	}
	t, err := newTarget(ctx, dst, opt.Force)
	if err != nil {
		return err
	}
	t.Shared = opt.shared
	return t.upload(ctx, write, opt.DryRun, opt.Log, opt.Progress)
}

// come has a source that has an address in the cache of datasets, where it is read from then on: whole, or what is read
// of it. It returns what tells its contents from others; "" of a file or folder.
func (c *conversion) come(ctx context.Context, whole bool) (content string, err error) {
	if !address.Is(c.src) {
		return "", nil
	}
	from, err := openElsewhere(ctx, c.src, c.opt.Remote)
	if err == nil && whole {
		err = bring(ctx, from, c.opt)
	}
	if err != nil {
		return "", err
	}
	c.elsewhere, c.opt.named, c.src = from, filepath.Base(c.src), from.Path
	if !whole {
		c.brings = func(path string) func(from, to int64) error {
			at := from.At(path)
			if at == nil {
				return nil
			}
			return func(from, to int64) error { return at(ctx, from, to) }
		}
	}
	return from.Content, nil
}

// leave lets the cache remove the source.
func (c *conversion) leave() error {
	if c.elsewhere == nil {
		return nil
	}
	return c.elsewhere.Close()
}

// openElsewhere has a place for a source in the cache. The caller closes it.
func openElsewhere(ctx context.Context, src string, e remote.Options) (*staged.Source, error) {
	at, err := address.Parse(src)
	if err != nil {
		return nil, source.Error("source", "", -1, "", err)
	}
	cache, err := staged.NewCache(e.CacheDir, e.CacheSize)
	if err != nil {
		return nil, err
	}
	return staged.OpenSource(ctx, cache, ranges.New(), at)
}

// bring brings a source to the cache, whole; else it closes it.
func bring(ctx context.Context, from *staged.Source, opt Options) error {
	opt.Log(fmt.Sprintf("bringing %s of %s to %s", source.Counted(int64(from.Files), "file", "files"),
		machine.Bytes(from.Bytes), from.Path))
	err := from.Bring(ctx, func(done, total int64) {
		if opt.Progress != nil {
			opt.Progress("stage", done, total)
		}
	})
	if err != nil {
		return errors.Join(err, from.Close())
	}
	return nil
}

// target is the address of a dataset that is written.
type target struct{ staged.Target }

// newTarget looks whether a dataset may be written there, before long work.
func newTarget(ctx context.Context, dst string, force bool) (*target, error) {
	at, err := address.Parse(dst)
	if err != nil {
		return nil, source.Error("target", "", -1, "", err)
	}
	if at.Scheme != "s3" && at.Scheme != "gs" {
		return nil, source.Error(dst, "", -1, "write it to a folder", ranges.ErrReadOnly)
	}
	t := &target{staged.Target{Client: ranges.New(), At: at, Force: force}}
	_, err = t.Check(ctx)
	return t, err
}

// upload has a dataset written to a temporary folder, and brings it from there to its place. Where nothing was to be
// written nothing is.
func (t *target) upload(ctx context.Context, write func(dir string) error, dry bool, log func(string),
	progress formats.Progress) (err error) {
	work, err := tempdir.Make(t.beside(), "khop-target-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	dir := filepath.Join(work.Path, t.At.Base())
	if err := write(dir); err != nil || dry {
		return err
	}
	log(fmt.Sprintf("writing %s", t.At))
	return t.Upload(ctx, dir, func(done, total int64) {
		if progress != nil {
			progress("upload", done, total)
		}
	})
}

// beside is where the temporary folder is: where what is there can be linked to, or else where the system has such.
func (t *target) beside() string {
	if t.Was != "" {
		return filepath.Dir(t.Was)
	}
	return ""
}

// addElsewhere is Add for a dataset that has an address: the whole dataset is brought to the cache, the addition goes
// to a folder of links to the cached files, and the new files are uploaded.
func addElsewhere(ctx context.Context, dataset string, opt AddOptions) (schema *graph.Schema, err error) {
	if opt.Log == nil {
		opt.Log = func(string) {}
	}
	t, err := newTarget(ctx, dataset, true)
	if err != nil {
		return nil, err
	}
	from := opt.Remote
	from.Progress = opt.Progress
	ds, err := remote.Open(ctx, dataset, from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	t.Was = ds.Path()
	err = t.upload(ctx, func(dir string) (err error) {
		if err := linkAll(t.Was, dir); err != nil {
			return err
		}
		schema, err = Add(ctx, dir, opt)
		return err
	}, false, opt.Log, opt.Progress)
	return schema, err
}

// linkAll makes a folder whose files are those of another one.
func linkAll(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		name, e := filepath.Rel(from, path)
		if err = cmp.Or(err, e); err != nil {
			return err
		}
		if d.IsDir() {
			return os.Mkdir(filepath.Join(to, name), 0o700)
		}
		return os.Link(path, filepath.Join(to, name))
	})
}
