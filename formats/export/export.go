package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/underway"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/pinned"
)

// Formats are the names of the formats, with a title each.
var Formats = [][2]string{
	{"numpy", "a folder of NumPy arrays"},
	{"npz", "one archive of NumPy arrays, with the names of PyG"},
	{"pyg", "a file of torch.save, for from_dict of PyG's Data and HeteroData"},
	{"graphbolt", "a folder for GraphBolt's OnDiskDataset"},
	{"parquet", "a folder of Parquet tables, with graph.yaml for khop convert"},
	{"graphar", "a folder in GraphAr's format, in Parquet, with edges by destination"},
}

// ErrFormat is returned for a format that is not one of Formats.
var ErrFormat = errors.New("no such format")

// Options say how to export.
type Options struct {
	// To is one of Formats.
	To    string `required:"true" value:"FORMAT" help:"Format: numpy, npz, pyg, graphbolt, parquet or graphar."`
	Force bool   `help:"Replace what an export has written there, and nothing else."`

	Progress formats.Progress
	// Memory counts the memory of tables for rows and splits; nil: it is not counted. Its pinned.ErrLimit is an error
	// of Run.
	Memory *pinned.Ledger
}

// Result describes what was written.
type Result struct {
	Files int      `json:"files"`
	Bytes int64    `json:"bytes"`
	Notes []string `json:"notes"`
}

// temporary is what the name of the target ends in until it is whole. Nobody else uses the name: what a run that was
// killed has left there, the next one removes.
const temporary = ".khop-export"

// Run writes a dataset to target, a file or folder that must not exist, or is replaced with Force. Its parent must
// exist. Errors: ErrFormat; formats.ErrExist; formats.ErrInput; formats.ErrCorrupt if the dataset does not fit its
// checksums; context.Cause(ctx); else errors of the system. After an error the target is as it was.
func Run(ctx context.Context, ds *formats.Dataset, target string, opt Options) (res *Result, err error) {
	write := map[string]func(*job) error{"numpy": numpy, "npz": npz, "pyg": pyg, "graphbolt": graphbolt,
		"parquet": tables, "graphar": graphar}[opt.To]
	if write == nil {
		return nil, option.Errorf(ErrFormat, opt, "To", " is %q: see Formats, or \"khop export --help\"", opt.To)
	}
	target = filepath.Clean(target)
	if err := wholefile.Apart(target, ds.Path()); err != nil {
		return nil, err
	}
	target, stream, err := place(target, opt)
	if err != nil {
		return nil, err
	}
	x, err := newSource(ctx, ds)
	if err != nil {
		return nil, err
	}
	j := &job{source: x, root: target + temporary, opt: opt, res: &Result{Notes: []string{}}}
	j.tellTasks()
	j.tellCoded()
	if stream {
		j.root = ""
		return j.res, pinned.Guard(func() error {
			return wholefile.Output{Path: target}.Write(ctx, func(w io.Writer) error {
				j.stream = w
				return write(j)
			})
		})
	}
	if err := os.RemoveAll(j.root); err != nil {
		return nil, err
	}
	defer underway.Leaves(underway.Folder, j.root)()
	defer func() { err = errors.Join(err, os.RemoveAll(j.root)) }()
	if err := pinned.Guard(func() error { return write(j) }); err != nil {
		return nil, err
	}
	return j.res, transaction.Put(j.root, target, madeBy)
}

// madeBy is a file that says that a folder was exported.
const madeBy = "exported-by-khop.txt"

// place follows the links of a target, and refuses what must not be replaced: a file or folder without Force, and with
// it a folder that was not exported. An archive goes to a device or pipe as it is, which is never replaced.
func place(target string, opt Options) (path string, stream bool, err error) {
	exists := func(remedy *option.Text, err error) error {
		return &formats.Error{Path: target, Row: -1, Remedy: remedy.Error(), Err: option.With(err, remedy)}
	}
	path, st, err := wholefile.Follow(target)
	archive := opt.To == "npz" || opt.To == "pyg"
	switch {
	case err != nil:
		return "", false, err
	case archive && (st == nil || !st.IsDir() && !st.Mode().IsRegular()):
		_, stream, err = wholefile.Output{Path: target}.Target()
		return path, stream, err
	case st == nil:
		return path, false, nil
	case !opt.Force:
		return "", false, exists(option.Textf("choose another target, or replace it (%s)",
			option.On("Force")), formats.ErrExist)
	case archive && !st.IsDir():
		return path, false, nil
	}
	for _, there := range []string{path, transaction.Before(path)} {
		if _, err := os.Stat(filepath.Join(there, madeBy)); err == nil && !archive {
			return path, false, nil
		}
	}
	return "", false, exists(option.Textf("choose another target, or remove it yourself"),
		fmt.Errorf("%w, and was not written by khop export", formats.ErrExist))
}

// job is one run.
type job struct {
	*source
	root   string
	stream io.Writer // nil where files are written
	opt    Options
	res    *Result
}

// file writes a file, which is on the disk when it returns.
func (j *job) file(name string, write func(w io.Writer) error) (err error) {
	if j.stream != nil {
		return j.fill(j.stream, write)
	}
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
	if err := j.fill(direct.NewWriter(f), write); err != nil {
		return err
	}
	return f.Sync()
}

// fill writes what a file holds, and counts it.
func (j *job) fill(w io.Writer, write func(w io.Writer) error) error {
	b := bufio.NewWriterSize(&counter{w: w, j: j}, 1<<20)
	if err := write(b); err != nil {
		return err
	}
	j.res.Files++
	return b.Flush()
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

// splits returns the splits without tables of tasks, which no other format has.
func (j *job) splits() (list []graph.Split) {
	for _, s := range j.g.Splits() {
		if s.Task() == "" {
			list = append(list, s)
		}
	}
	return list
}

// tellCoded notes the columns whose rows are coded, and how to read them.
func (j *job) tellCoded() {
	for _, n := range j.s.Nodes {
		for _, c := range n.Columns {
			if c.Code != nil {
				j.note("%q of %q is written as it is stored: bytes of the code %s of %v numbers a row "+
					"(khop docs format, \"Coded rows\")", c.Name, n.Name, c.Code.Name, c.Code.Shape)
			}
		}
	}
}

// tellTasks notes the tables of tasks, which are left out.
func (j *job) tellTasks() {
	for _, s := range j.g.Splits() {
		if s.Task() != "" {
			j.note("%q, a table of a task, is left out: the format has none", s.Name)
		}
	}
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
