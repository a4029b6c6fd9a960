package export

import (
	"fmt"
	"io"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/parquetrows"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
)

// tables writes a folder of Parquet tables, and graph.yaml, which khop convert reads them by.
func tables(j *job) error {
	if err := j.opt.Memory.Take(pinned.Scratch, parquetrows.WriterBytes); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, parquetrows.WriterBytes)
	m := &strings.Builder{}
	m.WriteString("nodes:\n")
	for t, n := range j.s.Nodes {
		name := "nodes_" + safe(n.Name) + ".parquet"
		if err := j.file(name, func(w io.Writer) error {
			return parquetOf(w, func(to Sink) error { return j.nodes(to, t) })
		}); err != nil {
			return err
		}
		fmt.Fprintf(m, "  %s {file: %q%s}\n", keyOf(n.Name), name, parts(n.Columns))
	}
	m.WriteString("edges:\n")
	for t, e := range j.s.Edges {
		name := "edges_" + safe(e.Source) + "__" + safe(e.Relation) + "__" + safe(e.Target) + ".parquet"
		if err := j.file(name, func(w io.Writer) error {
			return parquetOf(w, func(to Sink) error { return j.edges(to, t) })
		}); err != nil {
			return err
		}
		fmt.Fprintf(m, "  %s {file: %q, src: src, dst: dst%s}\n", keyOf(e.String()), name, parts(j.s.EdgeColumns))
	}
	if len(j.ds.LinkSplits()) > 0 {
		j.note("links are left out of the tables: \"khop export --to numpy\" has them")
	}
	if err := j.file("graph.yaml", func(w io.Writer) error {
		_, err := io.WriteString(w, m.String())
		return err
	}); err != nil {
		return err
	}
	return j.sign()
}

// keyOf is a name as a key of YAML, which has another form for long ones.
func keyOf(name string) string {
	text := fmt.Sprintf("%q", name)
	if len(text) > 1000 {
		return "? " + text + "\n  :"
	}
	return text + ":"
}

// parts says in a mapping what the columns of a table are.
func parts(columns []graph.Column) string {
	var others []string
	text := ""
	for _, c := range columns {
		switch c.Role() {
		case graph.NoRole:
			others = append(others, fmt.Sprintf("%q", c.Name))
		case graph.Feature:
			text += ", features: [" + c.Name + "]"
		default:
			text += fmt.Sprintf(", %v: %s", c.Role(), c.Name)
		}
	}
	return text + ", columns: [" + strings.Join(others, ", ") + "]"
}

// newTable begins a table, whose columns must have other names.
func newTable(w io.Writer, fields []parquetrows.Field) (*parquetrows.Table, error) {
	names := make(map[string]bool, len(fields))
	for _, f := range fields {
		if names[f.Name] {
			return nil, fmt.Errorf("%w: two columns of a table would both be %q: rename one of them", formats.ErrExist,
				f.Name)
		}
		names[f.Name] = true
	}
	return parquetrows.New(w, fields)
}

// NewTable begins a Parquet table of these columns, whose names differ. put writes some rows, which it does not keep:
// the elements of each column. end ends the table. Errors: formats.ErrExist for equal names, and those of w.
func NewTable(w io.Writer, columns []graph.Column) (put func(elements [][]byte) error, end func() error, err error) {
	var fields []parquetrows.Field
	for _, c := range columns {
		fields = append(fields, parquetrows.Field{Column: c})
	}
	t, err := newTable(w, fields)
	if err != nil {
		return nil, nil, err
	}
	return t.Put, t.Close, nil
}
