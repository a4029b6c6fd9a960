package source

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
)

// Reader reads one kind of source.
type Reader struct {
	Name  string // as --from names it
	Title string // in a few words
	// Options names the options of Request that it takes: "columns", "ids", "header", "null", "relations", "skips",
	// "upto", "task"; or "tables", of convert.
	Options []string
	// ByName says that arrays have their role by their names alone, so that one may be meant whose name is another.
	ByName bool
	// Find returns where in the tree there are sources of its kind, by contents rather than names: files or folders.
	// Errors of reading mean that there is none.
	Find func(t *Tree) []string
	// Read describes the graph at a place that Find would return, or that the user insists on. The caller closes the
	// graph before the tree. Errors are *formats.Error with file, row and remedy; pinned.ErrLimit and
	// formats.ErrSpace; context.Cause(ctx).
	Read func(ctx context.Context, at Place, r *Request) (*Graph, error)
	// Plan, if set, finds out whether Read can read parts of the source at a place, and what it must know for that.
	Plan func(ctx context.Context, at Place, r *Request) (*Planned, error)
}

// Planned is what Reader.Plan has found out.
type Planned struct {
	Whole string // why the source is read as a whole; "": parts can be read
	Facts []byte // what the reader of a part must know of the whole: JSON
	Keys  bool   // ids of nodes of some type are those of a slice (NodeType.Keys)
	Notes []Note // on the whole
}

// Slice is what is read of a source: some of its edges, or all that it has beside edges. All parts of the edges, one
// behind the other, are the edges of the source, but that ids and columns are those of a part (NodeType.Keys); what
// depends on all edges is not decided.
type Slice struct {
	Number, Of int // from 0
	Nodes      bool
	Facts      []byte // of Planned
}

// Request is what the user asks of a reader, and what it may take. The zero value has the reader find everything out.
type Request struct {
	Budget   *Budget
	Progress formats.Progress
	// Nodes is the number of nodes if it is known from elsewhere, such as a feature table; 0: not known.
	Nodes int64
	// Columns name the fields of a text in order (see package edgelist).
	Columns []string
	// Header says whether the first line of a text names its fields: "auto" (or ""), "yes", "no".
	Header string
	// Null are cells of texts that stand for missing values; an empty one does, too.
	Null []string
	// IDs says what the ids of a text are: "auto" (or ""), "numbers", "names".
	IDs string
	// Skips says how many bad lines may be left out; nil: none.
	Skips *Skips
	// RelationsAsTypes makes an edge type of each relation of a knowledge graph.
	RelationsAsTypes bool
	// Label names the column that becomes labels; "": the reader finds one.
	Label string
	// TimesIn is the unit of times that are plain numbers; "": nobody says it.
	TimesIn string
	// UpTo is the time of the last rows of a database that are taken, "all" for every row; "": as in the source.
	UpTo string
	// Task names the task whose hidden columns are left out; "": none.
	Task string
	// LateCount is the number of edges from which on a graph's nodes may be counted later (Graph.CountNodes); 0: never.
	LateCount int64
	// Slice, if set, is what is read of a source for which the reader's Plan takes parts.
	Slice *Slice
}

// Timed gives a column that is called time the unit of plain numbers, if it has none.
func (r *Request) Timed(c *graph.Column) {
	if c.Role() == graph.Time && c.Unit == "" {
		c.Unit = r.TimesIn
	}
}

// Report calls Progress, if there is one.
func (r *Request) Report(stage string, done, total int64) {
	if r.Progress != nil {
		r.Progress(stage, done, total)
	}
}

// ErrUnknown is returned for a source of no known kind.
var ErrUnknown = errors.New("not recognised")

// ErrChanged is a source that was written to while it was read.
var ErrChanged = errors.New("the file was changed while it was read")

// ErrOptions is returned for options that make no sense, or none for the source at hand.
var ErrOptions = errors.New("invalid options")

// ListsOf returns the names of the lists of strings that a dataset has of a node type.
func ListsOf(ds *formats.Dataset, t int) (names []string) {
	owner := fmt.Sprint("nodes/", t)
	for _, a := range ds.Manifest().Columns {
		if a.Owner == owner && a.DType == "utf8" {
			names = append(names, a.Name)
		}
	}
	return names
}

// EachString yields a list of strings of a dataset, when it has been compared with its checksums.
func EachString(ds *formats.Dataset, list *formats.Strings, yield func(string) error) error {
	if err := ds.Verify(list.Bytes()); err != nil {
		return err
	}
	for i := range list.Len() {
		s, err := list.At(i)
		if err != nil {
			return err
		}
		if err := yield(s); err != nil {
			return err
		}
	}
	return nil
}

// CopyRows writes a dataset's rows of nodes, a part at a time, when it has been compared with its checksums.
func CopyRows(ctx context.Context, ds *formats.Dataset, rows []byte, w io.Writer) error {
	return ds.Each(rows, func(part []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return pinned.Guard(func() error { _, err := w.Write(part); return err })
	})
}
