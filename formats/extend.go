package formats

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/khop-gnn/khop/graph"
)

// ExtendOptions say how Extend writes.
type ExtendOptions struct {
	Provenance map[string]string // keys that are added, or changed
	Progress   Progress
	// ExpectBytes is what the new arrays will take; checked against the free space. 0 is not known.
	ExpectBytes int64
	// Drop, if set, says which array is left out, because a new one takes its place. Splits have an owner of "".
	Drop func(owner, name string, index int) bool
}

// Extend begins a new generation of the complete dataset at dir, which has the same arrays and more: the caller writes
// the new ones, and calls Commit with the schema of all, or Abort. The files of the old generation are not written
// again: they get a second name (a hard link; a copy where the file system has none) in a directory of their own, which
// takes the place of the old one as a replaced dataset does. Who has the old one open keeps it. Errors are those of
// Create with Force; fs.ErrNotExist and ErrIncomplete if there is no complete dataset.
func Extend(dir string, opt ExtendOptions) (w *Writer, err error) {
	dir = target(dir)
	if err := leaveWork(dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, manifestName)); err != nil {
		return nil, fileError(dir, "", err)
	}
	w, err = replacement(dir, WriterOptions{Force: true, Progress: opt.Progress, ExpectBytes: opt.ExpectBytes})
	if err != nil {
		return nil, err
	}
	begun := w
	defer func() {
		if err != nil {
			w, err = nil, errors.Join(err, begun.Abort())
		}
	}()
	m, err := replaceable(dir) // again, now that no other writer can replace it
	if err != nil {
		return nil, err
	}
	w.gen, w.opt.chunkBytes, w.opt.Provenance = m.Generation+1, m.ChunkBytes, maps.Clone(m.Provenance)
	if w.opt.Provenance == nil {
		w.opt.Provenance = map[string]string{}
	}
	maps.Copy(w.opt.Provenance, opt.Provenance)
	return w, w.keepAll(dir, m, opt.Drop)
}

// keepAll takes over the arrays of a dataset.
func (w *Writer) keepAll(dir string, m *Manifest, drop func(owner, name string, index int) bool) error {
	for _, a := range m.Columns {
		if drop != nil && drop(a.Owner, a.Name, 0) {
			continue
		}
		typ, err := a.arrayType()
		if err != nil {
			return fileError(dir, "", err)
		}
		if err := w.keep(dir, &written{info: a, typ: typ, part: a.Parts[0]}); err != nil {
			return err
		}
	}
	for _, s := range m.Splits {
		if drop != nil && drop("", s.Name, s.Index) {
			continue
		}
		for _, set := range s.Sets {
			a := &written{split: SplitInfo{Task: s.Task, Name: s.Name, Index: s.Index}, set: set,
				typ: arrayType{name: s.Name}, part: set.Parts[0]}
			if err := w.keep(dir, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep takes over a file.
func (w *Writer) keep(dir string, a *written) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := w.in + a.part.Path
	if w.paths[name] {
		return fileError(dir, "", fmt.Errorf("%w: %q is there twice", ErrExist, a.part.Path))
	}
	if err := w.makeDirs(name); err != nil {
		return err
	}
	if err := w.mark.note(markerFile, name); err != nil {
		return err
	}
	from := filepath.Join(dir, filepath.FromSlash(a.part.Path))
	to := filepath.Join(w.mark.dir, filepath.FromSlash(name))
	if err := link(from, to); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = copyFile(from, to)
		if err != nil {
			return writeError(to, err, a.part.FileBytes)
		}
	} else if err != nil {
		return writeError(to, err, 0)
	}
	w.paths[name] = true
	a.file, a.closed = &columnFile{path: to, w: w}, true
	w.arrays = append(w.arrays, a)
	return nil
}

// link is a variable so that tests can do without it.
var link = os.Link

// copyFile copies a file, and waits until it is on the disk.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// SchemaOf returns the schema of the dataset at dir, to which the caller may add columns.
func (d *Dataset) SchemaOf() graph.Schema {
	s := *d.graph.Schema()
	s.Nodes, s.Edges, s.EdgeColumns = slices.Clone(s.Nodes), slices.Clone(s.Edges), slices.Clone(s.EdgeColumns)
	for t := range s.Nodes {
		s.Nodes[t].Columns = slices.Clone(s.Nodes[t].Columns)
	}
	return s
}
