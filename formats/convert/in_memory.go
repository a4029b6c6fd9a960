package convert

import (
	"context"
	"errors"
	"os"
	"path"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/unified"
)

// inMemory is what errors call the source of InMemory.
const inMemory = "graph in memory"

// InMemory makes a dataset in the memory of this process of numbers in memory, as Run makes one in a folder of a folder
// of NumPy arrays: the same, with the same id, notes and errors. Their names are those of the files, without .npy:
// "edge_index", or "nodes/paper/x" and "edges/author__writes__paper/src" (docs/convert.md). No array is kept.
//
// It is for small graphs: without MemoryLimit it takes at most 32 MiB, and it does not ask how much the machine has.
// The caller closes the dataset, which no limit counts. Errors are those of Run; errors.ErrUnsupported where the system
// has no files in memory.
func InMemory(ctx context.Context, rows map[string]unified.Tensor, opt Options) (
	ds *formats.Dataset, res *Result, err error) {
	if opt.MemoryLimit == 0 {
		opt.MemoryLimit = machine.Own
	}
	c := newConversion(inMemory, os.TempDir(), &opt)
	c.kind, c.tree = arrays.Reader.Name, &source.Tree{Path: inMemory}
	files := memoryFiles{}
	c.create = func(w formats.WriterOptions) (*formats.Writer, error) {
		return formats.CreateIn(inMemory, files, w), nil
	}
	c.commit = func(w *formats.Writer, s graph.Schema) (err error) {
		ds, err = w.Open(s, files.take)
		return err
	}
	err = c.guarded(func() (err error) {
		if c.graph, err = arrays.Folders(ctx, inMemory, ".", foldersOf(rows), c.request(0)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.graph.Close()) }()
		if err = source.Steps(ctx, c.choose, c.times, c.narrow, c.pad); err == nil {
			res, err = c.write(ctx)
		}
		return err
	})
	if err != nil && ds != nil {
		err, ds = errors.Join(err, ds.Close()), nil
	}
	return ds, res, err
}

// foldersOf returns arrays by their folders.
func foldersOf(rows map[string]unified.Tensor) map[string]array.Set {
	folders := map[string]array.Set{}
	for name, t := range rows {
		dir, stem := path.Split(name)
		if dir = path.Clean(dir); folders[dir] == nil {
			folders[dir] = array.Set{}
		}
		folders[dir].Add(stem, name+".npy", &array.Array{DType: t.DType(), Shape: t.Shape(), Data: t.Bytes()}, false)
	}
	return folders
}

// memoryFiles are files in memory, by their paths in the manifest. They have no name elsewhere, and end with the last
// of what has them open or mapped.
type memoryFiles map[string]*os.File

// take returns a file, which its reader closes.
func (m memoryFiles) take(name string) (*os.File, error) {
	f := m[name]
	delete(m, name)
	return f, nil
}

func (memoryFiles) Path(name string) string { return path.Join(inMemory, name) }
func (m memoryFiles) Has(name string) bool  { return m[name] != nil }
func (memoryFiles) Commit([]byte) error     { return errors.ErrUnsupported }

// Create keeps the file open, beside the writer who closes what is returned.
func (m memoryFiles) Create(name string) (*os.File, error) {
	kept, written, err := fileInMemory(name)
	if err == nil {
		m[name] = kept
	}
	return written, err
}

func (m memoryFiles) Abort() (err error) {
	for name, f := range m {
		err = errors.Join(err, f.Close())
		delete(m, name)
	}
	return err
}
