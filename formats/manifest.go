package formats

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/narrow"
	"github.com/khop-gnn/khop/unified"
)

// formatMajor and formatMinor are the version that this package writes. It reads every minor version of its major one.
const (
	formatMajor = 1
	formatMinor = 0
)

// Manifest is the contents of dataset.json. It is read-only. docs/format.md describes each field.
type Manifest struct {
	Format     [2]int
	Requires   []string
	ID         [16]byte // of Content: equal data, equal id
	Generation int64    // 1, and one more each time the directory was replaced
	Provenance map[string]string
	Content
}

// Content is the part of a manifest that the id covers: what the dataset is, not where it comes from.
type Content struct {
	ChunkBytes int64       `json:"chunk_bytes"`
	NodeTypes  []NodeInfo  `json:"node_types"`
	EdgeTypes  []EdgeInfo  `json:"edge_types"`
	Columns    []ArrayInfo `json:"columns"`
	Splits     []SplitInfo `json:"splits"`
}

// NodeInfo is a node type.
type NodeInfo struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// EdgeInfo is an edge type.
type EdgeInfo struct {
	Source   string `json:"source"`
	Relation string `json:"relation"`
	Target   string `json:"target"`
	Count    int64  `json:"count"`
	Order    string `json:"order"` // "source" or "time"
}

// The owners of arrays; a node type t owns "nodes/t".
const (
	OwnerGraph = "graph" // indptr, indices, type, edge_id
	OwnerEdges = "edges" // a row an edge
	OwnerLinks = "links" // splits of links
)

// ArrayInfo is an array: a column, or a part of the graph's structure.
type ArrayInfo struct {
	Owner  string          `json:"owner"` // OwnerGraph, OwnerEdges or "nodes/<type>"
	Name   string          `json:"name"`
	DType  string          `json:"dtype"`           // as unified.DType spells it, or "utf8"
	Shape  []int64         `json:"shape"`           // of a row; empty for a number
	Scale  *float64        `json:"scale,omitempty"` // the value is scale times the stored number
	Unit   string          `json:"unit,omitempty"`
	Fields json.RawMessage `json:"fields,omitempty"` // what the elements of a row are
	Code   *graph.Code     `json:"code,omitempty"`   // what the bytes of a row stand for
	// Ascending says that no row is less than the one before.
	Ascending bool     `json:"ascending,omitempty"`
	Fill      *float64 `json:"fill,omitempty"` // the value in rows of edges that do not have the column
	Parts     []Part   `json:"parts"`          // exactly one in this version
}

// SplitInfo is a named set of seeds.
type SplitInfo struct {
	Task  string    `json:"task"` // "node", "link", or "table"
	Name  string    `json:"name"`
	Index int       `json:"index"`
	Sets  []SetInfo `json:"sets"`
}

// SetInfo is the seeds of one node type in a split of nodes; or, of links, their sources, their targets or their
// labels; or, of a task's table, its nodes, their times or their labels.
type SetInfo struct {
	NodeType int  `json:"node_type"`
	EdgeType *int `json:"edge_type,omitempty"` // of links, and of a table's targets
	// End is "source", "target" or "label" of links; "", "time", "from", "label", "target" or "offset" of a
	// table.
	End   string  `json:"end,omitempty"`
	DType string  `json:"dtype"`           // int32 or int64; of a table's labels any
	Shape []int64 `json:"shape,omitempty"` // of a row of a table's labels; empty for a number
	Parts []Part  `json:"parts"`
}

// Part is a file.
type Part struct {
	Path       string `json:"path"` // within the dataset's directory, with slashes
	Rows       int64  `json:"rows"`
	FileBytes  int64  `json:"file_bytes"`  // of the whole file
	BodyOffset int64  `json:"body_offset"` // where the elements begin
	Bytes      int64  `json:"bytes"`       // of the elements
	HeadXXH3   string `json:"head_xxh3"`   // of the bytes before the elements, then of those behind them
	// ChunkXXH3 is a list of checksums, one for each ChunkBytes of elements. Only Check decodes them.
	ChunkXXH3 json.RawMessage `json:"chunk_xxh3"`
}

// newSums returns the list of checksums as it is written.
func newSums(sums []uint64) json.RawMessage {
	list := make([]string, len(sums))
	for i, v := range sums {
		list[i] = formatHash(v)
	}
	text, _ := json.Marshal(list) // strings can always be written
	return text
}

// sums returns the checksums of the file's chunks, as many as there must be; ErrCorrupt if the list is not one.
func (p *Part) sums(chunk int64) ([]uint64, error) {
	var list []string
	if err := json.Unmarshal(p.ChunkXXH3, &list); err != nil {
		return nil, corruptf("checksums: %v", err)
	}
	sums := make([]uint64, len(list))
	for i, h := range list {
		var err error
		if sums[i], err = parseHash(h); err != nil {
			return nil, err
		}
	}
	if want := (p.Bytes + chunk - 1) / chunk; int64(len(sums)) != want {
		return nil, corruptf("the manifest has %d checksums for it, there must be %d", len(sums), want)
	}
	return sums, nil
}

func formatHash(v uint64) string { return fmt.Sprintf("%016x", v) }

func parseHash(s string) (uint64, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 8 || s != strings.ToLower(s) {
		return 0, corruptf("checksum %.20q is not 16 hexadecimal digits", s)
	}
	return binary.BigEndian.Uint64(b), nil
}

// The manifest ends in these, with the checksum of everything before between them.
const (
	manifestChecksum = "  \"checksum\": \""
	manifestEnd      = "\"\n}\n"
)

// encode returns the manifest's text and sets its id.
func (m *Manifest) encode() ([]byte, error) {
	content, err := marshalIndent(m.Content, "  ")
	if err != nil {
		return nil, err
	}
	m.ID = xxh3.Hash128(content).Bytes()
	provenance, err := marshalIndent(m.Provenance, "  ")
	if err != nil {
		return nil, err
	}
	if len(m.Provenance) == 0 {
		provenance = []byte("{}")
	}
	requires := []string{}
	for i := range m.Splits {
		if slices.ContainsFunc(m.Splits[i].Sets, func(set SetInfo) bool { return set.End == tableFrom }) {
			requires = []string{firstTimes}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"format\": [%d, %d],\n  \"requires\": %q,\n  \"id\": \"%x\",\n  \"generation\": %d,\n",
		m.Format[0], m.Format[1], requires, m.ID, m.Generation)
	fmt.Fprintf(&b, "  \"provenance\": %s,\n  \"content\": %s,\n", provenance, content)
	sum := xxh3.Hash(b.Bytes())
	b.WriteString(manifestChecksum + formatHash(sum) + manifestEnd)
	return b.Bytes(), nil
}

// firstTimes is what a reader must know of a dataset whose tables of tasks have first times.
const firstTimes = "first-times"

func marshalIndent(v any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// OwnerOfSplit returns the owner of the sets of node type t in splits of nodes.
func OwnerOfSplit(t int) string { return "split/" + nodeOwner(t) }

// nodeOwner returns the owner of the columns of node type t.
func nodeOwner(t int) string { return fmt.Sprintf("nodes/%d", t) }

// schema returns the graph schema that the content describes, without checking it.
func (c *Content) schema() graph.Schema {
	var s graph.Schema
	owners := make(map[string]int, len(c.NodeTypes))
	for i, n := range c.NodeTypes {
		s.Nodes = append(s.Nodes, graph.NodeType{Name: n.Name, Count: n.Count})
		owners[nodeOwner(i)] = i
	}
	for _, e := range c.EdgeTypes {
		t := graph.EdgeType{Source: e.Source, Relation: e.Relation, Target: e.Target, Count: e.Count}
		if e.Order == graph.ByTime.String() {
			t.Order = graph.ByTime
		}
		s.Edges = append(s.Edges, t)
	}
	for i := range c.Columns {
		a := &c.Columns[i]
		if a.DType == stringsDType {
			continue
		}
		dtype, _ := unified.ParseDType(a.DType)
		col := graph.Column{Name: a.Name, DType: dtype, Shape: append([]int64(nil), a.Shape...),
			Unit: a.Unit, Fields: a.Fields, Code: knownCode(a.Code), Ascending: a.Ascending}
		if a.Owner == OwnerEdges {
			s.EdgeColumns = append(s.EdgeColumns, col)
		} else if t, ok := owners[a.Owner]; ok {
			s.Nodes[t].Columns = append(s.Nodes[t].Columns, col)
		}
	}
	return s
}

// knownCode returns a code, or nil for one that this version does not know: its rows are bytes then.
func knownCode(c *graph.Code) *graph.Code {
	if c == nil || narrow.Of(c.Name) == nil {
		return nil
	}
	return c
}

// contentFile is a file that a manifest names: of a column, or of a set of a split.
type contentFile struct {
	part   *Part
	typ    arrayfile.Type
	column *ArrayInfo // nil: of a set
	split  *SplitInfo
	set    *SetInfo
}

// files returns the files that the content names, in its order. It has been checked.
func (c *Content) files() []contentFile {
	var list []contentFile
	for i := range c.Columns {
		info := &c.Columns[i]
		typ, _ := info.arrayType()
		list = append(list, contentFile{part: &info.Parts[0], typ: typ, column: info})
	}
	for i := range c.Splits {
		for j := range c.Splits[i].Sets {
			set := &c.Splits[i].Sets[j]
			dtype, _ := unified.ParseDType(set.DType)
			list = append(list, contentFile{part: &set.Parts[0], split: &c.Splits[i], set: set,
				typ: arrayfile.Type{Name: c.Splits[i].Name, DType: dtype, Shape: set.Shape}})
		}
	}
	return list
}
