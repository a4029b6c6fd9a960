package arrays

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads folders of .npy files, and single files of edges.
var Reader = source.Reader{Name: "npy", Title: "NumPy arrays: edge_index.npy and others beside it",
	Options: []string{"tables"}, ByName: true, Find: findGraphs, Read: readGraph}

func isArray(at source.Place) bool {
	head, err := at.Head()
	return err == nil && bytes.HasPrefix(head, []byte("\x93NUMPY"))
}

func findGraphs(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		switch stem, ok := strings.CutSuffix(path.Base(name), ".npy"); {
		case t.Single() && isArray(t.At(name)):
			found = append(found, name)
		case ok && (slices.Contains(edgeNames, stem) || slices.Contains(srcNames, stem)) && isArray(t.At(name)):
			dir := path.Dir(name)
			if _, typed := edgeType(dir); typed {
				dir = path.Dir(path.Dir(dir))
			}
			if !slices.Contains(found, dir) {
				found = append(found, dir)
			}
		}
	}
	return found
}

// edgeType reads the name of a folder of edges, such as "edges/author__writes__paper".
func edgeType(dir string) ([3]string, bool) {
	f := strings.Split(path.Base(dir), "__")
	if path.Base(path.Dir(dir)) != "edges" || len(f) != 3 {
		return [3]string{}, false
	}
	return [3]string(f), true
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	folders := map[string]array.Set{}
	if !at.Exists() {
		folders = foldersOf(at.Tree)
	}
	if folders[at.Name] == nil {
		folders[at.Name] = Files(map[string]source.Place{"edge_index": at})
	}
	return Folders(ctx, at.Path(), at.Name, folders, r)
}

// Folders describes the graph of a folder of arrays, called name in the list of all folders. Errors call it path.
func Folders(ctx context.Context, at, name string, folders map[string]array.Set,
	r *source.Request) (*source.Graph, error) {
	for dir := range folders {
		if _, ok := edgeType(dir); ok && path.Dir(path.Dir(dir)) == name {
			return readTyped(ctx, at, name, folders, r)
		}
	}
	set := folders[name]
	g, ok, err := Describe(ctx, set, r)
	if err == nil && !ok {
		err = source.Error(at, "", -1, "name a folder with edge_index.npy, or with src.npy and dst.npy",
			fmt.Errorf("%w: it has %s", source.ErrUnknown, strings.Join(set.Names(), ", ")))
	}
	return g, err
}

// foldersOf returns the .npy files of each folder.
func foldersOf(t *source.Tree) map[string]array.Set {
	folders := map[string]array.Set{}
	for _, name := range t.Files() {
		stem, ok := strings.CutSuffix(path.Base(name), ".npy")
		if !ok {
			continue
		}
		dir := path.Dir(name)
		if folders[dir] == nil {
			folders[dir] = array.Set{}
		}
		folders[dir][stem] = file(t.At(name))
	}
	return folders
}

// readTyped describes a graph of several types: edges/SOURCE__RELATION__TARGET has the edges of a type, nodes/TYPE its
// nodes.
func readTyped(ctx context.Context, at, name string, folders map[string]array.Set,
	r *source.Request) (*source.Graph, error) {
	var nodes []Nodes
	var edges []Edges
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		set := folders[dir]
		if t, ok := edgeType(dir); ok && path.Dir(path.Dir(dir)) == name {
			edges = append(edges, Edges{Source: t[0], Relation: t[1], Target: t[2], Set: set})
		}
		if path.Dir(path.Dir(dir)) == name && path.Base(path.Dir(dir)) == "nodes" {
			n := Nodes{Name: path.Base(dir), Count: -1, Set: set}
			if _, ok := set["num_nodes"]; ok {
				count, err := (&Describer{Set: set, R: r}).number("num_nodes")
				if err != nil {
					return nil, err
				}
				n.Count = count
			}
			nodes = append(nodes, n)
		}
	}
	g, err := Typed(ctx, WithEnds(nodes, edges), edges, r)
	if err != nil {
		return nil, source.Error(at, "", -1, "", err)
	}
	return g, nil
}

// Files returns .npy files as a set, by the names that they are to have.
func Files(at map[string]source.Place) array.Set {
	set := array.Set{}
	for name, p := range at {
		set[name] = file(p)
	}
	return set
}

// file is a .npy file.
func file(at source.Place) array.Member {
	places := func() (*array.Reader, io.Closer, error) {
		r, c, err := openFile(at, func(*source.Raw, int64, int64) source.Blocks { return nil })
		if err == nil {
			r.Few()
		}
		return r, c, err
	}
	return array.Member{Path: at.Path(), Open: func() (*array.Reader, io.Closer, error) { return OpenFile(at) },
		OpenPlaces: places, OpenTexts: func() (*array.Texts, io.Closer, error) { return openTexts(at) }}
}

// openTexts opens a .npy file of strings at its first one.
func openTexts(at source.Place) (*array.Texts, io.Closer, error) {
	raw, err := at.Raw()
	if err != nil {
		return nil, nil, err
	}
	s := io.NewSectionReader(raw, 0, raw.Size)
	h, err := array.ReadHeader(s)
	if err == nil {
		err = fits(&h, s)
	}
	var t *array.Texts
	if err == nil {
		t, err = array.NewTexts(s, h)
	}
	if err != nil {
		_ = raw.Close()
		return nil, nil, source.Error(raw.Path, "", -1, "write it by numpy.save", err)
	}
	return t, raw, nil
}

// fits returns an error where a file, of which the header has been read, ends before its elements do.
func fits(h *array.Header, s *io.SectionReader) error {
	at, err := s.Seek(0, io.SeekCurrent)
	if err == nil && h.Kind != array.Object && h.Bytes() > s.Size()-at {
		err = fmt.Errorf("%v: elements take %d bytes, but %d are there: it is cut short", h, h.Bytes(), s.Size()-at)
	}
	return err
}

// OpenFile opens a .npy file at its first element. The caller closes what comes with it.
func OpenFile(at source.Place) (*array.Reader, io.Closer, error) {
	return openFile(at, (*source.Raw).Ahead)
}

func openFile(at source.Place, ahead aheadOf) (*array.Reader, io.Closer, error) {
	raw, err := at.Raw()
	if err != nil {
		return nil, nil, err
	}
	r, err := open(raw, ahead)
	if err != nil {
		_ = raw.Close()
		return nil, nil, source.Error(raw.Path, "", -1, "write it by numpy.save", err)
	}
	return r, raw, nil
}

// aheadOf returns a part of a file in order, or nil where it is to be mapped.
type aheadOf func(raw *source.Raw, at, end int64) source.Blocks

// open reads the header and returns a reader of the elements: read ahead where the file is large, else mapped, where
// the file can be mapped.
func open(raw *source.Raw, ahead aheadOf) (*array.Reader, error) {
	s := io.NewSectionReader(raw, 0, raw.Size)
	h, err := array.ReadHeader(s)
	if err != nil {
		return nil, err
	}
	if err := fits(&h, s); err != nil {
		return nil, err
	}
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	if end := at + h.Bytes(); h.Kind != array.Object && h.Bytes() > 0 {
		if a := ahead(raw, at, end); a != nil {
			return array.NewBlocks(a, at, h)
		}
	}
	if mem, err := raw.Map(); err == nil && mem != nil {
		return array.NewMapped(mem[at:], h)
	}
	return array.NewReader(s, h)
}

// edgesAlone reports whether the set holds edges and columns of them, so that no array has to fit the number of nodes.
func (d *Describer) edgesAlone() bool {
	return d.of == ofBoth && !slices.ContainsFunc(d.Set.Names(), func(name string) bool {
		h, err := d.header(name)
		return !d.Used[name] && (err != nil || ofEdges[strings.ToLower(name)] == "" || len(h.Shape) == 0 ||
			h.Shape[0] != d.ends.m)
	})
}

// How many places of an array are looked at, and how many ids at each.
const (
	samplePlaces = 64
	sampleIDs    = 512
)

// sampleOf returns the greatest of some numbers of an array, the first and the last among them, and at least -1.
func (d *Describer) sampleOf(_ context.Context, name string) (most int64, err error) {
	r, c, err := d.Set[name].OpenPlaces()
	if err != nil {
		return -1, err
	}
	defer c.Close()
	most, all := -1, r.Left()
	for i := range int64(samplePlaces) {
		if skip := (all-sampleIDs)*i/(samplePlaces-1) - (all - r.Left()); skip > 0 {
			if err := r.Skip(skip); err != nil {
				return -1, d.fail(name, -1, "%w", err)
			}
		}
		v, err := r.Ints(sampleIDs)
		if err != nil {
			return -1, d.fail(name, -1, "%w", err)
		}
		for _, x := range v {
			most = max(most, x)
		}
	}
	return most, nil
}
