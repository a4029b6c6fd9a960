package metis

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Reader reads METIS files.
var Reader = source.Reader{Name: "metis", Title: "a graph file of METIS", Options: []string{"tables"},
	Find: findGraphs, Read: readGraph}

// A text of numbers can be many things: the name must end as those of METIS do.
func findGraphs(t *source.Tree) []string {
	return t.Where(func(at source.Place) bool {
		if !slices.Contains([]string{".graph", ".mgraph", ".metis"}, path.Ext(at.Name)) {
			return false
		}
		head, err := at.Head()
		for line := range bytes.Lines(head) {
			if line[0] != '%' {
				h, wrong := parseHeader(bytes.Fields(line))
				return err == nil && wrong == nil && h.nodes > 0
			}
		}
		return false
	})
}

// header is the first line.
type header struct {
	nodes, edges int64
	sizes, weigh bool // of edges: weigh
	weights      int  // of a node
}

func parseHeader(f [][]byte) (h header, err error) {
	if len(f) < 2 || len(f) > 4 {
		return h, fmt.Errorf("the header has %s, not nodes, edges, format and weights",
			source.Counted(int64(len(f)), "field", "fields"))
	}
	for i, to := range []*int64{&h.nodes, &h.edges} {
		if *to, err = strconv.ParseInt(string(f[i]), 10, 64); err != nil || *to < 0 || *to > 1<<48 {
			return h, fmt.Errorf("the header says %.40q", f[i])
		}
	}
	if len(f) > 2 {
		flags, err := strconv.ParseUint(string(f[2]), 2, 3)
		if err != nil {
			return h, fmt.Errorf("the format is %.40q, not three digits 0 or 1", f[2])
		}
		h.sizes, h.weigh = flags&4 != 0, flags&1 != 0
		if flags&2 != 0 {
			h.weights = 1
		}
	}
	if len(f) > 3 {
		n, err := strconv.Atoi(string(f[3]))
		if err != nil || n < 0 || n > 64 || n > 0 && h.weights == 0 {
			return h, fmt.Errorf("there are %.40q weights of a node", f[3])
		}
		h.weights = n
	}
	if source.TooSparse(h.nodes, h.edges) {
		return h, fmt.Errorf("there are %d nodes, but only %s", h.nodes, source.Counted(h.edges, "edge", "edges"))
	}
	return h, nil
}

// file is one being read.
type file struct {
	header
	listed *source.Listing // with weights
	node   *source.Spool   // sizes and weights of nodes, one behind the other
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	f, err := source.OpenCounted(at.OpenText, r.Budget.Ledger())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g := source.Plain()
	m := &file{listed: source.NewListing(r.Budget, 0), node: &source.Spool{Budget: r.Budget}}
	g.Own(m.listed)
	g.Own(m.node)
	defer source.CloseOnError(&err, g)
	if err := m.read(ctx, f, r); err != nil {
		return nil, err
	}
	return g, m.describe(g, f.Path)
}

func (m *file) read(ctx context.Context, f *source.File, r *source.Request) error {
	b := bufio.NewReaderSize(f, 1<<18)
	line, node := int64(0), int64(-1)
	w := &words{r: b}
	fail := func(err error) error { return source.Error(f.Path, "", line, "", err) }
	for {
		line++
		fields, comment, err := w.begin()
		if err != nil {
			return fail(err)
		}
		if comment {
			continue
		}
		if !fields && w.end {
			break
		}
		if node < 0 {
			head, err := w.rest()
			if err == nil {
				m.header, err = parseHeader(head)
			}
			if err != nil {
				return fail(err)
			}
			if m.weigh {
				m.listed.Width = 8
			}
		} else if node < m.nodes {
			if err := m.line(w, node); err != nil {
				return fail(err)
			}
		} else if _, more, err := w.number(); more || err != nil {
			return fail(fmt.Errorf("a line behind those of %d nodes", m.nodes))
		}
		node++
		if m.listed.Full() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := m.listed.Flush(); err != nil {
				return err
			}
			r.Report("read", f.Done(), f.Size)
		}
		if w.end {
			break
		}
	}
	if node < m.nodes || node < 0 {
		return fail(fmt.Errorf("there are lines of %s, not %d: it is cut short",
			source.Counted(max(node, 0), "node", "nodes"), m.nodes))
	}
	return m.listed.Flush()
}

// line takes the line of a node.
func (m *file) line(w *words, node int64) error {
	var own []byte
	n := m.weights
	if m.sizes {
		n++
	}
	for range n {
		v, ok, err := w.number()
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("node %d has fewer than %d weights", node+1, n)
		}
		own = binary.LittleEndian.AppendUint64(own, uint64(v))
	}
	if _, err := m.node.Write(own); err != nil {
		return err
	}
	for {
		v, ok, err := w.number()
		if err != nil || !ok {
			return err
		}
		if v < 1 || v > m.nodes {
			return fmt.Errorf("neighbour %d is not in 1 .. %d", v, m.nodes)
		}
		weight := int64(0)
		if m.weigh {
			if weight, ok, err = w.number(); err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("neighbour %d has no weight", v)
			}
		}
		m.listed.Add(node, v-1, uint64(weight))
		if m.listed.Full() {
			if err := m.listed.Flush(); err != nil {
				return err
			}
		}
	}
}

func (m *file) describe(g *source.Graph, path string) error {
	g.Node().Count, g.Edges.Count = m.nodes, m.listed.Len()
	if m.listed.Len() != 2*m.edges {
		return source.Error(path, "", -1, "", fmt.Errorf("%d neighbours are listed, not twice the %d edges",
			m.listed.Len(), m.edges))
	}
	node, err := m.node.Bytes()
	if err != nil {
		return err
	}
	stride := 8 * int64(m.weights)
	if m.sizes {
		stride += 8
		g.Node().Columns = append(g.Node().Columns, cut(graph.Column{Name: "size", DType: unified.Int64}, node, 0,
			stride))
	}
	if m.weights > 0 {
		c := graph.Column{Name: "weight", DType: unified.Int64}
		if m.weights > 1 {
			c.Shape = []int64{int64(m.weights)}
		}
		g.Node().Columns = append(g.Node().Columns, cut(c, node, stride-8*int64(m.weights), stride))
	}
	if m.weigh {
		g.Edges.Columns = []graph.Column{{Name: "weight", DType: unified.Int64}}
	}
	g.Edges.Each, err = m.listed.Each()
	return err
}
