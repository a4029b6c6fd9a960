package formats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/origin"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// CheckOptions say how Check works. The zero value uses all cores, silently.
type CheckOptions struct {
	Workers  int `default:"0" range:"0,32767" help:"Goroutines; 0: one per core. They change no result."`
	Progress Progress
	// Scrub compares only checksums, on one thread, at the system's lowest priority for processor and disk, and drops
	// the pages that it has read from the page cache, so it may run beside training. Files that fit their checksums are
	// as they were written.
	Scrub bool `help:"Only compare checksums, slowly, at the lowest priority, past the page cache."`
	// Rate is the most bytes a second that Scrub reads; 0 is 100 MB.
	Rate int64 `kind:"size" default:"100MB" range:"0," with:"scrub" help:"..."`
}

// Report is what Check found.
type Report struct {
	Files int   // files that the manifest names, and the manifest
	Bytes int64 // of all of them that exist
	// Problems are of type *Error, in the order of the manifest's files and of places in them; at most 100. A stretch
	// of a file (64 MiB for checksums, some thousand rows for elements) is reported at most once for each rule.
	Problems []error
	Found    int64 // all problems, including those that are not listed
}

// maxProblems is the greatest number of problems that a report lists.
const maxProblems = 100

// OK reports whether nothing was found.
func (r *Report) OK() bool { return r.Found == 0 }

// Check reads a whole dataset and reports all errors in it: wrong checksums, by file and range of bytes, and elements
// that break the rules of docs/format.md. It uses a bounded amount of memory besides the page cache.
//
// Damage is in the report. The error is for reasons why Check cannot work: no directory, ErrIncomplete, ErrVersion,
// context.Cause(ctx). The report is then nil.
func Check(ctx context.Context, dir string, opt CheckOptions) (*Report, error) {
	dir = filepath.Clean(dir)
	c := &checker{}
	defer func() { c.close() }()
	err := directories.Read(dir, func(root *os.Root) error {
		c.close()
		c = &checker{}
		m, err := readManifest(dir, root, manifestName)
		if err != nil {
			return err
		}
		c = &checker{dir: dir, m: m, schema: m.schema(), byPath: map[string]*checkedFile{},
			advise: func([]byte) {}}
		if opt.Scrub {
			c.advise = adviseMapped
		}
		if err := c.schema.Init(); err != nil {
			return fileError(dir, "", err) // not reached: the manifest's schema was checked
		}
		return c.openAll(root)
	})
	if c.m == nil && errors.Is(err, ErrCorrupt) {
		return &Report{Files: 1, Problems: []error{err}, Found: 1}, nil
	}
	if c.n == 0 && err != nil {
		return nil, err
	}
	if opt.Scrub {
		if err := c.scrub(ctx, opt); err != nil {
			return nil, err
		}
		return c.report(), nil
	}
	c.addChecksums()
	c.addRules()
	if err := c.run(ctx, opt); err != nil {
		return nil, err
	}
	c.checkEdgeCounts()
	return c.report(), nil
}

// checker holds one run of Check.
type checker struct {
	dir    string
	m      *Manifest
	schema schema
	advise func(mapped []byte) // before anything is read
	files  []*checkedFile
	byPath map[string]*checkedFile
	bytes  int64
	tasks  []task
	edges  edgeCounts

	mu    sync.Mutex
	found []problem
	n     int64
}

// checkedFile is a file of the dataset; body is nil if it could not be opened.
type checkedFile struct {
	index  int
	path   string
	part   *Part
	typ    arrayfile.Type
	owner  string // "" for seeds
	ascend bool   // no row is to be less than the one before
	set    *SetInfo
	region *pinned.Region
	info   os.FileInfo
	l      arrayfile.Layout
	body   []byte
}

// task is a stretch of work. It returns the first problem that it finds.
type task struct {
	file  *checkedFile
	at    int64 // where in the file it is, to order problems
	bytes int64 // for progress
	run   func(*scratch) error
}

// problem is one that was found, and where.
type problem struct {
	file int
	at   int64
	err  error
}

// add takes a problem that a task of some file found. Where its error names a row of a file, that is its place.
func (c *checker) add(file int, at int64, err error) {
	var e *Error
	if errors.As(err, &e) && e.Row >= 0 {
		if f := c.byPath[e.Path]; f != nil {
			file, at = f.index, f.l.BodyOffset+e.Row*f.l.RowBytes()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.found = append(c.found, problem{file, at, err})
	if len(c.found) >= 2*maxProblems {
		c.trim()
	}
}

func (c *checker) trim() {
	slices.SortFunc(c.found, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.at, b.at), cmp.Compare(a.err.Error(), b.err.Error()))
	})
	c.found = c.found[:min(len(c.found), maxProblems)]
}

func (c *checker) report() *Report {
	c.trim()
	r := &Report{Files: len(c.files) + 1, Bytes: c.bytes, Found: c.n}
	cached := origin.Of(c.dir) != ""
	for _, p := range c.found {
		if cached { // there is a better remedy than to convert again
			p.err = withRemedy(c.dir, p.err)
		}
		r.Problems = append(r.Problems, p.err)
	}
	return r
}

func (c *checker) close() {
	for _, f := range c.files {
		if f.region != nil {
			_ = f.region.Close()
		}
	}
}

// openAll maps every file and checks its head and footer. It returns one of the problems that it found.
func (c *checker) openAll(root *os.Root) error {
	if st, err := root.Lstat(manifestName); err == nil {
		c.bytes = st.Size()
	}
	for _, f := range c.m.files() {
		checked := &checkedFile{part: f.part, typ: f.typ, set: f.set}
		if f.column != nil {
			checked.owner, checked.ascend = f.column.Owner, f.column.Ascending
		}
		c.openFile(root, checked)
	}
	if len(c.found) > 0 {
		return c.found[0].err
	}
	return nil
}

func (c *checker) openFile(root *os.Root, f *checkedFile) {
	f.index = len(c.files)
	f.path = filepath.Join(c.dir, filepath.FromSlash(f.part.Path))
	c.files, c.byPath[f.path] = append(c.files, f), f
	var err error
	if f.region, f.l, f.info, err = mapFile(regularIn(root), c.dir, f.typ, f.part, c.advise); err != nil {
		c.add(f.index, 0, err)
		return
	}
	c.bytes += f.region.Len()
	f.body = f.region.Bytes()[f.l.BodyOffset : f.l.BodyOffset+f.l.Bytes]
}

// addChecksums adds a task for each chunk of each file.
func (c *checker) addChecksums() {
	for _, f := range c.files {
		if f.region == nil {
			continue
		}
		chunks, err := chunksOf(f.path, f.part, c.m.ChunkBytes)
		if err != nil {
			c.add(f.index, 0, err)
			continue
		}
		for i := range chunks.sums {
			lo, hi := chunks.bounds(i)
			c.tasks = append(c.tasks, task{file: f, at: f.l.BodyOffset + lo, bytes: hi - lo, run: func(*scratch) error {
				return chunks.compare(i, xxh3.Hash(f.body[lo:hi]))
			}})
		}
	}
}

// run works through the tasks.
func (c *checker) run(ctx context.Context, opt CheckOptions) error {
	workers := opt.Workers
	if workers <= 0 {
		workers = machine.Workers()
	}
	meter := progressMeter{f: opt.Progress, stage: "check"}
	for i := range c.tasks {
		meter.total += c.tasks[i].bytes
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, max(1, len(c.tasks))) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s := &scratch{counts: make([]int64, len(c.schema.Edges))}
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(c.tasks) {
					break
				}
				c.runTask(&c.tasks[i], s)
				meter.add(c.tasks[i].bytes)
			}
			c.edges.merge(s.counts)
		}()
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	meter.finish()
	return nil
}

func (c *checker) runTask(t *task, s *scratch) {
	err := pinned.Guard(func() error { return t.run(s) })
	if err == nil {
		return
	}
	if errors.Is(err, pinned.ErrFault) {
		c.edges.spoil()
		err = fileError(t.file.path, remedyConvert, fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	c.add(t.file.index, t.at, err)
}
