package formats

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/unified"
)

// Progress receives how far a long operation has come: done of total units (bytes, or files) of a stage; total is 0
// where it is not known. It is called from one goroutine at a time and must return quickly. A nil Progress is silent.
type Progress func(stage string, done, total int64)

// WriterOptions say how Create writes. The zero value writes a new dataset, silently, with no provenance.
type WriterOptions struct {
	Force      bool              // replace a complete dataset once the new one is complete
	Provenance map[string]string // where the data comes from: any keys; not part of the dataset's id
	Progress   Progress
	// the size of the dataset, which is compared with the free space before anything is touched; 0: not known
	ExpectBytes int64
	// sources, read while the dataset is written: files and folders, which a target must not be, contain or lie in
	Inputs []string

	chunkBytes int64 // tests write small chunks; 0 is 64 MiB
}

// directories are what is written in one step: datasets.
var directories = transaction.Kind{
	Manifest: manifestName,
	Makes:    func(name string) bool { return checkPath(name) == nil },
	Inspect:  inspect,
	Verify:   verify,
	Error:    func(path, remedy string, err error) error { return fileError(path, remedy, err) },
	Exchange: transaction.Exchange,
	Link:     os.Link,
}

// inspect reads the manifest of the dataset at dir, which root has open.
func inspect(dir string, root *os.Root) (generation int64, files []string, err error) {
	m, err := readManifest(dir, root, manifestName)
	if err != nil {
		return 0, nil, err
	}
	for _, f := range m.files() {
		files = append(files, f.part.Path)
	}
	return m.Generation, files, nil
}

// verify opens the dataset that root has open, and whose manifest has not got its name yet.
func verify(dir string, root *os.Root, manifest string) error {
	d, err := openRoot(dir, root, manifest)
	if err != nil {
		return fileError(dir, "nothing was replaced; write it again, to another disk if this one is damaged",
			fmt.Errorf("what was written cannot be opened: %w", err))
	}
	return d.Close()
}

// passCache says which arrays pass the page cache by. Tests change it.
var passCache = arrayfile.Direct{Dataset: 1 << 30, Array: 64 << 20, Block: 1 << 20}

// Writer writes one dataset. Its methods are safe for concurrent use; each column writer belongs to one goroutine at a
// time. End it by Commit or Abort. After Commit Abort does nothing, so it can be deferred.
type Writer struct {
	dir      string
	opt      WriterOptions
	shared   arrayfile.Shared
	progress progressMeter

	mu         sync.Mutex
	tx         Files
	generation int64
	arrays     []*written
}

// written is one file of the dataset being written.
type written struct {
	info   ArrayInfo // Owner is "" for splits
	split  SplitInfo
	set    SetInfo
	typ    arrayfile.Type
	path   string
	file   *os.File // nil where it was taken over
	part   Part     // when closed
	closed bool
}

// Create begins a dataset at dir, which must not exist, or be empty, or hold the remains of a writer that died. With
// Force it may also be a complete dataset. That one stays as it is until Commit, which replaces it in one step; the
// disk needs room for both. The parent of dir must exist. The target is locked against other writers until Commit or
// Abort, in this process and others.
//
// Errors: ErrExist if dir has something that must not be replaced, or another writer is at work; ErrInput; ErrSpace if
// there is less room than ExpectBytes; else errors of the system.
func Create(dir string, opt WriterOptions) (*Writer, error) {
	return begin(dir, opt, transaction.Options{Replace: opt.Force, Expect: opt.ExpectBytes})
}

// begin is the one way to a Writer.
func begin(dir string, opt WriterOptions, how transaction.Options) (*Writer, error) {
	if err := wholefile.Apart(dir, opt.Inputs...); err != nil {
		return nil, err
	}
	tx, err := directories.Begin(dir, how)
	if err != nil {
		return nil, err
	}
	w := CreateIn(tx.Dir, tx, opt)
	w.generation = tx.Generation
	return w, nil
}

// Files is where a Writer makes files, by their paths in the manifest: a folder, or memory (package convert).
type Files interface {
	Path(name string) string // in errors
	Has(name string) bool
	Create(name string) (*os.File, error) // the Writer closes it
	Commit(manifest []byte) error
	Abort() error
}

// CreateIn begins a dataset whose files are elsewhere than in a folder. Errors call it dir. Open completes it.
func CreateIn(dir string, to Files, opt WriterOptions) *Writer {
	w := &Writer{dir: dir, opt: opt, tx: to,
		progress: progressMeter{f: opt.Progress, stage: "write", total: opt.ExpectBytes}}
	w.shared = arrayfile.Shared{ChunkBytes: cmp.Or(opt.chunkBytes, arrayfile.ChunkBytes), Expect: opt.ExpectBytes,
		Direct: passCache, Wrote: w.progress.add, WriteError: directories.WriteError,
		Misuse: func(path, array string, row int64, err error) error {
			return &Error{Path: path, Column: array, Row: row, Err: err}
		}}
	return w
}

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
		typ:  arrayfile.Type{Name: name, Strings: true},
	}
	if err := w.add(a, nodeColumnPath(nodeType, name), rows); err != nil {
		return nil, err
	}
	to, err := w.shared.Strings(a.file, a.path, name, rows)
	if err != nil {
		return nil, err
	}
	return &StringWriter{w: w, a: a, to: to}, nil
}

// Split returns the writer of the seeds of one node type in a split: own ids, int32 or int64, repeats allowed. A split
// with several node types has one writer for each; its sets are in the order of the calls.
func (w *Writer) Split(name string, index int, nodeType int, dtype unified.DType, rows int64) (*ColumnWriter, error) {
	if index < 0 || nodeType < 0 || dtype != unified.Int32 && dtype != unified.Int64 {
		return nil, fileError(w.dir, "", fmt.Errorf("split %q %d of node type %d: ids of type %v", name, index,
			nodeType, dtype))
	}
	a := &written{
		split: SplitInfo{Task: taskNode, Name: name, Index: index},
		set:   SetInfo{NodeType: nodeType, DType: dtype.String()},
		typ:   arrayfile.Type{Name: name, DType: dtype},
	}
	return w.columnWriter(a, splitPath(name, index, nodeType), rows)
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
		typ:   arrayfile.Type{Name: name, DType: dtype},
	}
	return w.columnWriter(a, linkPath(name, index, edgeType, end), rows)
}

// Table writes the table of a task, named TASK:SPLIT (graph.Split.Task): nodes, which may repeat, and the times and
// labels that they have; or edges whose sources have one target or more. The schema has had its Init. put writes an
// array and closes its writer, or returns the error that it receives.
func (w *Writer) Table(name string, seeds graph.Seeds, s *graph.Schema,
	put func(*ColumnWriter, error, unified.Tensor) error) error {
	for _, a := range tableArrays(seeds, s) {
		if !a.rows.Valid() {
			continue
		}
		cw, err := w.tableArray(name, a.set, a.rows)
		if err := put(cw, err, a.rows); err != nil {
			return err
		}
	}
	return nil
}

// tableArray returns the writer of one array of a task's table.
func (w *Writer) tableArray(name string, set SetInfo, rows unified.Tensor) (*ColumnWriter, error) {
	set.DType, set.Shape = rows.DType().String(), rows.Shape()[1:]
	a := &written{
		split: SplitInfo{Task: taskTable, Name: name},
		set:   set,
		typ:   arrayfile.Type{Name: name, DType: rows.DType(), Shape: set.Shape},
	}
	if _, err := a.set.arrayType(&a.split); err != nil || set.NodeType < 0 {
		return nil, fileError(w.dir, "", fmt.Errorf("table %q of node type %d: %q is %v", name, set.NodeType, set.End,
			rows))
	}
	return w.columnWriter(a, tablePath(name, set.End), rows.Len())
}

func (w *Writer) column(owner, name string, c graph.Column, rows int64) (*ColumnWriter, error) {
	a := &written{
		info: ArrayInfo{Owner: owner, Name: c.Name, DType: c.DType.String(), Shape: append([]int64{}, c.Shape...),
			Unit: c.Unit, Fields: c.Fields, Code: c.Code},
		typ: arrayfile.Type{Name: c.Name, DType: c.DType, Shape: slices.Clone(c.Shape)},
	}
	if _, err := a.info.arrayType(); err != nil || rows < 0 || rows > maxCount/max(1, a.typ.RowBytes()) {
		return nil, fileError(filepath.Join(w.dir, name), "", fmt.Errorf("%w: column %q: %s rows of %v %v",
			graph.ErrSchema, c.Name, humanize.Comma(rows), c.Shape, c.DType))
	}
	return w.columnWriter(a, name, rows)
}

func (w *Writer) columnWriter(a *written, name string, rows int64) (*ColumnWriter, error) {
	if err := w.add(a, name, rows); err != nil {
		return nil, err
	}
	to, err := w.shared.Writer(a.file, a.path, a.typ, rows)
	if err != nil {
		return nil, err
	}
	c := &ColumnWriter{w: w, a: a, to: to}
	if isRowTime(&a.info) {
		c.up = newAscent()
	}
	return c, nil
}

// isRowTime reports whether a column is the times of nodes, of one int64 each.
func isRowTime(a *ArrayInfo) bool {
	return graph.RoleOf(a.Name) == graph.Time && strings.HasPrefix(a.Owner, ownerNodes) && len(a.Shape) == 0 &&
		a.DType == unified.Int64.String()
}

// add makes the file of an array.
func (w *Writer) add(a *written, name string, rows int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.path = w.tx.Path(name)
	for _, part := range a.split.names() {
		if err := names.Check("column or split", cmp.Or(part.name, a.typ.Name)); err != nil {
			return fileError(w.dir, "rename it", err)
		}
	}
	if rows < 0 || rows > maxCount {
		return fileError(a.path, "", fmt.Errorf("%w: column %.100q with %d rows", graph.ErrSchema, a.typ.Name, rows))
	}
	if w.tx.Has(name) {
		return fileError(a.path, "", fmt.Errorf("%w: column %q is there twice", ErrExist, a.typ.Name))
	}
	f, err := w.tx.Create(name)
	if err != nil {
		return err
	}
	a.file, a.part.Path = f, name
	w.arrays = append(w.arrays, a)
	return nil
}

// Abort removes all that was written, and the directory if Create has made it. An old dataset stays. After Commit, and
// the second time, Abort does nothing. Column writers that are still open then fail.
func (w *Writer) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.arrays {
		_ = a.file.Close()
	}
	return w.tx.Abort()
}

// Commit completes the dataset. It checks that the arrays are complete and those of the schema, waits until all are on
// the disk, opens the dataset as Open does, and renames the manifest into place. If it replaces a dataset, the new one
// then takes the place of the old one, which is removed. The schema's counts must be set; its columns are listed in its
// order. On an error nothing is committed, and the caller calls Abort.
func (w *Writer) Commit(s graph.Schema) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, text, err := w.manifest(s)
	if err != nil {
		return err
	}
	return w.tx.Commit(text)
}

// Open completes a dataset that is in no folder, as Commit does one that is, and opens it. open returns a file that was
// made, which is closed once it is mapped. The caller closes the dataset.
func (w *Writer) Open(s graph.Schema, open func(path string) (*os.File, error)) (*Dataset, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, text, err := w.manifest(s)
	if err != nil {
		return nil, err
	}
	d := &Dataset{dir: w.dir, manifest: m, strings: make(map[[2]string]*Strings), bytes: int64(len(text))}
	if err := d.open(open, func([]byte) {}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.files = nil // which nobody else can change
	return d, nil
}

// manifest checks that the arrays are complete and those of the schema, and describes them. mu is held.
func (w *Writer) manifest(s graph.Schema) (*Manifest, []byte, error) {
	content, err := w.content(s)
	if err != nil {
		return nil, nil, err
	}
	m := &Manifest{Format: [2]int{formatMajor, formatMinor}, Generation: w.generation, Provenance: w.opt.Provenance,
		Content: *content}
	text, err := m.encode()
	if err != nil {
		return nil, nil, fileError(w.dir, "", err)
	}
	if len(text) > maxManifest {
		return nil, nil, fileError(w.dir, "",
			fmt.Errorf("a manifest of %s is too large", humanize.IBytes(uint64(len(text)))))
	}
	w.progress.finish()
	return m, text, nil
}
