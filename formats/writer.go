package formats

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Progress is told how far a long operation has come: done of total units (bytes, or files) of a stage; total is 0
// where it is not known. It is called from one goroutine at a time and must return quickly. A nil Progress is silent.
type Progress func(stage string, done, total int64)

// WriterOptions say how Create writes. The zero value writes a new dataset, silently, with no provenance.
type WriterOptions struct {
	Force      bool              // replace a complete dataset, when the new one is complete
	Provenance map[string]string // where the data comes from; free, not part of the dataset's id
	Progress   Progress
	// what the dataset will take; checked against the free space before anything is touched. 0 is not known.
	ExpectBytes int64

	chunkBytes int64 // tests write small chunks; 0 is ChunkBytes
}

// Writer writes one dataset. Its methods are safe for concurrent use; each column writer belongs to one goroutine at a
// time. End it by Commit, or by Abort, which a defer may do in any case: after Commit it does nothing.
type Writer struct {
	dir string
	in  string // where in the marker's directory the dataset is written: "", or "new/" of a workspace
	opt WriterOptions
	gen int64

	mu        sync.Mutex
	mark      *marker
	arrays    []*written
	paths     map[string]bool // made so far, within the marker's directory
	progress  progressMeter
	direct    int  // files that pass the page cache by, now
	done      bool // committed or aborted
	unsettled bool // names were exchanged, and the disk may not have that
}

// written is one file of the dataset being written.
type written struct {
	info   ArrayInfo // Owner is "" for splits
	split  SplitInfo
	set    SetInfo
	typ    arrayType
	file   *columnFile
	closed bool
	part   Part // when closed
}

// Create begins a dataset at dir, which must not exist, or be empty, or hold what a writer that died has left. With
// Force it may also be a complete dataset. That one stays as it is until Commit, which puts the new one in its place in
// one step; the disk needs room for both. Its parent must exist. The target is locked against other writers until
// Commit or Abort, in this process and others.
//
// Errors: ErrExist if there is something that must not be replaced, or another writer is at work; ErrSpace if there is
// less room than ExpectBytes; else what the system says.
func Create(dir string, opt WriterOptions) (*Writer, error) {
	dir = target(dir)
	if opt.chunkBytes == 0 {
		opt.chunkBytes = ChunkBytes
	}
	if err := leaveWork(dir); err != nil {
		return nil, err
	}
	for range claimTrials {
		complete, err := lookFirst(dir)
		if err != nil {
			return nil, err
		}
		if complete && !opt.Force {
			return nil, existsError(dir)
		}
		if complete {
			return replacement(dir, opt)
		}
		w, err := inPlace(dir, opt)
		if w != nil || err != nil {
			return w, err
		}
	}
	return nil, busyError(dir)
}

func newWriter(dir, in string, generation int64, mark *marker, opt WriterOptions) *Writer {
	return &Writer{dir: dir, in: in, opt: opt, gen: generation, mark: mark, paths: make(map[string]bool),
		progress: progressMeter{f: opt.Progress, stage: "write", total: opt.ExpectBytes}}
}

// inPlace begins a dataset where none is. It returns nil if another writer has meanwhile completed one.
func inPlace(dir string, opt WriterOptions) (*Writer, error) {
	if err := checkSpace(filepath.Dir(dir), opt.ExpectBytes, 0); err != nil && !exists(dir) {
		return nil, err // before the directory is made
	}
	mark, err := claim(dir)
	if err != nil {
		return nil, err
	}
	if _, err := mark.root.Lstat(manifestName); err == nil {
		if mark.fresh {
			_ = mark.remove()
		}
		return nil, mark.release()
	}
	w := newWriter(dir, "", 1, mark, opt)
	if err := w.makeRoom(); err != nil {
		if mark.fresh { // leave the directory as it was
			err = errors.Join(err, mark.undo())
		}
		return nil, errors.Join(err, mark.release())
	}
	return w, nil
}

func exists(dir string) bool { _, err := os.Lstat(dir); return err == nil }

// lookFirst refuses what can be seen to be wrong before anything is made. It reports whether a dataset is there.
func lookFirst(dir string) (complete bool, err error) {
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fileError(dir, "", err)
	}
	if !st.IsDir() {
		return false, fileError(dir, "choose another target", fmt.Errorf("%w and is not a directory", ErrExist))
	}
	if exists(filepath.Join(dir, manifestName)) {
		return true, nil
	}
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // another writer has just given up
	}
	if err != nil {
		return false, fileError(dir, "", err)
	}
	if !slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == markerName }) && len(list) > 0 {
		return false, foreignError(dir, list[0].Name())
	}
	return false, nil
}

func existsError(dir string) error {
	return fileError(dir, "choose another target, or replace it by force",
		fmt.Errorf("%w: it is a complete dataset", ErrExist))
}

func foreignError(dir, name string) error {
	return fileError(dir, "choose another target, or remove the directory yourself",
		fmt.Errorf("%w: it holds %q, which no khop dataset has", ErrExist, name))
}

// makeRoom removes what a writer that died has left, and nothing else.
func (w *Writer) makeRoom() error {
	m := w.mark
	stranger, err := foreign(m.root, m.dir, m.files, m.dirs)
	if err != nil {
		return err
	}
	if stranger != "" {
		return foreignError(w.dir, stranger)
	}
	left := int64(0)
	for _, name := range m.files {
		if st, err := m.root.Lstat(filepath.FromSlash(name)); err == nil {
			left += st.Size()
		}
	}
	if err := checkSpace(w.dir, w.opt.ExpectBytes, left); err != nil {
		return err
	}
	if err := m.clear(); err != nil {
		return err
	}
	return m.restart()
}

// checkSpace compares what is needed with what is free, counting freed bytes that will be free before they are needed.
func checkSpace(dir string, need, freed int64) error {
	if need <= 0 {
		return nil
	}
	free, err := freeSpace(dir)
	if err != nil || need <= free+freed {
		return nil // an unknown amount is found out by writing
	}
	return fileError(dir, "make room, or choose another disk",
		fmt.Errorf("%w: %s bytes (%s) are needed, %s (%s) are free",
			ErrSpace, humanize.Comma(need), humanize.IBytes(uint64(need)), humanize.Comma(free+freed),
			humanize.IBytes(uint64(free+freed))))
}

// FreeSpace returns the bytes that this user can still write to the file system of a directory.
func FreeSpace(dir string) (int64, error) { return freeSpace(dir) }

// Path returns the directory that is written.
func (w *Writer) Path() string { return w.dir }

// Topology returns the writer of one array of the graph's structure: "indptr" (int64, nodes + 1 rows), "indices" (int32
// or int64, Schema.IDType), "type" (uint8, or uint16 with more than 256 edge types; only with more than one), "edge_id"
// (int64, optional). Indices are fused ids; the order within a destination is docs/format.md's.
func (w *Writer) Topology(name string, dtype unified.DType, rows int64) (*ColumnWriter, error) {
	switch name {
	case nameIndptr, nameIndices, nameType, nameEdgeID:
	default:
		return nil, fileError(w.dir, "", fmt.Errorf("no graph has an array %q", name))
	}
	c := graph.Column{Name: name, DType: dtype}
	return w.column(OwnerGraph, topologyPath(name), c, rows)
}

// EdgeColumn returns the writer of a column with a row for each edge, in the order of the CSC's positions.
func (w *Writer) EdgeColumn(c graph.Column, rows int64) (*ColumnWriter, error) {
	return w.column(OwnerEdges, edgeColumnPath(c.Name), c, rows)
}

// NodeColumn returns the writer of a column with a row for each node of a type, by own id.
func (w *Writer) NodeColumn(nodeType int, c graph.Column, rows int64) (*ColumnWriter, error) {
	if nodeType < 0 {
		return nil, fileError(w.dir, "", fmt.Errorf("node type %d", nodeType))
	}
	return w.column(nodeOwner(nodeType), nodeColumnPath(nodeType, c.Name), c, rows)
}

// NodeStrings returns the writer of a list of strings that belongs to a node type: names of its nodes, of its classes.
// It may have any number of rows.
func (w *Writer) NodeStrings(nodeType int, name string, rows int64) (*StringWriter, error) {
	if nodeType < 0 {
		return nil, fileError(w.dir, "", fmt.Errorf("node type %d", nodeType))
	}
	a := &written{
		info: ArrayInfo{Owner: nodeOwner(nodeType), Name: name, DType: stringsDType, Shape: []int64{}},
		typ:  arrayType{name: name, strings: true},
	}
	if err := w.add(a, nodeColumnPath(nodeType, name), rows); err != nil {
		return nil, err
	}
	return newStringWriter(w, a, rows)
}

// Split returns the writer of the seeds of one node type in a split: own ids, int32 or int64, repeats allowed. A split
// with several node types has one writer for each; its sets are ordered as they were asked for.
func (w *Writer) Split(name string, index int, nodeType int, dtype unified.DType, rows int64) (*ColumnWriter, error) {
	if index < 0 || nodeType < 0 || dtype != unified.Int32 && dtype != unified.Int64 {
		return nil, fileError(w.dir, "", fmt.Errorf("split %q %d of node type %d: ids of type %v", name, index,
			nodeType, dtype))
	}
	a := &written{
		split: SplitInfo{Task: taskNode, Name: name, Index: index},
		set:   SetInfo{NodeType: nodeType, DType: dtype.String()},
		typ:   arrayType{name: name, dtype: dtype},
	}
	if err := w.add(a, splitPath(name, index, nodeType), rows); err != nil {
		return nil, err
	}
	return newColumnWriter(w, a, rows)
}

// Links returns the writer of one array of the links of one edge type in a split: their ends "source" and "target", own
// ids of the two node types, and, where links have labels, "label" (int64). All have as many rows, and nodeType is that
// of the end, 0 for labels.
func (w *Writer) Links(name string, index, edgeType, nodeType int, end string, dtype unified.DType,
	rows int64) (*ColumnWriter, error) {
	if index < 0 || edgeType < 0 || nodeType < 0 || linkEnd(end) < 0 ||
		dtype != unified.Int32 && dtype != unified.Int64 {
		return nil, fileError(w.dir, "", fmt.Errorf("links %q %d of edge type %d: %s of type %v", name, index, edgeType,
			end, dtype))
	}
	a := &written{
		split: SplitInfo{Task: taskLink, Name: name, Index: index},
		set:   SetInfo{NodeType: nodeType, EdgeType: &edgeType, End: end, DType: dtype.String()},
		typ:   arrayType{name: name, dtype: dtype},
	}
	if err := w.add(a, linkPath(name, index, edgeType, end), rows); err != nil {
		return nil, err
	}
	return newColumnWriter(w, a, rows)
}

func (w *Writer) column(owner, name string, c graph.Column, rows int64) (*ColumnWriter, error) {
	a := &written{
		info: ArrayInfo{Owner: owner, Name: c.Name, DType: c.DType.String(), Shape: append([]int64{}, c.Shape...)},
		typ:  arrayType{name: c.Name, dtype: c.DType, shape: slices.Clone(c.Shape)},
	}
	if _, err := a.info.arrayType(); err != nil || rows < 0 || rows > maxCount/max(1, a.typ.rowBytes()) {
		return nil, fileError(filepath.Join(w.dir, name), "", fmt.Errorf("%w: column %q: %s rows of %v %v",
			graph.ErrSchema, c.Name, humanize.Comma(rows), c.Shape, c.DType))
	}
	if err := w.add(a, name, rows); err != nil {
		return nil, err
	}
	return newColumnWriter(w, a, rows)
}

// add notes a file in the marker and makes it.
func (w *Writer) add(a *written, name string, rows int64) error {
	full := filepath.Join(w.mark.dir, filepath.FromSlash(w.in+name))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return fileError(w.dir, "", errors.New("the writer has ended"))
	}
	if a.typ.name == "" || strings.ContainsRune(a.typ.name, 0) || len(a.typ.name) > maxName || rows < 0 ||
		rows > maxCount {
		return fileError(full, "", fmt.Errorf("%w: column %.100q with %d rows", graph.ErrSchema, a.typ.name, rows))
	}
	if w.paths[w.in+name] {
		return fileError(full, "", fmt.Errorf("%w: column %q is there twice", ErrExist, a.typ.name))
	}
	f, err := w.createFile(w.in + name)
	if err != nil {
		return err
	}
	w.paths[w.in+name] = true
	a.part = Part{Path: name, Rows: rows}
	a.file = &columnFile{File: f, path: full, w: w}
	w.arrays = append(w.arrays, a)
	return nil
}

// createFile makes a file in the marker's directory, and the directories that it is in.
func (w *Writer) createFile(name string) (*os.File, error) {
	full := filepath.Join(w.mark.dir, filepath.FromSlash(name))
	if err := w.makeDirs(name); err != nil {
		return nil, err
	}
	if err := w.mark.note(markerFile, name); err != nil {
		return nil, err
	}
	f, err := w.mark.root.OpenFile(filepath.FromSlash(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, writeError(full, err, 0)
	}
	return f, nil
}

// makeDirs makes the directories that a file is in.
func (w *Writer) makeDirs(name string) error {
	for i, c := range name {
		if dir := name[:i]; c == '/' && !w.paths[dir] {
			if err := w.mark.note(markerDir, dir); err != nil {
				return err
			}
			if err := w.mark.root.Mkdir(filepath.FromSlash(dir), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
				return writeError(filepath.Join(w.mark.dir, filepath.FromSlash(name)), err, 0)
			}
			w.paths[dir] = true
		}
	}
	return nil
}

// Abort removes all that was written, and the directory if Create has made it. A dataset that was there stays. Abort
// does nothing after Commit, and nothing the second time. Column writers that are still open fail from then on.
func (w *Writer) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	w.done = true
	for _, a := range w.arrays {
		_ = a.file.Close()
	}
	return errors.Join(w.remove(), w.mark.release())
}

// remove removes what was written.
func (w *Writer) remove() error {
	if w.unsettled {
		if err := w.mark.settle(); err != nil {
			return err // the next writer removes it
		}
	}
	// A Commit that failed at the very end may have named the manifest already. It goes first: without it there is no
	// dataset.
	if err := w.mark.root.Remove(w.in + manifestName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.mark.clear(); err != nil {
		return err
	}
	return w.mark.undo()
}

// Commit makes what was written a dataset: it checks that the arrays are those that the schema describes and are whole,
// waits until all is on the disk, and renames the manifest into place. Where it replaces a dataset, the new one then
// takes the place of the old one, which is removed. The schema's counts must be set; its columns are listed in its
// order. On an error nothing is committed, and the caller calls Abort.
func (w *Writer) Commit(s graph.Schema) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return fileError(w.dir, "", errors.New("the writer has ended"))
	}
	content, err := w.content(s)
	if err != nil {
		return err
	}
	m := &Manifest{Format: [2]int{FormatMajor, FormatMinor}, Generation: w.gen, Provenance: w.opt.Provenance,
		Content: *content}
	text, err := m.encode()
	if err != nil {
		return fileError(w.dir, "", err)
	}
	if len(text) > maxManifest {
		return fileError(w.dir, "", fmt.Errorf("a manifest of %s is too large", humanize.IBytes(uint64(len(text)))))
	}
	if err := w.publish(text); err != nil {
		return err
	}
	if w.in != "" {
		if err := w.takePlace(); err != nil {
			return err
		}
	}
	w.done = true
	// The dataset is complete from here on: what is left of the marker, or of the old one, harms nobody.
	if w.in == "" {
		_ = w.mark.remove()
	} else if w.mark.clear() == nil {
		_ = w.mark.undo()
	}
	_ = w.mark.release()
	w.progress.finish()
	return nil
}

// publish writes the manifest under another name, makes everything durable, and renames it.
func (w *Writer) publish(text []byte) error {
	root := w.mark.root
	if w.in != "" { // in a workspace every file is named; elsewhere the manifest says that the dataset is complete
		if err := w.mark.note(markerFile, w.in+manifestName); err != nil {
			return err
		}
	}
	f, err := w.createFile(w.in + manifestTemp)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = cmp.Or(err, f.Sync())
	err = cmp.Or(err, f.Close())
	for _, d := range append(dirsOf(sortedKeys(w.paths)), ".") {
		err = cmp.Or(err, syncDir(root, filepath.FromSlash(d)))
	}
	if w.mark.madeDirectory() {
		err = cmp.Or(err, syncParent(w.mark.dir))
	}
	in := filepath.Join(w.mark.dir, filepath.FromSlash(w.in))
	if err == nil {
		err = os.Rename(filepath.Join(in, manifestTemp), filepath.Join(in, manifestName))
	}
	err = cmp.Or(err, syncDir(root, filepath.Join(".", filepath.FromSlash(w.in))))
	if err != nil {
		return writeError(filepath.Join(in, manifestName), err, int64(len(text)))
	}
	return nil
}

// syncParent makes the name of a directory durable, where this user may read the directory that holds it.
func syncParent(dir string) error {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(syncDir(root, "."), root.Close())
}
