package formats

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Dataset is an open dataset: its files, mapped. It is read-only and safe for concurrent use until Close. It is a
// loader's source.
type Dataset struct {
	dir      string
	manifest *Manifest
	graph    *graph.Graph
	strings  map[[2]string]*Strings
	bytes    int64

	directory fs.FileInfo
	files     []openedFile
	verified  []*verifiedFile
	byAddress sync.Once // verified is in order

	// Of one that OpenFrom has opened, else nil: where it comes from, and what brings what is not there yet.
	source  Source
	partial any

	links     []LinkSplit
	closeOnce sync.Once
	closeErr  error
	regions   []*pinned.Region
}

// Open maps the dataset at dir. Time and memory depend on the number of columns and not on their length. While a writer
// replaces the dataset, it opens the old or the new one, whole. The caller closes what was opened, which stays as it
// is.
//
// Errors: ErrIncomplete if there is no manifest; ErrVersion if a newer khop wrote it; ErrCorrupt if a file is missing,
// cut short or damaged where it was read; fs.ErrNotExist if there is no directory. A dataset at an address is opened by
// package remote.
func Open(dir string) (*Dataset, error) {
	if address.Is(dir) {
		return nil, fileError(address.Shown(dir), "open it by package formats/remote, or name a folder",
			errors.New("this is an address"))
	}
	return openDir(dir)
}

// openDir maps the dataset at dir.
func openDir(dir string) (*Dataset, error) {
	dir = filepath.Clean(dir)
	var d *Dataset
	err := directories.Read(dir, func(root *os.Root) (err error) {
		d, err = openRoot(dir, root, manifestName)
		return err
	})
	if err != nil {
		return nil, withRemedy(dir, err)
	}
	return d, nil
}

// openRoot maps the dataset that root has open, by the manifest of that name.
func openRoot(dir string, root *os.Root, manifest string) (*Dataset, error) {
	m, err := readManifest(dir, root, manifest)
	if err != nil {
		return nil, err
	}
	d := &Dataset{dir: dir, manifest: m, strings: make(map[[2]string]*Strings)}
	if err := d.opened(root, manifest); err != nil {
		return nil, err
	}
	if err := d.open(regularIn(root), readOn(&m.Content)); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// open maps all files and builds the graph over them. advise sees each mapping before anything of it is read.
func (d *Dataset) open(open opener, advise func(mapped []byte)) error {
	c := &d.manifest.Content
	a := graph.Arrays{
		Schema: c.schema(), ID: d.manifest.ID,
		NodeColumns: make([]map[string]unified.Tensor, len(c.NodeTypes)),
		EdgeColumns: make(map[string]unified.Tensor),
	}
	owners := make(map[string]int, len(c.NodeTypes))
	for t := range c.NodeTypes {
		owners[nodeOwner(t)] = t
		a.NodeColumns[t] = make(map[string]unified.Tensor)
	}
	for _, f := range c.files() {
		body, l, err := d.mapPart(open, f.typ, f.part, advise)
		if err != nil {
			return err
		}
		if l.Strings {
			key := [2]string{f.column.Owner, f.column.Name}
			d.strings[key] = &Strings{path: d.filePath(f.part), name: f.column.Name, body: body, l: l}
			continue
		}
		t, err := l.Tensor(body)
		switch {
		case err != nil:
			return corrupt(d.filePath(f.part), "%v", err)
		case f.column == nil:
			d.addSet(&a, f.split, f.set, t)
		case f.column.Owner == OwnerGraph:
			setTopology(&a, f.column.Name, t)
		case f.column.Owner == OwnerEdges:
			a.EdgeColumns[f.column.Name] = t
		default:
			a.NodeColumns[owners[f.column.Owner]][f.column.Name] = t
		}
	}
	err := pinned.Guard(func() (err error) {
		d.graph, err = graph.FromArrays(a)
		return err
	})
	if err != nil {
		return corrupt(d.dir, "%v", err)
	}
	return nil
}

func setTopology(a *graph.Arrays, name string, t unified.Tensor) {
	switch name {
	case nameIndptr:
		a.Indptr = t
	case nameIndices:
		a.Indices = t
	case nameType:
		a.Types = t
	case nameEdgeID:
		a.EdgeIDs = t
	}
}

// addSet adds a set of a split, which is a new one where its first set comes.
func (d *Dataset) addSet(a *graph.Arrays, split *SplitInfo, set *SetInfo, t unified.Tensor) {
	first := set == &split.Sets[0]
	if split.Task == taskLink {
		if first {
			d.links = append(d.links, LinkSplit{Name: split.Name, Index: split.Index})
		}
		d.links[len(d.links)-1].add(set, t)
		return
	}
	if first {
		a.Splits = append(a.Splits, graph.Split{Name: split.Name, Index: split.Index})
	}
	to := &a.Splits[len(a.Splits)-1].Seeds
	if set.End != "" {
		set.addTo(to, t)
		return
	}
	to.Sets = append(to.Sets, graph.SeedSet{Type: set.NodeType, IDs: t, Count: t.Len()})
}

func (d *Dataset) filePath(p *Part) string { return filepath.Join(d.dir, filepath.FromSlash(p.Path)) }

// readOn says on which pages files are brought from the disk: on huge ones where half of the available memory has room
// for all of them, since who reads a row of a larger dataset would read millions of bytes around it.
func readOn(c *Content) (advise func(mapped []byte)) {
	total := int64(0)
	for _, f := range c.files() {
		total += f.part.FileBytes
	}
	if total > machine.Probe().Room()/2 {
		return func([]byte) {}
	}
	return pinned.ReadOnHugePages
}

// mapPart maps a file, checks its head and footer, and returns its body, without the padding.
func (d *Dataset) mapPart(open opener, a arrayfile.Type, p *Part, advise func([]byte)) ([]byte, arrayfile.Layout,
	error) {
	r, l, st, err := mapFile(open, d.dir, a, p, advise)
	if err != nil {
		return nil, arrayfile.Layout{}, err
	}
	d.regions = append(d.regions, r)
	d.bytes += r.Len()
	end := l.BodyOffset + l.Bytes
	body := r.Bytes()[l.BodyOffset:end:end]
	d.files = append(d.files, openedFile{path: d.filePath(p), info: st})
	d.verifiable(d.filePath(p), p, body)
	return body, l, nil
}

// mapFile maps a file and checks that head and footer are what the manifest says. It also returns the file as it was
// just before. advise sees the mapping before anything of it is read.
func mapFile(open opener, dir string, a arrayfile.Type, p *Part, advise func([]byte)) (_ *pinned.Region,
	l arrayfile.Layout, st fs.FileInfo, err error) {
	path := filepath.Join(dir, filepath.FromSlash(p.Path))
	f, err := open(p.Path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = corruptf("the file is missing")
		}
		return nil, l, nil, fileError(path, remedyConvert, err)
	}
	defer f.Close()
	if st, err = f.Stat(); err != nil {
		return nil, l, nil, fileError(path, "", err)
	}
	if st.Size() != p.FileBytes {
		return nil, l, nil, corrupt(path, "the file has %s bytes, it must have %s", humanize.Comma(st.Size()),
			humanize.Comma(p.FileBytes))
	}
	r, err := pinned.Map(f)
	if err != nil {
		return nil, l, nil, fileError(path, "", err)
	}
	advise(r.Bytes())
	err = pinned.Guard(func() (err error) {
		l, err = checkFile(r.Bytes(), a, p)
		return err
	})
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			err = corruptf("%v", err)
		}
		return nil, l, nil, errors.Join(fileError(path, remedyConvert, err), r.Close())
	}
	return r, l, st, nil
}

// checkFile checks the checksum of head and footer, and what they say. The manifest has been checked: its numbers fit
// p.
func checkFile(file []byte, a arrayfile.Type, p *Part) (l arrayfile.Layout, err error) {
	if int64(len(file)) != p.FileBytes {
		return l, corruptf("the file has %d bytes, it must have %d", len(file), p.FileBytes)
	}
	h := xxh3.New()
	_, _ = h.Write(file[:p.BodyOffset])
	_, _ = h.Write(file[p.BodyOffset+p.Bytes:])
	if formatHash(h.Sum64()) != p.HeadXXH3 {
		return l, corruptf("bytes 0 to %d or %d to %d (head and footer) do not fit their checksum", p.BodyOffset,
			p.BodyOffset+p.Bytes, p.FileBytes)
	}
	if l, err = arrayfile.Walk(file); err != nil {
		return l, err
	}
	if !l.Type.Equal(a) || l.Rows != p.Rows || l.BodyOffset != p.BodyOffset || l.Bytes != p.Bytes {
		return l, corruptf("it holds %d rows of %q, %v%v, %d bytes at %d; the manifest says %d rows of %q, %v%v, "+
			"%d bytes at %d", l.Rows, l.Name, l.DType, l.Shape, l.Bytes, l.BodyOffset, p.Rows, a.Name, a.DType,
			a.Shape, p.Bytes, p.BodyOffset)
	}
	return l, nil
}

// opener opens a file of a dataset by its path in the manifest. Who reads it closes it.
type opener func(path string) (*os.File, error)

// regularIn opens the regular files of a folder.
func regularIn(root *os.Root) opener {
	return func(path string) (*os.File, error) { return openRegular(root, path) }
}

// openRegular opens a file of the dataset for reading. It must be a regular file: no link, pipe or device.
func openRegular(root *os.Root, name string) (*os.File, error) {
	name = filepath.FromSlash(name)
	for i := range name { // no directory on the way may be a link
		if os.IsPathSeparator(name[i]) {
			if st, err := root.Lstat(name[:i]); err != nil || !st.IsDir() {
				return nil, cannotOpen(err)
			}
		}
	}
	if st, err := root.Lstat(name); err != nil || !st.Mode().IsRegular() {
		return nil, cannotOpen(err)
	}
	return root.OpenFile(name, os.O_RDONLY|transaction.OpenNonblock, 0)
}

func cannotOpen(err error) error {
	if err == nil {
		err = corruptf("not a regular file: datasets have no links, pipes or devices")
	}
	return err
}

// Path returns the directory.
func (d *Dataset) Path() string { return d.dir }

// ID identifies the contents: datasets with equal ids have equal files, wherever and whenever they were written.
func (d *Dataset) ID() [16]byte { return d.manifest.ID }

// Manifest returns the contents of dataset.json. It must not be changed. It stays valid after Close.
func (d *Dataset) Manifest() *Manifest { return d.manifest }

// Graph returns the graph over the mapped files, valid until Close.
func (d *Dataset) Graph() *graph.Graph { return d.graph }

// Strings returns a list of strings that belongs to a node type; ErrNoStrings, with all lists, if there is no such
// list.
func (d *Dataset) Strings(nodeType int, name string) (*Strings, error) {
	owner := nodeOwner(nodeType)
	if s, ok := d.strings[[2]string{owner, name}]; ok {
		return s, nil
	}
	var names []string
	for i := range d.manifest.Columns {
		if c := &d.manifest.Columns[i]; c.DType == stringsDType && c.Owner == owner && len(names) < 20 {
			names = append(names, c.Name)
		}
	}
	return nil, fileError(d.dir, "", fmt.Errorf("%w: %q of node type %d; there are: %s", ErrNoStrings, name, nodeType,
		strings.Join(append(names, "no others"), ", ")))
}

// FileBytes returns the bytes of all files, including the manifest.
func (d *Dataset) FileBytes() int64 { return d.bytes }

// Close unmaps the files. Of everything that the dataset returned, only the manifest may still be used. Later calls
// return the first result.
func (d *Dataset) Close() error {
	d.closeOnce.Do(func() {
		if d.source != nil {
			d.source.Stop()
		}
		var errs []error
		for _, r := range d.regions {
			errs = append(errs, r.Close())
		}
		if d.source != nil {
			errs = append(errs, d.source.Close())
		}
		d.closeErr = errors.Join(errs...)
	})
	return d.closeErr
}
