package formats

import (
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
)

// ExtendOptions say how Extend writes.
type ExtendOptions struct {
	Provenance map[string]string // keys that are added, or changed
	Progress   Progress
	// ExpectBytes is the size of the new arrays, which is compared with the free space; 0: not known.
	ExpectBytes int64
	// Inputs are the files and folders that are read meanwhile: see WriterOptions.
	Inputs []string
	// Drop, if set, reports whether to leave out an array, because a new one takes its place. The owner of a set of a
	// split is OwnerOfSplit, of links OwnerLinks.
	Drop func(owner, name string, index int) bool
}

// Extend begins a new generation of the complete dataset at dir, with the same arrays and more. The caller writes the
// new arrays, and calls Commit with the schema of all arrays, or Abort. The files of the old generation are not written
// again: they get a second name (a hard link, or a copy if the file system has no links) in a new directory, which
// replaces the old one as Create with Force does. A process that has the old generation open keeps it. Errors are those
// of Create with Force; fs.ErrNotExist and ErrIncomplete if there is no complete dataset.
func Extend(dir string, opt ExtendOptions) (*Writer, error) {
	w, err := begin(dir, WriterOptions{Progress: opt.Progress, ExpectBytes: opt.ExpectBytes,
		Inputs: opt.Inputs}, transaction.Options{Extend: true, Expect: opt.ExpectBytes})
	if err != nil {
		return nil, err
	}
	if err := w.keepAll(opt); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// keepAll takes over the arrays and the provenance of the dataset that is extended, which no other writer can replace.
func (w *Writer) keepAll(opt ExtendOptions) error {
	var m *Manifest
	err := directories.Read(w.dir, func(root *os.Root) (err error) {
		m, err = readManifest(w.dir, root, manifestName)
		return err
	})
	if err != nil {
		return err
	}
	w.generation, w.shared.ChunkBytes, w.opt.Provenance = m.Generation+1, m.ChunkBytes, maps.Clone(m.Provenance)
	maps.Copy(w.opt.Provenance, opt.Provenance)
	drop := opt.Drop
	if drop == nil {
		drop = func(string, string, int) bool { return false }
	}
	for _, f := range m.files() {
		a := &written{typ: f.typ, part: *f.part}
		owner, name, index := OwnerLinks, f.typ.Name, 0
		if f.column != nil {
			a.info, owner = *f.column, f.column.Owner
		} else {
			index, a.set = f.split.Index, *f.set
			if f.split.Task == taskNode {
				owner = OwnerOfSplit(f.set.NodeType)
			}
			a.split = SplitInfo{Task: f.split.Task, Name: name, Index: index}
		}
		if drop(owner, name, index) {
			continue
		}
		if err := w.keep(a); err != nil {
			return err
		}
	}
	return nil
}

// keep takes over a file.
func (w *Writer) keep(a *written) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.tx.(*transaction.Tx).Keep(a.part.Path, a.part.FileBytes); err != nil {
		return err
	}
	a.path, a.closed = w.tx.Path(a.part.Path), true
	w.arrays = append(w.arrays, a)
	return nil
}

// SchemaOf returns a copy of the dataset's schema, to which the caller may add columns.
func (d *Dataset) SchemaOf() graph.Schema {
	s := *d.graph.Schema()
	s.Nodes, s.Edges, s.EdgeColumns = slices.Clone(s.Nodes), slices.Clone(s.Edges), slices.Clone(s.EdgeColumns)
	for t := range s.Nodes {
		s.Nodes[t].Columns = slices.Clone(s.Nodes[t].Columns)
	}
	return s
}
