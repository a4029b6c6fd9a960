package formats

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/unified"
)

// said compares the messages of some cases, by their names, with a file below testdata/said: a line a case.
func said(t *testing.T, section string, lines map[string]string) {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&b, "%s: %s\n", name, lines[name])
	}
	expect.Golden(t, filepath.Join("testdata", "said", section+".txt"), b.String())
}

// linesOf is what golden files hold of some errors about a dataset.
func linesOf(t *testing.T, dir string, list ...error) string {
	t.Helper()
	var lines []string
	for _, err := range list {
		lines = append(lines, expect.Line(t, err, dir))
	}
	return strings.Join(lines, " | ")
}

func spell(l arrayfile.Layout) string {
	return fmt.Sprintf("%s: %d x %v%v, strings %t", l.Name, l.Rows, l.DType, l.Shape, l.Strings)
}

// TestADamagedArrowFileIsNamedAsItWas sets each byte around the elements to other values.
func TestADamagedArrowFileIsNamedAsItWas(t *testing.T) {
	for name, l := range map[string]arrayfile.Layout{
		"numbers": arrayfile.NewLayout(arrayfile.Type{Name: "x", DType: unified.BFloat16, Shape: []int64{2, 3}}, 5, 0),
		"floats":  arrayfile.NewLayout(arrayfile.Type{Name: "x", DType: unified.Float64}, 5, 0),
		"strings": arrayfile.NewLayout(arrayfile.Type{Name: "s", Strings: true}, 3, 11),
	} {
		head, tail := l.Head(), l.Tail()
		file := slices.Concat(head, make([]byte, l.Bytes), tail)
		var count expect.Tally
		try := func(i int) {
			if l, err := arrayfile.Walk(file); err != nil {
				count.Fault(t, "", err, "")
			} else {
				count.Add("fine", i, spell(l), l.BodyOffset, l.Data, l.Bytes)
			}
		}
		for i := range file {
			if i >= len(head) && i < len(head)+int(l.Bytes) {
				continue
			}
			expect.EachByte(file[i:i+1], func(_ int, was byte) []byte {
				return []byte{0, 1, 2, 3, 4, 5, 6, 8, 16, 20, 0x7f, 0x80, 0xff, was + 1, was - 1, was ^ 0x20}
			}, func(int) { try(i) })
			for _, wide := range []uint64{math.MaxInt64, 1 << 63, uint64(len(file)), 1 << 20, 1<<20 + 8} {
				if i%4 == 0 && i+8 <= len(file) && (i+8 <= len(head) || i >= len(head)+int(l.Bytes)) {
					keep := slices.Clone(file[i : i+8])
					binary.LittleEndian.PutUint64(file[i:], wide)
					try(i)
					copy(file[i:], keep)
				}
			}
		}
		for n := range len(file) {
			all := file
			file = file[:n:n]
			try(n)
			file = all
		}
		expect.Golden(t, filepath.Join("testdata", "said", "walk-"+name+".txt"), count.String())
	}
}

// borders change a manifest to what is just allowed, and to what is just not.
func borders(m *Content) map[string]func() {
	p, long := &m.Columns[0].Parts[0], func(n int) string { return strings.Repeat("x", n) }
	tail := func(n int) { p.FileBytes = p.BodyOffset + p.Bytes + int64(n) }
	return map[string]func(){
		"tail, least": func() { tail(arrayfile.FooterSuffix) },
		"tail, less":  func() { tail(arrayfile.FooterSuffix - 1) },
		"tail, most":  func() { tail(arrayfile.MaxMetadata) }, "tail, more": func() { tail(arrayfile.MaxMetadata + 1) },
		"body, first":   func() { p.BodyOffset = arrayfile.AlignSmall; tail(100) },
		"body, before":  func() { p.BodyOffset = 0; tail(100) },
		"body, last":    func() { p.BodyOffset = arrayfile.MaxMetadata; tail(100) },
		"body, behind":  func() { p.BodyOffset = arrayfile.MaxMetadata + arrayfile.AlignSmall; tail(100) },
		"body, between": func() { p.BodyOffset += 64; tail(100) },
		"bytes, all":    func() { p.FileBytes = p.Bytes }, "bytes, one more": func() { p.Bytes++; tail(100) },
		"bytes, negative": func() { p.Bytes = -8; tail(200) }, "file bytes, negative": func() { p.FileBytes = -1 },
		"chunks, least": func() { m.ChunkBytes = 4096 }, "chunks, less": func() { m.ChunkBytes = 2048 },
		"chunks, odd": func() { m.ChunkBytes = 4097 }, "chunks, most": func() { m.ChunkBytes = 1 << 40 },
		"chunks, more":     func() { m.ChunkBytes = 1 << 41 },
		"nodes, most":      func() { m.NodeTypes[2].Count = maxCount },
		"nodes, more":      func() { m.NodeTypes[2].Count = maxCount + 1 },
		"nodes, negative":  func() { m.NodeTypes[2].Count = -1 },
		"edges, most":      func() { m.EdgeTypes[3].Count = maxCount },
		"edges, more":      func() { m.EdgeTypes[3].Count = maxCount + 1 },
		"edges, negative":  func() { m.EdgeTypes[3].Count = -1 },
		"edges, of all":    func() { m.EdgeTypes[0].Count, m.EdgeTypes[1].Count = maxCount, maxCount },
		"nodes, of all":    func() { m.NodeTypes[0].Count, m.NodeTypes[1].Count = maxCount, maxCount },
		"type, long":       func() { m.NodeTypes[2].Name = long(names.Most) },
		"type, longer":     func() { m.NodeTypes[2].Name = long(names.Most + 1) },
		"relation, long":   func() { m.EdgeTypes[3].Relation = long(names.Most) },
		"relation, longer": func() { m.EdgeTypes[3].Relation = long(names.Most + 1) },
		"source, longer":   func() { m.EdgeTypes[3].Source = long(names.Most + 1) },
		"target, longer":   func() { m.EdgeTypes[3].Target = long(names.Most + 1) },
		"column, long":     func() { m.Columns[5].Name = long(names.Most) },
		"column, longer":   func() { m.Columns[5].Name = long(names.Most + 1) },
		"split, long":      func() { m.Splits[0].Name = long(names.Most) },
		"split, longer":    func() { m.Splits[0].Name = long(names.Most + 1) },
		"split, unnamed":   func() { m.Splits[0].Name = "" },
		"split, negative":  func() { m.Splits[0].Index = -1 },
		"order":            func() { m.EdgeTypes[1].Order = "degree" },
		"order, time":      func() { m.EdgeTypes[1].Order = "time" },
		"time, wide":       func() { m.Columns[4].Shape = []int64{1} },
		"indices, wide":    func() { m.Columns[1].Shape = []int64{1} },
		"type, wide":       func() { m.Columns[2].DType = "uint16" },
		"indices, long":    func() { m.Columns[1].DType = "int64" },
		"id, short":        func() { m.Columns[3].DType = "int32" },
	}
}

// otherBorders do so with shapes, paths and what belongs together.
func otherBorders(m *Content) map[string]func() {
	p, long := &m.Columns[0].Parts[0], func(n int) string { return strings.Repeat("x", n) }
	path := func(lengths ...int) string {
		var parts []string
		for _, n := range lengths {
			parts = append(parts, long(n))
		}
		return strings.Join(parts, "/") + extension
	}
	return map[string]func(){
		"dimension, most":    func() { m.Columns[5].Shape = []int64{arrayfile.MaxListSize} },
		"dimension, more":    func() { m.Columns[5].Shape = []int64{arrayfile.MaxListSize + 1} },
		"dimensions, three":  func() { m.Columns[5].Shape = []int64{1, 1, 1} },
		"dimensions, four":   func() { m.Columns[5].Shape = []int64{1, 1, 1, 1} },
		"dimensions, large":  func() { m.Columns[5].Shape = []int64{1 << 28, 1 << 28} },
		"dimensions, huge":   func() { m.Columns[5].Shape = []int64{1 << 28, 1<<28 + 1} },
		"strings of rows":    func() { m.Columns[5].DType, m.Columns[5].Shape = stringsDType, []int64{2} },
		"strings of edges":   func() { m.Columns[4].DType = stringsDType },
		"path, long":         func() { p.Path = path(100, 120, 27) },
		"path, longer":       func() { p.Path = path(100, 120, 28) },
		"path, deep":         func() { p.Path = path(1, 1, 1, 1) },
		"path, deeper":       func() { p.Path = path(1, 1, 1, 1, 1) },
		"name, long":         func() { p.Path = path(128, 1) },
		"name, longer":       func() { p.Path = path(129, 1) },
		"name, hidden":       func() { p.Path = "graph/.x.arrow" },
		"name, empty":        func() { p.Path = "graph//x.arrow" },
		"name, of another":   func() { p.Path = "graph/x.json" },
		"name, characters":   func() { p.Path = "az09-_.x/az09-_.arrow" },
		"name, large":        func() { p.Path = "graph/A.arrow" },
		"name, a brace":      func() { p.Path = "graph/{.arrow" },
		"name, an accent":    func() { p.Path = "graph/`.arrow" },
		"name, a colon":      func() { p.Path = "graph/:.arrow" },
		"parts, two":         func() { m.Columns[0].Parts = append(m.Columns[0].Parts, *p) },
		"rows, another":      func() { p.Rows++ },
		"twice":              func() { m.Columns[1].Parts[0].Path = p.Path },
		"sum, short":         func() { p.HeadXXH3 = p.HeadXXH3[1:] },
		"sum, large":         func() { p.HeadXXH3 = "00000000000000AB" },
		"links, backwards":   func() { m.Splits[len(m.Splits)-1].Sets[0].End = "target" },
		"links, unknown end": func() { m.Splits[len(m.Splits)-1].Sets[0].End = "middle" },
		"node type, beyond":  func() { m.Splits[0].Sets[0].NodeType = len(m.NodeTypes) },
		"seeds, of bytes":    func() { m.Splits[0].Sets[0].DType = "uint8" },
		"task":               func() { m.Splits[0].Task = "graph" },
		"types, missing":     func() { m.Columns = slices.Delete(m.Columns, 2, 3) },
		"indptr, missing":    func() { m.Columns = m.Columns[1:] },
		"indices, missing":   func() { m.Columns = slices.Delete(m.Columns, 1, 2) },
		"owner":              func() { m.Columns[5].Owner = "nodes/3" },
		"structure":          func() { m.Columns[0].Name = "csr" },
		"a column twice":     func() { m.Columns = append(m.Columns, m.Columns[0]) },
	}
}

func TestManifestsAreRefusedAtTheirBorders(t *testing.T) {
	lines := map[string]string{}
	dir, _ := writeLinks(t) // it has everything
	for _, of := range []func(*Content) map[string]func(){borders, otherBorders} {
		for name := range of(&manifestOf(t, dir).Content) {
			c := &manifestOf(t, dir).Content
			of(c)[name]()
			lines[name] = expect.Line(t, c.check(), "")
		}
	}
	said(t, "manifest", lines)
}

// TestDamageIsNamedWhole: what Check and Open say of rules that are broken, with the whole text.
func TestDamageIsNamedWhole(t *testing.T) {
	lines := map[string]string{}
	for _, c := range brokenRules {
		a := plainArrays(t)
		if c.typed {
			a = typedArrays(t)
		}
		c.change(&a)
		dir := write(t, a, WriterOptions{})
		lines[c.name] = problems(t, dir)
	}
	said(t, "check", lines)
	lines = map[string]string{}
	for name, change := range lyingManifests {
		dir := write(t, plainArrays(t), WriterOptions{})
		forge(t, dir, change)
		lines[name] = expect.Line(t, openError(dir), dir)
	}
	said(t, "open", lines)
}

// TestWhatIsWrittenWrongIsNamed: what a writer refuses, and nothing of it is made.
func TestWhatIsWrittenWrongIsNamed(t *testing.T) {
	dir := filepath.Join(scratchDir(t), "x.khop")
	w := expect.Must(Create(dir, WriterOptions{}))(t)
	defer func() { expect.OK(t, w.Abort()) }()
	col := func(name string, d unified.DType, shape ...int64) graph.Column {
		return graph.Column{Name: name, DType: d, Shape: shape}
	}
	first := func(_ any, err error) error { return err }
	strings1 := expect.Must(w.NodeStrings(0, "one", 1))(t)
	expect.OK(t, strings1.Write("é"))
	strings2 := expect.Must(w.NodeStrings(0, "two", 2))(t)
	strings3 := expect.Must(w.NodeStrings(0, "three", 2))(t)
	expect.OK(t, strings3.Write("a"))
	full := expect.Must(w.NodeColumn(0, col("full", unified.Int32), 3))(t)
	lines := map[string]string{}
	for name, err := range map[string]error{
		"structure":             first(w.Topology("csr", unified.Int64, 1)),
		"node column, negative": first(w.NodeColumn(-1, col("x", unified.Int8), 1)),
		"strings, negative":     first(w.NodeStrings(-1, "x", 1)),
		"strings, rows":         first(w.NodeStrings(0, "x", -1)),
		"split, index":          first(w.Split("x", -1, 0, unified.Int32, 1)),
		"split, node type":      first(w.Split("x", 0, -1, unified.Int32, 1)),
		"split, dtype":          first(w.Split("x", 1, 2, unified.Int16, 1)),
		"split, name":           first(w.Split("", 1, 2, unified.Int64, 1)),
		"links, index":          first(w.Links("x", -1, 2, 3, "source", unified.Int64, 1)),
		"links, edge type":      first(w.Links("x", 0, -1, 3, "source", unified.Int64, 1)),
		"links, node type":      first(w.Links("x", 0, 2, -1, "source", unified.Int64, 1)),
		"links, end":            first(w.Links("x", 1, 2, 3, "middle", unified.Int64, 1)),
		"links, dtype":          first(w.Links("x", 1, 2, 3, "label", unified.Uint8, 1)),
		"links, name":           first(w.Links("", 1, 2, 3, "label", unified.Int32, 1)),
		"column, rows":          first(w.EdgeColumn(col("x", unified.Int8, 3), -1)),
		"column, many rows":     first(w.EdgeColumn(col("x", unified.Int8, 3), maxCount/3+1)),
		"column, shape":         first(w.EdgeColumn(col("x", unified.Int8, 0), 1)),
		"column, dtype":         first(w.EdgeColumn(col("x", unified.Invalid), 1)),
		"column, zero":          first(w.EdgeColumn(col("a\x00b", unified.Int8), 1)),
		"column, unnamed":       first(w.EdgeColumn(col("", unified.Int8), 1)),
		"column, long":          first(w.EdgeColumn(col(strings.Repeat("x", names.Most+1), unified.Int8), 1)),
		"column, twice": cmp.Or(first(w.EdgeColumn(col("y", unified.Int8), 0)), first(w.EdgeColumn(col("y",
			unified.Int8), 0))),
		"strings, one more": strings1.Write("b"),
		"strings, broken":   strings2.Write("\xff"),
		"strings, missing":  strings3.Close(),
		"column, bytes":     first(full.Write(make([]byte, 13))),
	} {
		lines[name] = expect.Line(t, err, dir)
	}
	for name, again := range map[string]error{"strings, one more": strings1.Write("c"),
		"strings, broken":  strings2.Close(),
		"strings, missing": strings3.Write("b"), "column, bytes": first(full.Write(nil))} {
		if got := expect.Line(t, again, dir); got != lines[name] {
			t.Errorf("%s: then it says %s, not %s", name, got, lines[name])
		}
	}
	said(t, "writer", lines)
}

// TestTheLongestNameIsTaken, and a split of no ids.
func TestTheLongestNameIsTaken(t *testing.T) {
	w, err := Create(filepath.Join(scratchDir(t), "x.khop"), WriterOptions{})
	expect.OK(t, err)
	defer func() { expect.OK(t, w.Abort()) }()
	_, err = w.EdgeColumn(graph.Column{Name: strings.Repeat("x", names.Most), DType: unified.Int8}, 1)
	expect.OK(t, err)
	_, err = w.Split("x", 0, 0, unified.Int64, 0)
	expect.OK(t, err)
}

// TestFilesAreNamedByOneRule: names are part of the format. Each has a path of its own, which any system takes.
func TestFilesAreNamedByOneRule(t *testing.T) {
	lines, seen := map[string]string{}, map[string]bool{}
	for _, name := range []string{nameIndptr, nameIndices, nameType, nameEdgeID} {
		seen[topologyPath(name)] = true
	}
	for _, name := range []string{"az09_-", "a`", "a{", "a/", "a:", "AZ", "A@", "Z[", "", "con", "prn", "aux", "nul",
		"com1", "lpt9", "com", "com12", "xcom", "lpt", "clock", strings.Repeat("x", 60), strings.Repeat("x", 61),
		strings.Repeat("Y", 70), "é", "type", "by_source"} {
		paths := []string{edgeColumnPath(name), nodeColumnPath(2, name), splitPath(name, 0, 0), splitPath(name, 3, 4),
			linkPath(name, 0, 1, "source"), linkPath(name, 2, 0, "label")}
		for _, path := range paths {
			expect.That(t, !seen[path] && checkPath(path) == nil, "%q: %s is another's, or no path", name, path)
			seen[path] = true
		}
		lines[fmt.Sprintf("%q", name)] = strings.Join(append(paths, topologyPath(name)), " ")
	}
	said(t, "names", lines)
}
