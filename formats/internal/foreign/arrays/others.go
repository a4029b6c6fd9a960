package arrays

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// Others adds what the set holds beside what is used: columns of nodes and edges, labels, splits, links. It names the
// rest in a note.
func (d *Describer) Others(ctx context.Context) error {
	if err := d.links(); err != nil {
		return err
	}
	var left []string
	for _, name := range d.Set.Names() {
		if d.Used[name] {
			continue
		}
		if named, err := d.names(name); named || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		h, err := d.header(name)
		if err != nil {
			left = append(left, fmt.Sprintf("%s (%v)", name, short(err)))
			continue
		}
		taken, err := d.other(ctx, name, &h)
		if err != nil {
			return err
		}
		if !taken {
			left = append(left, fmt.Sprintf("%s (%v)", name, &h))
		}
	}
	if len(left) > 0 {
		d.Graph.Tell(source.LeftOut, "arrays", int64(len(left)),
			"not stored, since neither names nor shapes say what they are: %s", source.Few(left))
	}
	return nil
}

// short is the innermost of an error.
func short(err error) string {
	s := err.Error()
	if i := strings.LastIndex(s, ": "); i >= 0 {
		s = s[i+2:]
	}
	return s[:min(len(s), 80)]
}

// maxWidth is the greatest width of rows that is taken.
const maxWidth = 1 << 24

// rows says how many rows an array may have.
func (d *Describer) rows() string {
	nodes := source.Counted(d.Graph.Node().Count, "node", "nodes")
	edges := source.Counted(d.Graph.Edges.Count, "edge", "edges")
	switch d.of {
	case ofNode:
		return nodes
	case ofEdge:
		return edges
	}
	return nodes + " and " + edges
}

// other takes an array, if it knows what it is.
func (d *Describer) other(ctx context.Context, name string, h *array.Header) (bool, error) {
	low, nodes, edges := strings.ToLower(name), d.Graph.Node().Count, d.Graph.Edges.Count
	if split, index, ok := splitName(low); ok && d.of != ofEdge {
		return d.split(name, split, index, h)
	}
	if len(h.Shape) == 0 || len(h.Shape) > 3 || h.DType == unified.Invalid {
		return false, nil
	}
	rows := h.Shape[0]
	if w := h.RowWidth(); w == 0 || w > maxWidth {
		return false, nil
	}
	node, edge := ofNodes[low], ofEdges[low]
	if d.of != ofBoth && node == "" && edge == "" && rows != max(nodes, edges) {
		return false, nil
	}
	switch d.of {
	case ofNode:
		node, edge = cmp.Or(node, ownName(name, "")), ""
	case ofEdge:
		node, edge = "", cmp.Or(edge, node, ownName(name, ""))
	}
	switch {
	case node != "" && rows == nodes:
	case edge != "" && rows == edges:
		node = ""
	case node != "" || edge != "":
		return false, d.fail(name, -1, "is %v, but there are %s", h, d.rows())
	case rows == nodes && (rows != edges || strings.HasPrefix(low, "node")):
		node = ownName(name, "node_")
	case rows == edges && (rows != nodes || strings.HasPrefix(low, "edge")):
		edge = ownName(name, "edge_")
	default:
		return false, nil
	}
	if node != "" {
		return d.nodeColumn(d.free(node, name, d.hasNodes), name, h)
	}
	return d.edgeColumn(d.free(edge, name, d.hasEdges), name, h)
}

// free returns the name that an array's column gets: the array's own, where another column has the one of its role.
func (d *Describer) free(column, name string, has func(string) bool) string {
	switch own := names.Clean(name); {
	case column != name && has(column) && own == name && !has(name):
		d.Graph.Tell(source.Guessed, name, 1, "%q keeps its name, for another column is %q; if it is meant, choose it "+
			"by %s or %s", name, column, option.Named("Feature"), option.Named("Label"))
		return name
	case column != name && (d.declared || !strings.Contains(strings.ToLower(name), column[:min(4, len(column))])):
		d.Graph.Tell(source.Said, name, 1, "%q is stored as %q, as batches know it", name, column)
	}
	return column
}

// hasNodes and hasEdges report whether there is a column of nodes, or of edges.
func (d *Describer) hasNodes(name string) bool {
	return slices.ContainsFunc(d.Graph.Node().Columns, func(c source.Column) bool { return c.Name == name })
}

func (d *Describer) hasEdges(name string) bool {
	return slices.ContainsFunc(d.Graph.Edges.Columns, func(c graph.Column) bool { return c.Name == name })
}

// ownName is the name of a column that has no known name: the array's, without a prefix, or that of a
// role.
func ownName(name, prefix string) string {
	if n := len(prefix); len(name) > n && strings.EqualFold(name[:n], prefix) {
		name = name[n:]
	}
	if role := graph.RoleOf(strings.ToLower(name)); role != graph.NoRole {
		return role.String()
	}
	return name
}

func (d *Describer) nodeColumn(column, name string, h *array.Header) (bool, error) {
	node := d.Graph.Node()
	if d.hasNodes(column) {
		return false, nil
	}
	c := graph.Column{Name: column, DType: h.DType, Shape: shape(h), Unit: h.Unit}
	if column == "label" && len(c.Shape) == 0 {
		labels, err := d.labels(name, h)
		if err != nil {
			return false, err
		}
		node.SetLabels(labels)
		return true, nil
	}
	node.Columns = append(node.Columns, source.Column{Column: c, Write: func(ctx context.Context, w io.Writer) error {
		return d.stream(ctx, w, name)
	}})
	return true, nil
}

// shape returns the shape of a row: a list of one number is a number.
func shape(h *array.Header) []int64 {
	if h.RowWidth() == 1 {
		return nil
	}
	return h.Shape[1:]
}

func (d *Describer) edgeColumn(column, name string, h *array.Header) (bool, error) {
	if h.Fortran && len(h.Shape) > 1 {
		return false, nil // its rows do not lie together
	}
	if column == "weight" {
		good, err := d.weights(name)
		if err != nil {
			return false, err
		}
		if !good {
			column = d.free("value", name, d.hasEdges)
			d.Graph.Tell(source.Renamed, name, 1, "%q is stored as %q: a weight is finite and not negative", name,
				column)
		}
	}
	if d.hasEdges(column) {
		return false, nil
	}
	c := graph.Column{Name: column, DType: h.DType, Shape: shape(h), Unit: h.Unit}
	d.R.Timed(&c)
	d.Graph.Edges.Columns = append(d.Graph.Edges.Columns, c)
	d.columns = append(d.columns, name)
	return true, nil
}

// stream writes all elements of an array, row by row.
func (d *Describer) stream(ctx context.Context, w io.Writer, name string) error {
	r, c, err := d.Set[name].Open()
	if err != nil {
		return err
	}
	defer c.Close()
	if err = r.Stream(ctx, w, d.R.Budget.Ledger()); err != nil && ctx.Err() == nil {
		err = source.Error(d.Set[name].Path, d.Set[name].Column, -1, "", err)
	}
	return err
}

// splitNames are what names of arrays of splits are made of: "train_idx", "val_mask", "test", "train_3_idx".
var splitNames = regexp.MustCompile(`^(train|test|val|valid|dev)(?:_(\d{1,4}))?(?:_masks|_mask|_idx|_index|_ids)?$`)

// splitName returns the split that an array's name names, and which of several of that name it is.
func splitName(name string) (split string, index int, ok bool) {
	m := splitNames.FindStringSubmatch(name)
	if m == nil {
		return "", 0, false
	}
	if split = m[1]; split == "valid" || split == "dev" {
		split = "val"
	}
	index, _ = strconv.Atoi(m[2]) // 0 where there is none
	return split, index, true
}

// append adds to a list what an array of this name holds.
func (d *Describer) append(name string, list *[]int64, v ...int64) error {
	if err := source.Append(d.R.Budget.Ledger(), list, v...); err != nil {
		return d.fail(name, -1, "%w", err)
	}
	return nil
}

// maxSplits is how many splits of a name are taken. Each is a file.
const maxSplits = 1 << 12

// split takes a mask over all nodes, or a list of nodes.
func (d *Describer) split(name, split string, index int, h *array.Header) (bool, error) {
	nodes := d.Graph.Node().Count
	if h.Kind == array.Bool || h.DType != unified.Invalid && (strings.Contains(name, "mask") ||
		h.DType == unified.Uint8 && slices.Equal(h.Shape, []int64{nodes})) {
		return true, d.masks(name, split, index, h)
	}
	if len(h.Shape) != 1 || h.DType == unified.Invalid {
		return false, nil
	}
	s := source.Split{Name: split, Index: index, IDs: []int64{}}
	err := d.eachInt(context.Background(), name, 1<<18, func(at int64, part []int64) error {
		for i, v := range part {
			if v < 0 || v >= nodes {
				return d.fail(name, at+int64(i), "%d is not a node: there are %d nodes", v, nodes)
			}
		}
		return d.append(name, &s.IDs, part...)
	})
	d.Graph.Splits = append(d.Graph.Splits, s)
	return true, err
}

// masks takes a mask over all nodes, of the shape [n], or those of some splits: [n, splits] or [splits, n].
func (d *Describer) masks(name, split string, index int, h *array.Header) error {
	nodes, width, byNode := d.Graph.Node().Count, int64(1), false
	switch s := h.Shape; {
	case len(s) == 1 && s[0] == nodes:
	case len(s) == 2 && s[0] == nodes:
		width, byNode = s[1], !h.Fortran
	case len(s) == 2 && s[1] == nodes:
		width, byNode = s[0], h.Fortran
	default:
		return d.fail(name, -1, "is %v, but there are %d nodes", h, nodes)
	}
	if width > maxSplits {
		return d.fail(name, -1, "has %d splits, at most %d are possible", width, maxSplits)
	}
	first := len(d.Graph.Splits)
	for k := range width {
		d.Graph.Splits = append(d.Graph.Splits, source.Split{Name: split, Index: index + int(k), IDs: []int64{}})
	}
	splits := d.Graph.Splits[first:]
	return d.eachInt(context.Background(), name, chunkEdges, func(at int64, part []int64) error {
		for i, x := range part {
			if x == 0 {
				continue
			}
			e := at + int64(i)
			v, k := e%nodes, e/nodes
			if byNode {
				v, k = e/width, e%width
			}
			if x != 1 {
				return d.fail(name, v, "a mask holds 0 and 1, not %d", x)
			}
			if err := d.append(name, &splits[k].IDs, v); err != nil {
				return err
			}
		}
		return nil
	})
}
