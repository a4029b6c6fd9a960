package mtx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/lines"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Reader reads Matrix Market files.
var Reader = source.Reader{Name: "mtx", Title: "a Matrix Market file", Options: []string{"tables"},
	Find: func(t *source.Tree) []string {
		return t.Beginning(func(head []byte) bool { return bytes.HasPrefix(head, []byte(banner)) })
	}, Read: readGraph}

const banner = "%%MatrixMarket"

// matrix is a file being read.
type matrix struct {
	line        int64
	field, kind string // of the banner: real, integer, pattern; general, symmetric, ..
	sized       bool   // the sizes have been read
	rows, cols  int64
	entries     int64

	listed *source.Listing // with values
	seen   int64           // entries
	least  float64
}

const remedy = "a Matrix Market file has a banner, comments, sizes, and an entry a line"

func readGraph(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	m := &matrix{listed: source.NewListing(r.Budget, 8)}
	g := source.Plain()
	g.Own(m.listed)
	defer source.CloseOnError(&err, g)
	if err := lines.Each(ctx, at, r, remedy, m.take); err != nil {
		return nil, err
	}
	switch {
	case m.line == 0:
		err = errors.New("it has no banner")
	case !m.sized:
		err = m.sizes(nil)
	case m.seen != m.entries:
		err = fmt.Errorf("there are %d entries, not %d: it is cut short", m.seen, m.entries)
	}
	if err != nil {
		return nil, source.Error(at.Path(), "", m.line, remedy, err)
	}
	if err := m.listed.Flush(); err != nil {
		return nil, err
	}
	return g, m.describe(g)
}

// take takes a line.
func (m *matrix) take(line int64, text []byte) error {
	if m.line = line; line == 1 {
		return m.banner(string(text))
	}
	if len(text) == 0 || text[0] == '%' {
		return nil
	}
	f := bytes.Fields(text)
	if len(f) == 0 {
		return nil
	}
	if !m.sized {
		m.sized = true
		return m.sizes(f)
	}
	want := 3
	if m.field == "pattern" {
		want = 2
	}
	if m.seen++; m.seen > m.entries {
		return fmt.Errorf("there are more than the %d entries that the sizes say", m.entries)
	}
	if len(f) != want {
		return fmt.Errorf("entry %d of %d has %d numbers, not %d", m.seen, m.entries, len(f), want)
	}
	if err := m.entry(f); err != nil || !m.listed.Full() {
		return err
	}
	return m.listed.Flush()
}

// banner reads the first line.
func (m *matrix) banner(text string) error {
	words := strings.Fields(strings.ToLower(text))
	if len(words) != 5 || words[0] != strings.ToLower(banner) || words[1] != "matrix" {
		return fmt.Errorf("the banner is %.80q", text)
	}
	m.field, m.kind = words[3], words[4]
	switch {
	case words[2] != "coordinate":
		return fmt.Errorf("a matrix of the format %.20q, which holds no edges: coordinate is wanted", words[2])
	case !slices.Contains([]string{"real", "double", "integer", "pattern"}, m.field):
		return fmt.Errorf("values of the type %.20q are not supported", m.field)
	case !slices.Contains([]string{"general", "symmetric", "skew-symmetric"}, m.kind):
		return fmt.Errorf("a matrix of the kind %.20q is not supported", m.kind)
	}
	if m.field == "pattern" {
		m.listed.Width = 0
	}
	return nil
}

// sizes reads the first line behind the comments.
func (m *matrix) sizes(f [][]byte) (err error) {
	if len(f) != 3 {
		return fmt.Errorf("there are %d sizes, not rows, columns and entries", len(f))
	}
	for i, to := range []*int64{&m.rows, &m.cols, &m.entries} {
		if *to, err = strconv.ParseInt(string(f[i]), 10, 64); err != nil || *to < 0 || *to > 1<<48 {
			return fmt.Errorf("the size %.40q", f[i])
		}
	}
	if source.TooSparse(max(m.rows, m.cols), m.entries) || m.kind != "general" && m.rows != m.cols {
		return fmt.Errorf("%d rows, %d columns and %d entries of a %s matrix", m.rows, m.cols, m.entries, m.kind)
	}
	return nil
}

func (m *matrix) entry(f [][]byte) error {
	var at [2]int64
	for i, size := range []int64{m.rows, m.cols} {
		v, err := strconv.ParseInt(string(f[i]), 10, 64)
		if err != nil || v < 1 || v > size {
			return fmt.Errorf("%.40q is not in 1 .. %d", f[i], size)
		}
		at[i] = v - 1
	}
	if m.field == "pattern" {
		m.listed.Add(at[0], at[1], 0)
		return nil
	}
	var bits uint64
	var x float64
	var err error
	if m.field == "integer" {
		var v int64
		v, err = strconv.ParseInt(string(f[2]), 10, 64)
		bits, x = uint64(v), float64(v)
	} else {
		x, err = strconv.ParseFloat(string(f[2]), 64)
		bits = math.Float64bits(x)
	}
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("the value %.40q", f[2])
	}
	m.least = min(m.least, x)
	m.listed.Add(at[0], at[1], bits)
	if m.kind == "skew-symmetric" && at[0] != at[1] {
		if m.field == "integer" {
			bits = -bits
		} else {
			bits = math.Float64bits(-x)
		}
		m.least = min(m.least, -x)
		m.listed.Add(at[1], at[0], bits)
	}
	return nil
}

func (m *matrix) describe(g *source.Graph) (err error) {
	g.Node().Count = m.rows
	if m.rows != m.cols {
		g.Nodes = []source.NodeType{{Name: "row", Count: m.rows}, {Name: "column", Count: m.cols}}
		g.Types = []source.EdgeType{{Source: 0, Relation: "entry", Target: 1}}
		g.Note("the matrix is %d x %d: rows and columns are node types of their own", m.rows, m.cols)
	}
	g.Edges.Count, g.Edges.Undirected = m.listed.Len(), m.kind == "symmetric"
	g.Edges.Each, err = m.listed.Each()
	if m.field == "pattern" {
		return err
	}
	c := graph.Column{Name: "weight", DType: unified.Float64}
	if m.field == "integer" {
		c.DType = unified.Int64
	}
	if m.least < 0 {
		c.Name = "value" // a weight is not negative
	}
	g.Edges.Columns = []graph.Column{c}
	return err
}
