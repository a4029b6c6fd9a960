package arrays

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/npy"
	"github.com/khop-gnn/khop/formats/source"
)

// Reader reads folders of .npy files, and single files of edges.
type Reader struct{}

// Info implements source.Reader.
func (Reader) Info() source.Info {
	return source.Info{Name: "npy", Title: "NumPy arrays: edge_index.npy and others beside it",
		Options: []string{"tables"}}
}

func isArray(at source.Place) bool {
	head, err := at.Head()
	return err == nil && bytes.HasPrefix(head, []byte("\x93NUMPY"))
}

// Find implements source.Reader.
func (Reader) Find(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		switch stem, ok := strings.CutSuffix(path.Base(name), ".npy"); {
		case t.Single() && isArray(t.At(name)):
			found = append(found, name)
		case ok && (slices.Contains(edgeNames, stem) || slices.Contains(srcNames, stem)) && isArray(t.At(name)):
			found = append(found, path.Dir(name))
		}
	}
	return found
}

// Read implements source.Reader.
func (Reader) Read(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	set := &files{at: map[string]source.Place{}}
	if at.Exists() {
		set.at["edge_index"] = at
	}
	for _, name := range at.Tree.Files() {
		if stem, ok := strings.CutSuffix(path.Base(name), ".npy"); ok && path.Dir(name) == at.Name {
			set.at[stem] = at.Tree.At(name)
		}
	}
	g, ok, err := Describe(ctx, set, r)
	if err == nil && !ok {
		err = source.Error(at.Path(), "", -1, "name a folder with edge_index.npy, or with src.npy and dst.npy",
			fmt.Errorf("%w: it has %s", source.ErrUnknown, strings.Join(set.Names(), ", ")))
	}
	return g, err
}

// files are the .npy files of a folder.
type files struct{ at map[string]source.Place }

// Names implements Set.
func (f *files) Names() (names []string) {
	for n := range f.at {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Path implements Set.
func (f *files) Path(name string) string { return f.at[name].Path() }

// Open implements Set.
func (f *files) Open(name string) (*npy.Reader, io.Closer, error) {
	raw, err := f.at[name].Raw()
	if err != nil {
		return nil, nil, err
	}
	r, err := open(raw)
	if err != nil {
		_ = raw.Close()
		return nil, nil, source.Error(raw.Path, "", -1, "write it by numpy.save", err)
	}
	return r, raw, nil
}

// open reads the header and returns a reader of the mapped elements, where the file can be mapped.
func open(raw *source.Raw) (*npy.Reader, error) {
	s := io.NewSectionReader(raw, 0, raw.Size)
	h, err := npy.ReadHeader(s)
	if err != nil {
		return nil, err
	}
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	if h.Kind != npy.Object && h.Bytes() > raw.Size-at {
		return nil, fmt.Errorf("%v: elements take %d bytes, but %d are there: it is cut short", &h, h.Bytes(),
			raw.Size-at)
	}
	if mem, err := raw.Map(); err == nil && mem != nil {
		return npy.NewMapped(mem[at:], h)
	}
	return npy.NewReader(s, h)
}
