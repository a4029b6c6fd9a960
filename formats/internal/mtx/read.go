package mtx

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Reader reads Matrix Market files.
type Reader struct{}

const banner = "%%MatrixMarket"

// Info implements source.Reader.
func (Reader) Info() source.Info {
	return source.Info{Name: "mtx", Title: "a Matrix Market file", Options: []string{"tables"}}
}

// Find implements source.Reader.
func (Reader) Find(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		if head, err := t.At(name).Head(); err == nil && bytes.HasPrefix(head, []byte(banner)) {
			found = append(found, name)
		}
	}
	return found
}

// matrix is a file being read.
type matrix struct {
	f           *source.File
	s           *bufio.Scanner
	line        int64
	field, kind string // of the banner: real, integer, pattern; general, symmetric, ..
	rows, cols  int64
	entries     int64

	listed *source.Listing // with values
	least  float64
}

func (m *matrix) fail(err error) error {
	return source.Error(m.f.Path, "", m.line,
		"a Matrix Market file has a banner, comments, sizes, and an entry a line", err)
}

// next returns the fields of the next line that is not a comment; nil at the end.
func (m *matrix) next() ([][]byte, error) {
	for m.s.Scan() {
		m.line++
		if text := m.s.Bytes(); len(text) > 0 && text[0] != '%' {
			if f := bytes.Fields(text); len(f) > 0 {
				return f, nil
			}
		}
	}
	if err := m.s.Err(); err != nil {
		return nil, m.fail(err)
	}
	return nil, nil
}

// Read implements source.Reader.
func (Reader) Read(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	f, err := at.OpenText()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Count(r.Budget.Ledger()); err != nil {
		return nil, err
	}
	m := &matrix{f: f, s: bufio.NewScanner(f), listed: source.NewListing(r.Budget, 8)}
	m.s.Buffer(nil, source.MaxRecord)
	g := source.Plain()
	g.Own(m.listed)
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if err := m.readHead(); err != nil {
		return nil, err
	}
	if err := m.readEntries(ctx, r); err != nil {
		return nil, err
	}
	return g, m.describe(g)
}

// readHead reads the banner and the sizes.
func (m *matrix) readHead() error {
	if !m.s.Scan() {
		return m.fail(errors.New("it has no banner"))
	}
	m.line = 1
	words := strings.Fields(strings.ToLower(m.s.Text()))
	if len(words) != 5 || words[0] != strings.ToLower(banner) || words[1] != "matrix" {
		return m.fail(fmt.Errorf("the banner is %.80q", m.s.Text()))
	}
	m.field, m.kind = words[3], words[4]
	switch {
	case words[2] != "coordinate":
		return m.fail(fmt.Errorf("a matrix of the format %.20q, which holds no edges: coordinate is wanted", words[2]))
	case !slices.Contains([]string{"real", "double", "integer", "pattern"}, m.field):
		return m.fail(fmt.Errorf("values of the type %.20q are not supported", m.field))
	case !slices.Contains([]string{"general", "symmetric", "skew-symmetric"}, m.kind):
		return m.fail(fmt.Errorf("a matrix of the kind %.20q is not supported", m.kind))
	}
	f, err := m.next()
	if err != nil {
		return err
	}
	if len(f) != 3 {
		return m.fail(fmt.Errorf("there are %d sizes, not rows, columns and entries", len(f)))
	}
	for i, to := range []*int64{&m.rows, &m.cols, &m.entries} {
		if *to, err = strconv.ParseInt(string(f[i]), 10, 64); err != nil || *to < 0 || *to > 1<<48 {
			return m.fail(fmt.Errorf("the size %.40q", f[i]))
		}
	}
	if source.TooSparse(max(m.rows, m.cols), m.entries) || m.kind != "general" && m.rows != m.cols {
		return m.fail(fmt.Errorf("%d rows, %d columns and %d entries of a %s matrix", m.rows, m.cols, m.entries,
			m.kind))
	}
	return nil
}

func (m *matrix) readEntries(ctx context.Context, r *source.Request) error {
	want, seen := 3, int64(0)
	if m.field == "pattern" {
		want, m.listed.Width = 2, 0
	}
	for {
		f, err := m.next()
		if err != nil {
			return err
		}
		if f == nil {
			break
		}
		if seen++; seen > m.entries {
			return m.fail(fmt.Errorf("there are more than the %d entries that the sizes say", m.entries))
		}
		if len(f) != want {
			return m.fail(fmt.Errorf("entry %d of %d has %d numbers, not %d", seen, m.entries, len(f), want))
		}
		if err := m.entry(f); err != nil {
			return m.fail(err)
		}
		if m.listed.Full() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := m.listed.Flush(); err != nil {
				return err
			}
			r.Report("read", m.f.Done(), m.f.Size)
		}
	}
	if seen != m.entries {
		return m.fail(fmt.Errorf("there are %d entries, not %d: it is cut short", seen, m.entries))
	}
	return m.listed.Flush()
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
