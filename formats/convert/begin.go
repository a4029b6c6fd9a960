package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/staged"
	"github.com/khop-gnn/khop/formats/internal/tempdir"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
)

// begin settles the options of a conversion, and what it may take.
func begin(src, dst string, opt *Options) (*conversion, error) {
	if opt.Log == nil {
		opt.Log = func(string) {}
	}
	if err := opt.Settle(); err != nil {
		return nil, err
	}
	c := &conversion{src: src, dst: dst, opt: *opt, skips: source.Skips{Limit: opt.SkipBad}}
	c.budget.Dir, c.budget.Memory = filepath.Dir(filepath.Clean(dst)), &c.ledger
	c.budget.Disk, _ = transaction.FreeSpace(c.budget.Dir)
	c.ledger.SetLimit(opt.MemoryLimit)
	return c, nil
}

// guarded calls a function while files are mapped, temporary ones among them.
func (c *conversion) guarded(run func() error) error {
	err := pinned.Guard(run)
	if errors.Is(err, pinned.ErrFault) && c.tree != nil {
		if changed := c.unchanged(); changed != nil { // a source that is mapped became shorter
			return changed
		}
		return source.Error(c.budget.Dir, "", -1, "see whether the disk is damaged, or choose a target on another one",
			fmt.Errorf("a temporary file of the edges: %w", err))
	}
	return err
}

// Settle sets MemoryLimit to the limit that Run keeps: the default where it is 0, and no more than what the control
// group leaves. pinned.ErrLimit where that is nothing. Run calls it.
func (o *Options) Settle() error {
	m := machine.Probe()
	if o.MemoryLimit == 0 {
		o.MemoryLimit = m.Room() / 4
	}
	_, room, ok := m.GroupRoom()
	if !ok {
		return nil
	}
	if room <= 0 {
		return m.GroupIsFull(pinned.ErrLimit)
	}
	o.MemoryLimit = min(o.MemoryLimit, room)
	return nil
}

// lateEdges is the least number of edges that are not read only to count the nodes. Tests change it.
var lateEdges int64 = 1 << 24

// placeFirst has the edges taken in before anything else, and counts the nodes meanwhile. Edges that reach beyond what
// the sample of them made believable are counted, and nil is returned.
func (c *conversion) placeFirst(ctx context.Context, o *order) (*edgesort.Sorter, error) {
	node := c.graph.Node()
	late := *o
	late.opt.Nodes = slices.Clone(o.opt.Nodes)
	late.opt.Nodes[0].Count = 1 << bits.Len64(uint64(max(node.Count-1, 1)))
	sorter, gaps, err := late.place(ctx)
	var beyond *edgesort.RangeError
	switch {
	case errors.As(err, &beyond):
		if err := c.graph.CountNodes(ctx); err != nil {
			return nil, err
		}
		c.watch = false
		return nil, c.noteGaps(ctx)
	case err != nil:
		return nil, o.explain(err)
	}
	defer gaps.close()
	node.Count = max(node.Count, sorter.Greatest()+1)
	if source.TooSparse(sorter.Greatest(), c.graph.Edges.Count) { // counting says so, with a remedy
		return nil, errors.Join(sorter.Close(), c.graph.CountNodes(ctx))
	}
	sorter.SetNodes(node.Count)
	gaps.say()
	return sorter, nil
}

// roomFor refuses a target that the dataset does not fit, before it is written.
func (c *conversion) roomFor(bytes int64) error {
	w, err := formats.Create(c.dst, formats.WriterOptions{Force: c.opt.Force, ExpectBytes: bytes,
		Inputs: c.inputs()})
	if err != nil {
		return err
	}
	return w.Abort()
}

// checkOptions refuses options that the kind of the source does not take.
func (c *conversion) checkOptions(r *source.Reader) error {
	for _, o := range []struct {
		set           bool
		field, allows string
	}{
		{len(c.opt.Columns) > 0, "Columns", "columns"},
		{c.opt.IDs != "" && c.opt.IDs != "auto", "IDs", "ids"},
		{c.opt.Header != "" && c.opt.Header != "auto", "Header", "header"},
		{len(c.opt.Null) > 0, "Null", "null"},
		{c.opt.SkipBad > 0, "SkipBad", "skips"},
		{c.opt.RelationsAsTypes, "RelationsAsTypes", "relations"},
		{c.opt.UpTo != "", "UpTo", "upto"},
		{c.opt.Task != "", "Task", "task"},
		{c.opt.Features != "", "Features", "tables"},
		{c.opt.Labels != "", "Labels", "tables"},
	} {
		if o.set && !slices.Contains(r.Options, o.allows) {
			return option.Errorf(ErrOptions, c.opt, o.field, " is for edge lists and the like, %s is: %s", c.src,
				r.Title)
		}
	}
	return nil
}

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
