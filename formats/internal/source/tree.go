package source

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/text/transform"

	"github.com/khop-gnn/khop/internal/paths"
)

// Tree is the files of a source: those of a directory at any depth, those of an archive (tar, plain or compressed, or
// zip), or one file with those beside it. It is one goroutine's at a time; its owner calls Close.
type Tree struct {
	Path string // as the user named it

	budget   *Budget
	encoding string // of texts; "": UTF-8
	read     atomic.Int64
	dir      string // of files on the disk
	single   bool   // one file was named
	names    []string
	heads    map[string][]byte
	of       *Tree                  // that names the file of this one; nil: none does
	opened   map[string]fs.FileInfo // files on the disk, as they were when they were first opened
	spool    *Spool                 // of an archive: its members, one behind the other
	spans    map[string][2]int64    // where in spool each lies
	buf      []byte                 // for copying members

	brings Bringer // what is not there of a file; nil: all is
}

// Bringer returns what has bytes of a file there; nil where all are.
type Bringer func(path string) func(from, to int64) error

// The limits of a tree: what an archive or a folder may hold.
const (
	maxFiles    = 1 << 17
	maxDepth    = 16
	headBytes   = 4096
	maxInflate  = 1 << 10 // times that an archive may grow beyond the first freeInflate bytes
	freeInflate = 1 << 30
)

// OpenTree opens a source. Members of an archive are taken out of it into the budget's temporary room: no name in an
// archive becomes a name on the disk.
func OpenTree(name string, b *Budget) (*Tree, error) { return OpenBrought(name, b, nil) }

// OpenBrought opens a source whose files are brought as they are read. Nobody changes what has been brought.
func OpenBrought(name string, b *Budget, brings Bringer) (*Tree, error) {
	st, err := Stat(name)
	if err != nil {
		return nil, err
	}
	t := &Tree{Path: name, budget: b, heads: map[string][]byte{}, brings: brings}
	if st.IsDir() {
		t.dir = name
		err := t.walk()
		slices.Sort(t.names) // a walk has "a/b" before "a-b"
		return t, err
	}
	t.dir, t.single, t.names = filepath.Dir(name), true, []string{filepath.Base(name)}
	head, err := Place{t, t.names[0]}.Head()
	switch {
	case err != nil:
		return nil, err
	case isTar(head):
		err = t.untar()
	case isZip(head):
		err = t.unzip()
	}
	slices.Sort(t.names)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func isTar(head []byte) bool { return len(head) > 262 && string(head[257:262]) == "ustar" }

func isZip(head []byte) bool { return bytes.HasPrefix(head, []byte("PK\x03\x04")) }

// walk lists the files of a directory at any depth. Hidden ones, and links to folders, are left out.
func (t *Tree) walk() error {
	return filepath.WalkDir(t.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(t.dir, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if rel != "." && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			if strings.Count(rel, "/") >= maxDepth {
				return fs.SkipDir
			}
			return nil
		}
		if st, err := os.Stat(p); err != nil || !st.Mode().IsRegular() {
			return nil // a link to nowhere, a pipe
		}
		if t.names = append(t.names, rel); len(t.names) > maxFiles {
			return Error(t.Path, "", -1, "name the folder or file that holds the graph",
				fmt.Errorf("holds more than %d files", maxFiles))
		}
		return nil
	})
}

// untar takes all files out of a tar archive.
func (t *Tree) untar() error {
	f, err := OpenCounted(Place{t, t.names[0]}.Open, t.budget.Ledger())
	if err != nil {
		return err
	}
	defer f.Close()
	t.begin()
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return Error(t.Path, "", -1, "the archive is cut short or damaged", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue // folders, links, devices
		}
		if err := t.take(h.Name, r, f.Size); err != nil {
			return err
		}
	}
}

// unzip takes all files out of a zip archive, unless it is one of NumPy arrays, which is read as it is.
func (t *Tree) unzip() error {
	f, err := Place{t, t.names[0]}.Raw()
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zip.NewReader(f, f.Size)
	if err != nil {
		return Error(t.Path, "", -1, "the archive is cut short or damaged", err)
	}
	if !slices.ContainsFunc(z.File, func(m *zip.File) bool { return !strings.HasSuffix(m.Name, ".npy") }) {
		return nil
	}
	if slices.ContainsFunc(z.File, func(m *zip.File) bool { return path.Base(m.Name) == "data.pkl" }) {
		return nil // torch.save's
	}
	t.begin()
	for _, m := range z.File {
		if !m.Mode().IsRegular() {
			continue
		}
		r, err := m.Open()
		if err == nil {
			if err = t.take(m.Name, r, f.Size); err != nil {
				_ = r.Close()
			} else {
				err = r.Close()
			}
		}
		if err != nil {
			return Error(t.Path+"/"+paths.Text(m.Name), "", -1, "", err)
		}
	}
	return nil
}

// begin turns the tree of one file into that of the archive that it is.
func (t *Tree) begin() {
	t.single, t.names, t.dir = false, nil, ""
	t.heads = map[string][]byte{}
	t.spool, t.spans = &Spool{Budget: t.budget}, map[string][2]int64{}
	t.buf = make([]byte, 1<<16)
}

// take copies a member of an archive, which has size bytes.
func (t *Tree) take(name string, r io.Reader, size int64) error {
	clean := path.Clean(strings.TrimPrefix(name, "./"))
	deep := strings.Count(clean, "/")
	fail := func(err error) error { return Error(t.Path+"/"+paths.Text(name), "", -1, "", err) }
	switch _, twice := t.spans[clean]; {
	case !fs.ValidPath(clean):
		return fail(errors.New("the name of a member leads out of the archive"))
	case deep > maxDepth:
		return Error(t.Path, "", -1, "unpack the archive, and name the folder that holds the graph",
			fmt.Errorf("the member %.100q lies in %d folders, where %d are the most", name, deep, maxDepth))
	case twice:
		return fail(errors.New("the archive has the member twice"))
	case len(t.names) == maxFiles:
		return fail(fmt.Errorf("the archive has more than %d members", maxFiles))
	}
	if strings.HasPrefix(path.Base(clean), ".") {
		return nil
	}
	from := t.spool.Len()
	for {
		n, err := r.Read(t.buf)
		if _, werr := t.spool.Write(t.buf[:n]); werr != nil {
			return fail(werr)
		}
		if t.spool.Len() > freeInflate && t.spool.Len()/maxInflate > size {
			return fail(fmt.Errorf("the archive grows more than %d-fold: it is taken for a bomb; unpack it first",
				maxInflate))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return fail(err)
		}
	}
	t.names = append(t.names, clean)
	t.spans[clean] = [2]int64{from, t.spool.Len()}
	return nil
}

// Files returns the names of all files, sorted, with slashes: the one that was named, or those of a folder or archive.
func (t *Tree) Files() []string { return t.names }

// Beginning returns the files whose first bytes fit.
func (t *Tree) Beginning(fits func(head []byte) bool) []string {
	return t.Where(func(at Place) bool {
		head, err := at.Head()
		return err == nil && fits(head)
	})
}

// Where returns the files that fit.
func (t *Tree) Where(fits func(at Place) bool) (found []string) {
	for _, name := range t.names {
		if fits(t.At(name)) {
			found = append(found, name)
		}
	}
	return found
}

// Archives returns the paths of the archives in a folder.
func (t *Tree) Archives() (found []string) {
	if t.single || t.spool != nil {
		return nil
	}
	for _, name := range t.Beginning(func(head []byte) bool { return isTar(head) || isZip(head) }) {
		found = append(found, t.At(name).Path())
	}
	return found
}

// Budget returns what reading the tree draws from; nil: no limit.
func (t *Tree) Budget() *Budget { return t.budget }

// Single reports whether one file was named, which is not an archive.
func (t *Tree) Single() bool { return t.single }

// Has reports whether there is a file of this name; beside a single file too.
func (t *Tree) Has(name string) bool {
	if _, ok := slices.BinarySearch(t.names, name); ok {
		return true
	}
	if !t.single {
		return false
	}
	st, err := os.Stat(filepath.Join(t.dir, filepath.FromSlash(name)))
	return err == nil && st.Mode().IsRegular()
}

// Within returns the names of the files that lie in a folder itself, sorted; of a folder beside a single file too.
func (t *Tree) Within(folder string) (list []string) {
	if t.single {
		entries, _ := os.ReadDir(filepath.Join(t.dir, filepath.FromSlash(folder)))
		for _, e := range entries {
			if name := path.Join(folder, e.Name()); !strings.HasPrefix(e.Name(), ".") && t.Has(name) {
				list = append(list, name)
			}
		}
		return list
	}
	first, _ := slices.BinarySearch(t.names, folder+"/")
	for _, name := range t.names[first:] {
		inside, ok := strings.CutPrefix(name, folder+"/")
		if !ok {
			break
		}
		if !strings.Contains(inside, "/") {
			list = append(list, name)
		}
	}
	return list
}

// At returns a place in the tree.
func (t *Tree) At(name string) Place { return Place{t, name} }

// Packed reports whether the tree is that of an archive.
func (t *Tree) Packed() bool { return t.spool != nil }

// tally counts the bytes that are read.
type tally struct {
	io.ReaderAt
	n *atomic.Int64
}

// ReadAt reads.
func (t *tally) ReadAt(p []byte, at int64) (int, error) {
	n, err := t.ReaderAt.ReadAt(p, at)
	t.n.Add(int64(n))
	return n, err
}

// Read returns how many bytes of the files were read so far, but those that were mapped.
func (t *Tree) Read() int64 { return t.read.Load() }

// Opened returns the files that were opened, by their paths.
func (t *Tree) Opened() map[string]fs.FileInfo { return t.opened }

// Unchanged compares size and time of the files that were opened with what they were then. ErrChanged, with the file.
func (t *Tree) Unchanged() error {
	for path, st := range t.opened {
		if err := Unchanged(path, st); err != nil {
			return err
		}
	}
	return nil
}

// Unchanged compares a file with what it was. ErrChanged where another one is in its place, or it was written to.
func Unchanged(path string, was fs.FileInfo) error {
	now, err := os.Stat(path)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	case !os.SameFile(now, was):
		err = fmt.Errorf("%w: another file is in its place", ErrChanged)
	case now.Size() != was.Size():
		err = fmt.Errorf("%w: it had %d bytes and has %d", ErrChanged, was.Size(), now.Size())
	case !now.ModTime().Equal(was.ModTime()):
		err = ErrChanged
	}
	if err != nil {
		return Error(path, "", -1, "convert it again when nobody writes to it", err)
	}
	return nil
}

// Close removes what was taken out of an archive.
func (t *Tree) Close() error {
	if t.spool == nil {
		return nil
	}
	return t.spool.Close()
}

// Place is a file or folder of a tree.
type Place struct {
	Tree *Tree
	Name string // with slashes; "." is the root
}

// Local returns the place of a file on the disk, whose name need not be that of a tree.
func Local(name string) Place {
	return Place{&Tree{Path: name, dir: filepath.Dir(name), single: true, names: []string{filepath.Base(name)},
		heads: map[string][]byte{}}, filepath.Base(name)}
}

// Local returns the place of a file on the disk that what the tree has names: it is as much of the source as the files
// of the tree, and may lie elsewhere.
func (t *Tree) Local(name string) Place {
	p := Local(name)
	p.Tree.of, p.Tree.encoding = t.noted(), t.encoding
	return p
}

// Folder returns the files of a folder on the disk that what the tree has names, as Local returns one.
func (t *Tree) Folder(dir string) (*Tree, error) {
	f := &Tree{Path: dir, dir: dir, heads: map[string][]byte{}, of: t.noted(), encoding: t.encoding}
	return f, f.walk()
}

// noted returns the tree that notes which files were opened, and what was read of them.
func (t *Tree) noted() *Tree {
	if t.of != nil {
		return t.of
	}
	return t
}

// Path returns what messages call the place.
func (p Place) Path() string {
	if p.Tree.spool != nil {
		return filepath.Join(p.Tree.Path, filepath.FromSlash(p.Name))
	}
	return filepath.Join(p.Tree.dir, filepath.FromSlash(p.Name))
}

// In returns a place within a folder.
func (p Place) In(name string) Place { return Place{p.Tree, path.Join(p.Name, name)} }

// Beside returns a place in the same folder.
func (p Place) Beside(name string) Place { return Place{p.Tree, path.Join(path.Dir(p.Name), name)} }

// Exists reports whether it is a file.
func (p Place) Exists() bool { return p.Tree.Has(p.Name) }

// Raw opens a file as it lies there, for reading at any place.
func (p Place) Raw() (*Raw, error) {
	if p.Tree.spool == nil {
		f, st, err := OpenFile(p.Path())
		if err != nil {
			return nil, err
		}
		noted := p.Tree.noted()
		raw := &Raw{&tally{f, &noted.read}, f, st.Size(), p.Path(), nil, f, p.Tree.budget, nil}
		if p.Tree.brings != nil {
			if raw.bring = p.Tree.brings(p.Path()); raw.bring != nil {
				raw.ReaderAt = brought{raw.ReaderAt, raw.bring}
				return raw, nil
			}
		}
		if noted.opened == nil {
			noted.opened = map[string]fs.FileInfo{}
		}
		if _, before := noted.opened[p.Path()]; !before {
			noted.opened[p.Path()] = st
		}
		return raw, nil
	}
	span, ok := p.Tree.spans[p.Name]
	if !ok {
		return nil, Error(p.Path(), "", -1, "", fs.ErrNotExist)
	}
	b, err := p.Tree.spool.Bytes()
	if err != nil {
		return nil, err
	}
	b = b[span[0]:span[1]:span[1]]
	return &Raw{bytes.NewReader(b), io.NopCloser(nil), int64(len(b)), p.Path(), b, nil, nil, nil}, nil
}

// Open opens a file as the function Open does.
func (p Place) Open() (*File, error) {
	r, err := p.Raw()
	if err != nil {
		return nil, err
	}
	return newFile(r)
}

// OpenText opens a file as the function OpenText does.
func (p Place) OpenText() (*File, error) { return p.openText(p.Tree.encoding) }

func (p Place) openText(encoding string) (*File, error) {
	f, err := p.Open()
	if err != nil {
		return nil, err
	}
	return f, f.plain(encoding)
}

// maxSettings is the most bytes of a text that Parse reads.
const maxSettings = 1 << 20

// Parse has a function take a short text: settings, which may be in UTF-8 whatever the others are in. Errors, of the
// function too, name the file, with a remedy.
func (p Place) Parse(remedy string, take func(text []byte) error) error {
	encoding := p.Tree.encoding
	if encoding != "" {
		if at, _ := p.notText(); at < 0 {
			encoding = ""
		}
	}
	f, err := p.openText(encoding)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err == nil && len(text) > maxSettings {
		err = fmt.Errorf("it is longer than %d bytes", maxSettings)
	}
	if err == nil {
		err = take(text)
	}
	if err != nil {
		return Error(f.Path, "", -1, remedy, err)
	}
	return nil
}

// Head returns the first bytes of a file as they are when decompressed, in one byte a sign where they are ASCII.
func (p Place) Head() ([]byte, error) {
	h, err := p.head()
	for end := len(h) &^ 1; end >= len(h)-3 && end > 0 && Wide(h); end -= 2 { // the last sign may be cut in two
		if d := decoderOf(p.Tree.encoding, h); d != nil {
			if text, _, e := transform.Bytes(d, h[:end]); e == nil {
				return text, err
			}
		}
	}
	return h, err
}

func (p Place) head() ([]byte, error) {
	if h, ok := p.Tree.heads[p.Name]; ok {
		return h, nil
	}
	f, err := p.Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, headBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, Error(p.Path(), "", -1, "", err)
	}
	head = bytes.Clone(head[:n])
	p.Tree.heads[p.Name] = head
	return head, nil
}
