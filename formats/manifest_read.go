package formats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Limits on a manifest, so that reading a hostile one takes bounded memory.
const (
	maxManifest = 64 << 20
	maxDepth    = 16
	maxObjects  = 1 << 18
	maxValues   = 1 << 22
	maxCount    = 1 << 56 // nodes or edges
)

// manifestJSON is the outer object. Keys that are not here are ignored.
type manifestJSON struct {
	Format     []int                      `json:"format"`
	Requires   []string                   `json:"requires"`
	ID         string                     `json:"id"`
	Generation int64                      `json:"generation"`
	Provenance map[string]json.RawMessage `json:"provenance"`
	Content    json.RawMessage            `json:"content"`
}

// readManifest reads the manifest of the dataset at dir, which root has open, and checks it. name is manifestName, but
// before it is complete.
func readManifest(dir string, root *os.Root, name string) (*Manifest, error) {
	path := filepath.Join(dir, name)
	f, err := openRegular(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, incomplete(dir, root)
	}
	if err != nil {
		return nil, fileError(path, "", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fileError(path, "", err)
	}
	if st.Size() > maxManifest {
		return nil, corrupt(path, "a manifest of %s", humanize.IBytes(uint64(st.Size())))
	}
	text := make([]byte, st.Size())
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, corrupt(path, "the manifest could not be read whole: %v", err)
	}
	m, err := parseManifest(text)
	if err == nil {
		return m, nil
	}
	remedy := remedyConvert
	if errors.Is(err, ErrVersion) {
		remedy = "use a newer khop"
	}
	return nil, fileError(path, remedy, err)
}

func incomplete(dir string, root *os.Root) error {
	if _, err := root.Lstat(transaction.Marker); err == nil {
		return fileError(dir, "wait for its writer, or write it again",
			fmt.Errorf("%w: it is being written, or was left unfinished", ErrIncomplete))
	}
	return fileError(dir, `name the directory of a dataset, or make one of a source with "khop convert"`,
		fmt.Errorf("%w: there is no %s", ErrIncomplete, manifestName))
}

// parseManifest checks the text's checksum, then its structure, then what it says.
func parseManifest(text []byte) (*Manifest, error) {
	if len(text) > maxManifest {
		return nil, corruptf("a manifest of %s", humanize.IBytes(uint64(len(text))))
	}
	body, ok := bytes.CutSuffix(text, []byte(manifestEnd))
	if len(body) < len(manifestChecksum)+16 {
		ok = false
	}
	if !ok {
		return nil, corruptf("the manifest does not end in its checksum: it was cut short")
	}
	sum := string(body[len(body)-16:])
	body, ok = bytes.CutSuffix(body[:len(body)-16], []byte(manifestChecksum))
	if !ok || sum != formatHash(xxh3.Hash(body)) {
		return nil, corruptf("the manifest's checksum does not fit")
	}
	if err := checkNesting(text); err != nil {
		return nil, err
	}
	var j manifestJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, corruptf("the manifest is not what it should be: %v", err)
	}
	return j.manifest()
}

func (j *manifestJSON) manifest() (*Manifest, error) {
	if len(j.Format) != 2 {
		return nil, corruptf("the manifest names no format version")
	}
	if j.Format[0] != formatMajor {
		return nil, fmt.Errorf("%w: format %d.%d, this khop reads %d.x", ErrVersion, j.Format[0], j.Format[1],
			formatMajor)
	}
	unknown := slices.DeleteFunc(j.Requires, func(s string) bool { return s == firstTimes })
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%w: it requires %.100q, which this khop does not know", ErrVersion,
			strings.Join(unknown[:min(8, len(unknown))], ", "))
	}
	m := &Manifest{Format: [2]int(j.Format), Generation: j.Generation,
		Provenance: make(map[string]string, len(j.Provenance))}
	if id, err := parseID(j.ID); err != nil {
		return nil, err
	} else if m.ID = id; id != xxh3.Hash128(j.Content).Bytes() {
		return nil, corruptf("the manifest's id is not that of its content")
	}
	for k, raw := range j.Provenance {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			s = string(raw)
		}
		m.Provenance[k] = s
	}
	if err := json.Unmarshal(j.Content, &m.Content); err != nil {
		return nil, corruptf("the manifest's content is not what it should be: %v", err)
	}
	return m, m.Content.check()
}

func parseID(s string) (id [16]byte, err error) {
	if len(s) != 32 {
		return id, corruptf("the id is not 32 hexadecimal digits")
	}
	for half := range 2 {
		v, err := parseHash(s[16*half : 16*half+16])
		if err != nil {
			return id, err
		}
		binary.BigEndian.PutUint64(id[8*half:], v)
	}
	return id, nil
}

// checkNesting bounds depth and numbers of objects and values before anything is decoded, so that decoding takes memory
// in proportion to the text.
func checkNesting(text []byte) error {
	depth, objects, values, inString := 0, 0, 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			objects++
		case c == '}' || c == ']':
			depth--
		case c == ',':
			values++
		}
		if depth > maxDepth || objects > maxObjects || values > maxValues {
			return corruptf("the manifest is nested too deeply or has too many values")
		}
	}
	return nil
}

// check checks everything that can be checked without the files.
func (c *Content) check() error {
	if c.ChunkBytes < 4096 || c.ChunkBytes&(c.ChunkBytes-1) != 0 || c.ChunkBytes > 1<<40 {
		return corruptf("chunks of %d bytes", c.ChunkBytes)
	}
	nodes, edges := int64(0), int64(0)
	for _, n := range c.NodeTypes {
		if n.Count < 0 || n.Count > maxCount || nodes > maxCount {
			return corruptf("node type %.100q has %d nodes", n.Name, n.Count)
		}
		nodes += n.Count
	}
	for _, e := range c.EdgeTypes {
		if e.Count < 0 || e.Count > maxCount || edges > maxCount {
			return corruptf("edge type %.100q has %d edges", e.Relation, e.Count)
		}
		if e.Order != graph.BySource.String() && e.Order != graph.ByTime.String() {
			return fmt.Errorf("%w: edge order %.100q", ErrVersion, e.Order)
		}
		edges += e.Count
	}
	s := c.schema()
	if err := s.Init(); err != nil {
		return corruptf("%v", err)
	}
	if err := c.checkNames(); err != nil {
		return corruptf("%v", err)
	}
	return c.checkArrays(&s)
}

func (c *Content) checkArrays(s *graph.Schema) error {
	p := partChecker{chunk: c.ChunkBytes, paths: make(map[string]bool)}
	seen := make(map[[2]string]bool, len(c.Columns))
	rows := map[string]int64{OwnerEdges: s.NumEdges()}
	for t := range s.Nodes {
		rows[nodeOwner(t)] = s.Nodes[t].Count
	}
	for i := range c.Columns {
		a := &c.Columns[i]
		if key := [2]string{a.Owner, a.Name}; seen[key] {
			return corruptf("column %.100q of %.100q is there twice", a.Name, a.Owner)
		} else {
			seen[key] = true
		}
		n, known := rows[a.Owner]
		if a.Owner == OwnerGraph {
			n, known = topologyRows(a.Name, s)
		}
		if !known {
			return corruptf("column %.100q belongs to %.100q, which is not there", a.Name, a.Owner)
		}
		t, err := a.arrayType()
		if err != nil {
			return err
		}
		if t.Strings {
			n = -1
		}
		if err := p.check(t, a.Parts, n); err != nil {
			return err
		}
	}
	if !seen[[2]string{OwnerGraph, nameIndptr}] || !seen[[2]string{OwnerGraph, nameIndices}] {
		return corruptf("there is no indptr or no indices")
	}
	if err := c.checkDTypes(s, seen); err != nil {
		return err
	}
	return c.checkSplits(s, &p)
}

// checkDTypes checks that the arrays that mean something to khop have the dtypes for it.
func (c *Content) checkDTypes(s *graph.Schema, seen map[[2]string]bool) error {
	for i := range c.Columns {
		a := &c.Columns[i]
		if a.Owner != OwnerGraph {
			continue
		}
		want := unified.Int64
		switch a.Name {
		case nameIndices:
			want = s.IDType()
		case nameType:
			want = typeDType(len(s.Edges))
		}
		if a.DType != want.String() || len(a.Shape) > 0 {
			return corruptf("%s is %s%v, it must be %v", a.Name, a.DType, a.Shape, want)
		}
	}
	if typed := seen[[2]string{OwnerGraph, nameType}]; typed != (len(s.Edges) > 1) {
		return corruptf("there are %d edge types, but the array of types is there: %t", len(s.Edges), typed)
	}
	byTime := slices.ContainsFunc(s.Edges, func(e graph.EdgeType) bool { return e.Order == graph.ByTime })
	if byTime && !slices.ContainsFunc(s.EdgeColumns, func(col graph.Column) bool {
		return col.Role() == graph.Time && len(col.Shape) == 0
	}) {
		return corruptf("edges are ordered by time, but there is no edge column %q of one number an edge", graph.Time)
	}
	return nil
}

func (c *Content) checkSplits(s *graph.Schema, p *partChecker) error {
	type key struct {
		task, name string
		index      int
	}
	seen := make(map[key]bool, len(c.Splits))
	for i := range c.Splits {
		sp := &c.Splits[i]
		k := key{sp.Task, sp.Name, sp.Index}
		if sp.Task != taskNode && sp.Task != taskLink && sp.Task != taskTable {
			return fmt.Errorf("%w: splits of task %.100q", ErrVersion, sp.Task)
		}
		if seen[k] || sp.Index < 0 || len(sp.Sets) == 0 {
			return corruptf("split %.100q %d: there twice, or empty", sp.Name, sp.Index)
		}
		seen[k] = true
		for _, set := range sp.Sets {
			if set.NodeType < 0 || set.NodeType >= len(s.Nodes) {
				return corruptf("split %.100q %d has seeds of node type %d", sp.Name, sp.Index, set.NodeType)
			}
			typ, err := set.arrayType(sp)
			if err != nil {
				return err
			}
			if err := p.check(typ, set.Parts, -1); err != nil {
				return err
			}
		}
		check := sp.checkLinks
		if sp.Task == taskTable {
			check = sp.checkTable
		}
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// linkEnds are the arrays of the links of an edge type, in order; the last may be missing.
var linkEnds = []string{"source", "target", "label"}

func linkEnd(name string) int { return slices.Index(linkEnds, name) }

// checkLinks checks that sets of links come as source, target and perhaps label of an edge type, of equal length.
func (sp *SplitInfo) checkLinks(s *graph.Schema) error {
	at := 0
	for i, set := range sp.Sets {
		link := set.EdgeType != nil
		if link != (sp.Task == taskLink) {
			return corruptf("split %.100q %d of task %q has a set of another task", sp.Name, sp.Index, sp.Task)
		}
		if !link {
			continue
		}
		end := linkEnd(set.End)
		if t := *set.EdgeType; t < 0 || t >= len(s.Edges) || end < 0 || end != 0 && (end != at || i == 0 ||
			*sp.Sets[i-1].EdgeType != t || sp.Sets[i-1].Parts[0].Rows != set.Parts[0].Rows) || end == 0 && at == 1 ||
			end < 2 && set.NodeType != []int{s.Edges[t].Src, s.Edges[t].Dst}[end] {
			return corruptf("links %.100q %d: set %d, of ends %.20q, is out of place", sp.Name, sp.Index, i, set.End)
		}
		at = end + 1
	}
	if sp.Task == taskLink && at == 1 {
		return corruptf("links %.100q %d have no targets", sp.Name, sp.Index)
	}
	return nil
}

func (a *ArrayInfo) arrayType() (arrayfile.Type, error) {
	t := arrayfile.Type{Name: a.Name, Shape: a.Shape, Strings: a.DType == stringsDType}
	if t.Strings && len(a.Shape) == 0 && strings.HasPrefix(a.Owner, ownerNodes) {
		return t, nil
	}
	d, err := unified.ParseDType(a.DType)
	if err != nil || len(a.Shape) > arrayfile.MaxDims {
		return t, corruptf("column %.100q has dtype %.20q and a row shape of %d dimensions", a.Name, a.DType,
			len(a.Shape))
	}
	width := int64(1)
	for _, n := range a.Shape {
		if n <= 0 || n > arrayfile.MaxListSize || width > maxCount/n {
			return t, corruptf("column %.100q has a dimension of %d", a.Name, n)
		}
		width *= n
	}
	t.DType = d
	return t, nil
}

// topologyRows returns how many rows an array of the graph's structure has.
func topologyRows(name string, s *graph.Schema) (int64, bool) {
	switch name {
	case nameIndptr:
		return s.NumNodes() + 1, true
	case nameIndices, nameType, nameEdgeID:
		return s.NumEdges(), true
	}
	return 0, false
}

// partChecker checks what the manifest says of files.
type partChecker struct {
	chunk int64
	paths map[string]bool
}

// check checks the parts of an array that must have rows rows, or any number if that is negative.
func (c *partChecker) check(a arrayfile.Type, parts []Part, rows int64) error {
	if len(parts) != 1 {
		return fmt.Errorf("%w: column %.100q has %d parts", ErrVersion, a.Name, len(parts))
	}
	p := &parts[0]
	if err := checkPath(p.Path); err != nil {
		return err
	}
	if c.paths[p.Path] {
		return corruptf("file %q is named twice", p.Path)
	}
	c.paths[p.Path] = true
	l := arrayfile.Layout{Type: a, Rows: p.Rows, BodyOffset: p.BodyOffset, Bytes: p.Bytes}
	if !l.Lies(p.FileBytes) {
		return corruptf("file %q: %d bytes at %d of %d", p.Path, p.Bytes, p.BodyOffset, p.FileBytes)
	}
	if rows >= 0 && p.Rows != rows {
		return corruptf("file %q has %d rows, there must be %d", p.Path, p.Rows, rows)
	}
	if err := l.Fit(p.Bytes); err != nil {
		return err
	}
	if !a.Strings && p.Rows*a.RowBytes() != p.Bytes {
		return corruptf("file %q: %d rows in %d bytes", p.Path, p.Rows, p.Bytes)
	}
	_, err := parseHash(p.HeadXXH3)
	return err
}

// checkPath accepts what this package writes: lower-case names of letters, digits, '-', '_' and inner dots, with
// slashes between. Nothing that can leave the directory or mean something to a shell or a file system is among it.
func checkPath(path string) error {
	parts := strings.Split(path, "/")
	ok := len(path) <= 255 && len(parts) <= 4 && strings.HasSuffix(path, ".arrow")
	for _, name := range parts {
		ok = ok && name != "" && name[0] != '.' && len(name) <= 128
		for _, c := range []byte(name) {
			ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
		}
	}
	if !ok {
		return corruptf("the manifest names a file %.260q, which no dataset has", path)
	}
	return nil
}
