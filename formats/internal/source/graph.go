package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Graph is a graph as a foreign format holds it: any number of node and edge types.
type Graph struct {
	Nodes  []NodeType
	Types  []EdgeType
	Edges  Edges
	Splits []Split
	Links  []Link
	// CountNodes, if set, says that nobody has counted the nodes of the only type: its Count is that of a sample of the
	// edges, and not too large. It counts them by reading all edges. Who reads them anyway need not call it.
	CountNodes func(ctx context.Context) error
	// TimeUnit is the unit that times are stored in unless a person asks for another; "": the coarsest that holds all.
	TimeUnit string
	// Notes say what a person should know, and all that the graph does not hold as the source had it.
	Notes []Note

	closers []io.Closer
}

// NodeType is a kind of node. Its ids count from 0.
type NodeType struct {
	Name    string
	Count   int64
	Columns []Column
	Strings []Strings // names of nodes, of classes
	Classes int64     // 1 + the largest label; 0 without labels
	// Counted says that nothing tells how many nodes there are: as many as the greatest id of an edge asks for.
	Counted bool
	// Key is the column of a database's table with the keys of its rows, "" for none. Named says that these are not
	// the numbers of the rows, and kept as "id".
	Key   string
	Named bool
	// OfTable says that nodes are the rows of a table of a database, Unnamed that it has no key: nobody names them.
	OfTable, Unnamed bool
	// Keys, if set, are what the ids of a Slice stand for, by number: of edges those that these have, in the order of
	// their first appearance, and of nodes those of all.
	Keys *Strings
}

// EdgeType is a kind of edge: between nodes of Source and Target, which are indices of Graph.Nodes.
type EdgeType struct {
	Source, Target int
	Relation       string
}

// Plain returns a graph of one node type and one edge type.
func Plain() *Graph {
	return &Graph{Nodes: []NodeType{{Name: "node"}}, Types: []EdgeType{{Relation: "edge"}}}
}

// Node returns the node type of a plain graph.
func (g *Graph) Node() *NodeType { return &g.Nodes[0] }

// Batch is some consecutive edges. Its slices belong to the source and are valid until yield returns.
type Batch struct {
	Src, Dst []int64  // ids of the types of each edge, of equal length
	Types    []uint16 // indices of Graph.Types, of the same length; nil: all of type 0
	Columns  [][]byte // of Edges.Columns: little-endian, a row an edge
}

// TypeAt returns the type of edge or link i. Without a list of types all have type 0.
func TypeAt[T uint16 | int64](types []T, i int) int {
	if types == nil {
		return 0
	}
	return int(types[i])
}

// Edges are the edges as the source lists them.
type Edges struct {
	Count int64
	// Undirected says that by the format's definition an edge goes both ways and is listed once.
	Undirected bool
	// Each yields all edges in the source's order, many at a time, and returns the first error. It may be called
	// several times.
	Each func(yield func(Batch) error) error
	// Columns have a row an edge.
	Columns []graph.Column
	// Where names an edge in messages, such as "adj_matrix: entry 17"; nil: "edge 17".
	Where func(edge int64) string
}

// Pairs makes a function that yields pairs of ids yield batches, whose columns are cut from the given ones: little-
// endian, a row an edge, of the given widths in bytes.
func Pairs(each func(yield func(src, dst []int64) error) error, columns [][]byte,
	widths []int64) func(yield func(Batch) error) error {
	return func(yield func(Batch) error) error {
		at, cut := int64(0), make([][]byte, len(columns))
		return each(func(src, dst []int64) error {
			n := int64(len(src))
			for i, c := range columns {
				cut[i] = c[at*widths[i] : (at+n)*widths[i]]
			}
			at += n
			return yield(Batch{Src: src, Dst: dst, Columns: cut})
		})
	}
}

// Link is a named set of links to predict: edges, which need not be of the graph.
type Link struct {
	Name     string // train, val, test
	Index    int
	Src, Dst []int64
	Types    []int64 // indices of Graph.Types, one each; nil: all of type 0
	// Labels are 1 for a link that is there, 0 for one that is given as not being there; or what else is to be
	// predicted. nil: all are there.
	Labels []int64
}

// Append adds a link with its label, and counts it in l.
func (k *Link) Append(l *pinned.Ledger, src, dst, label int64) error {
	return cmp.Or(Append(l, &k.Src, src), Append(l, &k.Dst, dst), Append(l, &k.Labels, label))
}

// Column is a column of nodes that is written when it is asked for.
type Column struct {
	graph.Column
	// Write writes all rows, little-endian, to w. It may be called several times.
	Write func(ctx context.Context, w io.Writer) error
	// Together, if set, writes several columns while their source is read once, this one among them by its Number.
	Together *Together
	Number   int
}

// Together is columns that lie row by row in one source, so that reading one takes as long as reading all.
type Together struct {
	// Write writes all rows of some columns, each to its writer.
	Write func(ctx context.Context, numbers []int, to []io.Writer) error
}

// Strings is a list of strings that belongs to the nodes.
type Strings struct {
	Name   string
	Rows   int64
	Each   func(yield func(string) error) error
	Others bool // they are not of nodes, but of classes, categories or relations
}

// OfOthers returns the strings as those of something else than nodes.
func (s Strings) OfOthers() Strings {
	s.Others = true
	return s
}

// Split is a named set of nodes.
type Split struct {
	Name     string
	Index    int
	NodeType int
	IDs      []int64
	// Task is the task of whose tables this is one; "": it is a split of nodes. A table may have times, of a unit as
	// graph.Column has it, beside them first times, and labels: rows of Label, little-endian.
	Task   string
	Times  []int64
	From   []int64
	Unit   string
	Label  graph.Column
	Labels []byte
	// Targets, if set, are nodes that each row recommends, in place of labels.
	Targets *Targets
}

// Targets are nodes that the rows of a task's table lead to, one or more each.
type Targets struct {
	EdgeType int // an index of Graph.Types, which has no edges of its own
	IDs      []int64
	Offsets  []int64 // where those of each row begin, and the end of the last
}

// Bytes returns a column that holds its elements in memory, which is kept.
func Bytes(c graph.Column, data []byte) Column {
	return Column{Column: c, Write: func(_ context.Context, w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}
}

// List returns strings that lie in memory, which is kept.
func List(name string, list []string) Strings {
	return Strings{Name: name, Rows: int64(len(list)), Each: func(yield func(string) error) error {
		for _, s := range list {
			if err := yield(s); err != nil {
				return err
			}
		}
		return nil
	}}
}

// SetLabels makes labels, which are kept, the column "label", and counts their classes.
func (n *NodeType) SetLabels(labels []int64) {
	n.Classes = Classes(labels)
	n.Columns = append(n.Columns, Bytes(graph.Column{Name: "label", DType: unified.Int64},
		unified.FromSlice(labels).Bytes()))
}

// Counted returns "1 edge", "2 edges".
func Counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Few returns names as a message lists them, with commas: the first of them where they are many.
func Few(names []string) string {
	if len(names) > 12 {
		names = append(names[:12:12], "..")
	}
	return strings.Join(names, ", ")
}

// Own makes Close close c.
func (g *Graph) Own(c io.Closer) { g.closers = append(g.closers, c) }

// Close frees files and temporary room. What the graph yields must not be used any more.
func (g *Graph) Close() error {
	var errs []error
	for i := len(g.closers) - 1; i >= 0; i-- {
		errs = append(errs, g.closers[i].Close())
	}
	g.closers = nil
	return errors.Join(errs...)
}

// CloseOnError closes c if err is not nil, and adds what that fails by. Who returns an error as err defers it.
func CloseOnError(err *error, c io.Closer) {
	if *err != nil {
		*err = errors.Join(*err, c.Close())
	}
}

// Steps calls functions one after the other, up to the first error.
func Steps(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Error returns an error about a place in a file: what (a column or member, or ""), the row (-1: none meant; lines of a
// text count from 1, elements of an array from 0) and what to do about it. An error that says all this stays as it is.
func Error[R Remedy](path, what string, row int64, remedy R, err error) error {
	if _, whole := err.(*formats.Error); whole {
		return err
	}
	text, isText := any(remedy).(*option.Text)
	if isText {
		err = option.With(err, text)
	}
	return &formats.Error{Path: path, Column: what, Row: row, Remedy: fmt.Sprint(remedy), Err: err}
}

// Remedy is what to do: a text that may name options.
type Remedy interface{ string | *option.Text }

// Classes returns how many classes labels tell apart: one more than the largest; negative ones mean "no label".
func Classes(labels []int64) int64 {
	n := int64(0)
	for _, v := range labels {
		n = max(n, v+1)
	}
	return n
}

// WriteRows writes rows of float32 to w. fill gets each row as zeros and sets what is not. It stops when ctx is done.
func WriteRows(ctx context.Context, w io.Writer, rows, width int64, fill func(i int64, row []float32)) error {
	batch := max(1, (1<<18)/width)
	buf := make([]float32, min(batch, max(rows, 1))*width)
	for lo := int64(0); lo < rows; lo += batch {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(batch, rows-lo)
		b := buf[:n*width]
		clear(b)
		for i := range n {
			fill(lo+i, b[i*width:(i+1)*width])
		}
		if _, err := w.Write(unified.FromSlice(b).Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// Rows writes dense rows of float32 whose entries come in the order of the rows. NewRows makes one.
type Rows struct {
	ctx         context.Context
	w           io.Writer
	rows, width int64
	first, n    int64 // of the rows in buf
	buf         []float32
	ledger      *pinned.Ledger
}

// NewRows returns a writer of rows, which counts its memory in l until Close.
func NewRows(ctx context.Context, w io.Writer, rows, width int64, l *pinned.Ledger) (*Rows, error) {
	n := max(1, min((1<<18)/width, rows))
	if err := l.Take(pinned.Sources, 4*n*width); err != nil {
		return nil, err
	}
	return &Rows{ctx: ctx, w: w, rows: rows, width: width, n: n, buf: make([]float32, n*width), ledger: l}, nil
}

// Close gives the memory back.
func (r *Rows) Close() { r.ledger.Give(pinned.Sources, 4*int64(len(r.buf))) }

// Add adds x to an element. The row is not before that of the last call.
func (r *Rows) Add(row, column int64, x float32) error {
	for row >= r.first+r.n {
		if err := r.flush(); err != nil {
			return err
		}
	}
	if row < r.first || row >= r.rows || column < 0 || column >= r.width {
		return fmt.Errorf("row %d, column %d of %d x %d", row, column, r.rows, r.width)
	}
	r.buf[(row-r.first)*r.width+column] += x
	return nil
}

func (r *Rows) flush() error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	b := r.buf[:min(r.n, r.rows-r.first)*r.width]
	_, err := r.w.Write(unified.FromSlice(b).Bytes())
	clear(r.buf)
	r.first += r.n
	return err
}

// End writes the rows that are left.
func (r *Rows) End() error {
	for r.first < r.rows {
		if err := r.flush(); err != nil {
			return err
		}
	}
	return nil
}

// NoteDense says what sparse features take as dense rows, where that is much.
func (g *Graph) NoteDense(rows, width, entries int64) {
	if dense := 4 * rows * width; dense > 64<<20 && dense > 16*12*entries {
		g.Note("sparse features of %d entries, about %s, are stored as dense rows: %s; %s float16 "+
			"halves that, int8 takes a quarter", entries, machine.Bytes(12*entries), machine.Bytes(dense),
			option.Named("FeatureDType"))
	}
}
