package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
)

type infoCmd struct {
	Dataset string `arg:"" help:"Dataset directory, or its address in a store."`

	Deep               bool `help:"Read all arrays: print degrees, likely mistakes, training memory, the best order."`
	flagsOf[noOptions] `embed:""`
	plotFlags          `embed:"" set:"plot_of=degrees, types, times and splits (reads all arrays)"`

	jsonFlag `embed:""`
}

// infoResult is what "khop info --json" prints. Scripts rely on the names.
type infoResult struct {
	Dataset      string             `json:"dataset"`
	ID           string             `json:"id"`
	Format       string             `json:"format"`
	Generation   int64              `json:"generation"`
	Nodes        int64              `json:"nodes"`
	Edges        int64              `json:"edges"`
	SourceEdges  int64              `json:"source_edges"` // of what was converted, before reverse edges were added
	NodeTypes    []nodeTypeInfo     `json:"node_types"`
	EdgeTypes    []formats.EdgeInfo `json:"edge_types"`
	EdgeColumns  []columnInfo       `json:"edge_columns"`
	FeatureDim   int64              `json:"feature_dim"`   // of the first node type that has features; 0: none
	FeatureDType string             `json:"feature_dtype"` // "": none
	Classes      int64              `json:"classes"`       // 0: no labels, or not told
	Splits       []splitInfo        `json:"splits"`
	Links        []linksInfo        `json:"links"` // to predict
	Names        []namesInfo        `json:"names"` // of what is no node: of relations, of classes
	Bytes        int64              `json:"bytes"`
	Provenance   map[string]string  `json:"provenance"`

	*deepInfo // with --deep
}

type nodeTypeInfo struct {
	formats.NodeInfo
	Columns []columnInfo `json:"columns"`
}

type columnInfo struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"` // of a row; empty for a number
	Unit  string  `json:"unit"`  // of times; "": none, or not known
	// Ascending says that nodes are in the order of these times: samplers bisect their edges.
	Ascending bool `json:"ascending,omitempty"`
	// Fields says what the elements of a row are (docs/format.md, "What elements mean").
	Fields json.RawMessage `json:"fields,omitempty"`
}

type splitInfo struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	Count int64  `json:"count"`
}

type linksInfo struct {
	Name     string `json:"name"`
	Index    int    `json:"index"`
	EdgeType string `json:"edge_type"`
	Count    int64  `json:"count"`
}

type namesInfo struct {
	NodeType string `json:"node_type"`
	Name     string `json:"name"`
	Count    int64  `json:"count"`
}

// Run prints what the dataset holds.
func (c *infoCmd) Run(env *environment) (err error) {
	ds, err := c.plotFlags.openDataset(env, &c.tagFlags, c.Dataset)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	r := describe(c.Dataset, ds)
	if c.Deep || c.Plot != "" {
		if r.deepInfo, err = lookDeep(env, ds); err != nil {
			return err
		}
	}
	if err := draw(env, c.plotFlags, r.Dataset, r); err != nil {
		return err
	}
	return c.show(env, r, r.print)
}

func describe(path string, ds *formats.Dataset) infoResult {
	m, g := ds.Manifest(), ds.Graph()
	schema, id := g.Schema(), ds.ID()
	r := infoResult{
		Dataset: paths.Text(path), ID: fmt.Sprintf("%x", id[:]), Format: fmt.Sprintf("%d.%d", m.Format[0], m.Format[1]),
		Generation: m.Generation, Nodes: g.NumNodes(), Edges: g.NumEdges(), SourceEdges: g.NumEdges(),
		EdgeColumns: columnInfos(schema.EdgeColumns), Splits: []splitInfo{}, Links: []linksInfo{}, Names: []namesInfo{},
		Bytes: ds.FileBytes(), Provenance: m.Provenance, EdgeTypes: m.EdgeTypes,
	}
	for t, n := range schema.Nodes {
		cols, names := stringInfos(m, t, n)
		r.Names = append(r.Names, names...)
		cols = append(columnInfos(n.Columns), cols...)
		r.NodeTypes = append(r.NodeTypes, nodeTypeInfo{formats.NodeInfo{Name: n.Name, Count: n.Count}, cols})
		for _, c := range n.Columns {
			if c.Role() == graph.Feature && r.FeatureDType == "" {
				r.FeatureDim, r.FeatureDType = c.Numbers().Width(), c.TypeName()
			}
		}
	}
	for _, s := range g.Splits() {
		r.Splits = append(r.Splits, splitInfo{s.Name, s.Index, s.Seeds.Len()})
	}
	for _, split := range ds.LinkSplits() {
		for _, set := range split.Sets {
			e := schema.Edges[set.EdgeType]
			r.Links = append(r.Links, linksInfo{split.Name, split.Index, e.Source + ":" + e.Relation + ":" + e.Target,
				set.Sources.Len()})
		}
	}
	if n, err := strconv.ParseInt(m.Provenance["source_edges"], 10, 64); err == nil {
		r.SourceEdges = n
	}
	if n, err := strconv.ParseInt(m.Provenance["classes"], 10, 64); err == nil {
		r.Classes = n
	}
	return r
}

// stringInfos returns the strings of a node type: the columns, with one a node, and the names of something else.
func stringInfos(m *formats.Manifest, t int, n graph.NodeType) (columns []columnInfo, names []namesInfo) {
	for _, a := range m.Columns {
		if a.DType != "utf8" || a.Owner != fmt.Sprintf("nodes/%d", t) {
			continue
		}
		rows := int64(0)
		for _, part := range a.Parts {
			rows += part.Rows
		}
		if rows == n.Count {
			columns = append(columns, columnInfo{Name: a.Name, DType: a.DType, Shape: []int64{}})
		} else {
			names = append(names, namesInfo{n.Name, a.Name, rows})
		}
	}
	return columns, names
}

func columnInfos(cols []graph.Column) []columnInfo {
	list := []columnInfo{}
	for _, c := range cols {
		shape := c.Numbers().Shape
		if shape == nil {
			shape = []int64{}
		}
		list = append(list, columnInfo{c.Name, c.TypeName(), shape, c.Unit, c.Ascending, c.Fields})
	}
	return list
}

func (r *infoResult) print(env *environment) error {
	t := newTable(env.stdout)
	t.row("dataset", r.Dataset)
	t.say("id", "%s (format %s, generation %d)", r.ID, r.Format, r.Generation)
	t.row("size", machine.Bytes(r.Bytes))
	edges := humanize.Comma(r.Edges)
	if r.SourceEdges != r.Edges {
		edges += fmt.Sprintf(", of %s in the source", humanize.Comma(r.SourceEdges))
	}
	t.row("nodes", humanize.Comma(r.Nodes))
	t.row("edges", edges)
	for _, n := range r.NodeTypes {
		t.say("node type", "%s: %s%s", n.Name, humanize.Comma(n.Count), columnsText(n.Columns))
	}
	columns := columnsText(r.EdgeColumns) // all edge types have them
	for i, e := range r.EdgeTypes {
		t.say("edge type", "%s:%s:%s: %s, by %s%s", e.Source, e.Relation, e.Target, humanize.Comma(e.Count),
			e.Order, columns)
		if i == 0 && columns != "" {
			columns = ", the same columns"
		}
	}
	if r.Classes > 0 {
		t.row("classes", r.Classes)
	}
	for _, s := range splitLines(r.Splits) {
		t.row("split", s)
	}
	for _, l := range r.Links {
		t.say("links", "%s %d: %s, %s", l.Name, l.Index, humanize.Comma(l.Count), l.EdgeType)
	}
	for _, n := range r.Names {
		t.say("names", "%s: %s", n.Name, humanize.Comma(n.Count))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Provenance)) {
		t.row("from", k+": "+r.Provenance[k])
	}
	if err := t.flush(); err != nil || r.deepInfo == nil {
		return err
	}
	return r.deepInfo.print(env)
}

func columnsText(cols []columnInfo) string {
	var text strings.Builder
	for _, c := range cols {
		fmt.Fprintf(&text, ", %s %s", c.Name, c.DType)
		if len(c.Shape) > 0 {
			text.WriteString(strings.ReplaceAll(fmt.Sprint(c.Shape), " ", ","))
		}
		if c.Unit != "" {
			text.WriteString(" in " + c.Unit)
		}
		if c.Ascending {
			text.WriteString(" (rows are in its order: bisected)")
		}
	}
	return text.String()
}

// splitLines writes a line a name: sizes of all splits of that name.
func splitLines(splits []splitInfo) []string {
	sizes := map[string][]string{}
	var names []string
	for _, s := range splits {
		if sizes[s.Name] == nil {
			names = append(names, s.Name)
		}
		sizes[s.Name] = append(sizes[s.Name], humanize.Comma(s.Count))
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s: %s", name, strings.Join(sizes[name], ", "))
	}
	return names
}
