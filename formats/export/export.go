package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/pinned"
)

// Formats are the names of what Run writes, with a title each.
var Formats = [][2]string{
	{"numpy", "a folder of NumPy arrays"},
	{"npz", "one archive of NumPy arrays, by the names of PyG"},
	{"graphbolt", "a folder for GraphBolt's OnDiskDataset"},
	{"parquet", "a folder of Parquet tables of nodes and edges, and graph.yaml, by which khop converts them"},
}

// ErrFormat is returned for a format that is not one of Formats.
var ErrFormat = errors.New("no such format")

// Options say how to export.
type Options struct {
	To       string // one of Formats
	Force    bool   // replace a file or folder that is there
	Progress formats.Progress
}

// Result says what was written.
type Result struct {
	Files int      `json:"files"`
	Bytes int64    `json:"bytes"`
	Notes []string `json:"notes"`
}

// temporary is what the name of the target ends in until it is whole. Nobody else uses the name: what a run that was
// killed has left there, the next one removes.
const temporary = ".khop-export"

// Run writes a dataset to target, a file or folder that must not exist, or is replaced with Force. Its parent must
// exist. Errors: ErrFormat; formats.ErrExist; formats.ErrCorrupt; context.Cause(ctx); else what the system says. After
// an error the target is as it was.
func Run(ctx context.Context, ds *formats.Dataset, target string, opt Options) (res *Result, err error) {
	write := map[string]func(*job) error{"numpy": numpy, "npz": npz, "graphbolt": graphbolt,
		"parquet": tables}[opt.To]
	if write == nil {
		return nil, fmt.Errorf("%w: %q", ErrFormat, opt.To)
	}
	target = filepath.Clean(target)
	if _, err := os.Lstat(target); err == nil && !opt.Force {
		return nil, &formats.Error{Path: target, Row: -1, Remedy: "choose another target, or replace it by --force",
			Err: formats.ErrExist}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := ours(target, opt); err != nil {
		return nil, err
	}
	x, err := newSource(ctx, ds)
	if err != nil {
		return nil, err
	}
	j := &job{source: x, root: target + temporary, opt: opt, res: &Result{Notes: []string{}}}
	if err := os.RemoveAll(j.root); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(j.root)) }()
	if err := pinned.Guard(func() error { return write(j) }); err != nil {
		return nil, err
	}
	return j.res, transaction.Put(j.root, target)
}

// madeBy is a file that says that a folder was exported.
const madeBy = "exported-by-khop.txt"

// ours refuses to replace a folder that was not exported.
func ours(target string, opt Options) error {
	st, err := os.Stat(target)
	if err != nil || !st.IsDir() && opt.To == "npz" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(target, madeBy)); err == nil && opt.To != "npz" {
		return nil
	}
	return &formats.Error{Path: target, Row: -1, Remedy: "choose another target, or remove it yourself",
		Err: fmt.Errorf("%w, and was not written by khop export", formats.ErrExist)}
}

// job is one run.
type job struct {
	*source
	root string
	opt  Options
	res  *Result
}

// file writes a file, which is on the disk when it returns.
func (j *job) file(name string, write func(w io.Writer) error) (err error) {
	path := j.root
	if name != "" {
		path = filepath.Join(j.root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	c := &counter{w: f, j: j}
	b := bufio.NewWriterSize(c, 1<<20)
	if err := write(b); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	j.res.Files++
	return f.Sync()
}

// counter counts what is written.
type counter struct {
	w io.Writer
	j *job
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	if c.j.ctx.Err() != nil {
		return 0, context.Cause(c.j.ctx)
	}
	n, err := c.w.Write(p)
	c.j.res.Bytes += int64(n)
	if c.j.opt.Progress != nil {
		c.j.opt.Progress("export", c.j.res.Bytes, c.j.ds.FileBytes())
	}
	return n, err
}

func (j *job) note(format string, args ...any) {
	j.res.Notes = append(j.res.Notes, fmt.Sprintf(format, args...))
}

// sign says in a folder who made it.
func (j *job) sign() error {
	id := j.ds.ID()
	return j.file(madeBy, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "khop export --to %s, of the dataset %x\n", j.opt.To, id[:])
		return err
	})
}
