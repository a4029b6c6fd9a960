package graphar

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/parquetrows"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// count is a file with a count.
func count(n int64) string { return string(binary.LittleEndian.AppendUint64(nil, uint64(n))) }

// The YAMLs of a shop: 3 users in chunks of 2, 2 items in one, 4 edges in chunks of 2.
const (
	shop  = "name: shop\nvertices: [user.vertex.yml, item.vertex.yml]\nedges: [buys.edge.yml]\nversion: gar/v1\n"
	users = "type: user\nchunk_size: 2\nprefix: vertex/user/\nproperty_groups:\n" +
		"- {file_type: csv, properties: [{name: id, data_type: int64, is_primary: true}]}\n" +
		"- {file_type: csv, prefix: more/, properties: [{name: name, data_type: string}, " +
		"{name: age, data_type: int32}, {name: born, data_type: date}, {name: vip, data_type: bool}]}\n" +
		"version: gar/v1\n"
	items = "type: item\nchunk_size: 10\nproperty_groups:\n" +
		"- {file_type: csv, properties: [{name: price, data_type: float}]}\n"
	buys = "src_type: user\nedge_type: buys\ndst_type: item\nchunk_size: 2\nsrc_chunk_size: 2\ndst_chunk_size: 10\n" +
		"directed: true\nprefix: edge/buys\nadj_lists:\n- {ordered: true, aligned_by: src, file_type: csv}\n" +
		"- {ordered: true, aligned_by: dst, file_type: csv, prefix: to/}\nproperty_groups:\n" +
		"- {file_type: csv, properties: [{name: n, data_type: int64}]}\n" +
		"- {file_type: csv, properties: [{name: at, data_type: timestamp}, {name: why, data_type: string}]}\n"
	head           = "_graphArVertexIndex,name,age,born,vip\n"
	ends           = "_graphArSrcIndex,_graphArDstIndex\n"
	byItem, byUser = "edge/buys/to/", "edge/buys/ordered_by_source/"
)

// small is a shop without a fault, whose edges lie ordered by item and by user.
func small() map[string]string {
	return map[string]string{
		"shop.graph.yml": shop, "user.vertex.yml": users, "item.vertex.yml": items, "buys.edge.yml": buys,
		"vertex/user/vertex_count": count(3), "item/vertex_count": count(2),
		"vertex/user/id/chunk0":   "_graphArVertexIndex,id\n0,70\n1,-50\n",
		"vertex/user/id/chunk1":   "_graphArVertexIndex,id\n2,30\n",
		"vertex/user/more/chunk0": head + "0,007,41,2001-02-03,true\n1,bob,,1969-12-31,false\n",
		"vertex/user/more/chunk1": head + "2,\"c,d\",9,2001-02-04,false\n",
		"item/price/chunk0":       "_graphArVertexIndex,price\n0,1\n1,0.1\n",

		byItem + "vertex_count": count(2), byItem + "edge_count0": count(4),
		byItem + "offset/chunk0":         "_graphArOffset\n0\n3\n4\n",
		byItem + "adj_list/part0/chunk0": ends + "0,0\n2,0\n",
		byItem + "adj_list/part0/chunk1": ends + "0,0\n1,1\n",
		byItem + "n/part0/chunk0":        "n\n5\n6\n",
		byItem + "n/part0/chunk1":        "n\n7\n8\n",
		byItem + "at_why/part0/chunk0":   "at,why\n2001-01-01T00:00:00.5Z,x\n,y\n",
		byItem + "at_why/part0/chunk1":   "at,why\n2001-01-01,\n1969-12-31 23:59:59,z\n",

		byUser + "vertex_count": count(3), byUser + "edge_count0": count(3), byUser + "edge_count1": count(1),
		byUser + "offset/chunk0":               "_graphArOffset\n0\n2\n3\n",
		byUser + "offset/chunk1":               "_graphArOffset\n0\n1\n1\n",
		byUser + "adj_list/part0/chunk0":       ends + "0,0\n0,0\n",
		byUser + "adj_list/part0/chunk1/a":     ends + "1,1\n",
		byUser + "adj_list/part1/chunk0/a":     ends + "2,0\n",
		byUser + "adj_list/part1/chunk0/_DONE": "",
		byUser + "n/part0/chunk0":              "n\n5\n7\n",
		byUser + "n/part0/chunk1":              "n\n8\n",
		byUser + "n/part1/chunk0":              "n\n6\n",
		byUser + "at_why/part0/chunk0":         "at,why\n2001-01-01T00:00:00.5Z,x\n2001-01-01,\n",
		byUser + "at_why/part0/chunk1":         "at,why\n1969-12-31 23:59:59,z\n",
		byUser + "at_why/part1/chunk0":         "at,why\n,y\n",
	}
}

const (
	spelled = "3 user; id int64[]: [70,-50,30]; age float64[]: [41,NaN,9]; " +
		"born int64[]us: [9.811584e+14,-8.64e+10,9.812448e+14]; vip uint8[]: [1,0,0]; " +
		`name: ["007" "bob" "c,d"]; 2 item; price float32[]: [1,0.10000000149011612]; ` +
		"edge n int64[]; edge at int64[]us; "
	toItem = "user:buys:item 0>0:5:9.783072005e+14 2>0:6:-9.223372036854776e+18 0>0:7:9.783072e+14 1>1:8:-1e+06"
	ofUser = "user:buys:item 0>0:5:9.783072005e+14 0>0:7:9.783072e+14 1>1:8:-1e+06 2>0:6:-9.223372036854776e+18"
)

// A list ordered by destination is read before others; without it another is, and they hold the same edges. Properties
// are columns of the types that the YAMLs name.
func TestTheBestAdjacencyListIsRead(t *testing.T) {
	for _, kind := range []struct{ drop, list string }{{"", toItem}, {byItem, ofUser}} {
		files := small()
		maps.DeleteFunc(files, func(name, _ string) bool {
			return kind.drop != "" && strings.HasPrefix(name, kind.drop)
		})
		at := sourcetest.Folder(t, "shop", files)
		expect.That(t, fmt.Sprint(Reader.Find(at.Tree)) == "[shop.graph.yml]", "%v", Reader.Find(at.Tree))
		notes := []string{`"age" is float64: 1 number is missing, and NaN`,
			"buys.edge.yml: not stored, since edges have numbers alone: why (text)"}
		sourcetest.Reads(t, Reader, at.In("shop.graph.yml"), source.Request{}, spelled+kind.list, notes...)
		single := source.Local(filepath.Join(at.Path(), "shop.graph.yml"))
		sourcetest.Reads(t, Reader, single, source.Request{}, spelled+kind.list, notes...)
		expect.That(t, len(Reader.Find(single.Tree)) == 1, "%v", Reader.Find(single.Tree))
	}
}

// with returns the shop with texts in place of others: file, old and new, one after the other; old "" is all of a file,
// and a new "-" removes it.
func with(t *testing.T, changes ...string) map[string]string {
	files := small()
	for ; len(changes) > 0; changes = changes[3:] {
		name, old, text := changes[0], changes[1], changes[2]
		switch {
		case text == "-":
			delete(files, name)
			continue
		case old == "":
			files[name] = text
			continue
		}
		expect.Ensure(t, strings.Contains(files[name], old), "no %q in %s", old, name)
		files[name] = strings.Replace(files[name], old, text, 1)
	}
	return files
}

// faults are what may be wrong with it, and where.
var faults = []struct {
	change     []string
	in, column string
	row        int64
	says       string
}{
	{[]string{"shop.graph.yml", "gar/v1", "gar/v2"}, "shop.graph.yml", "", -1, `"gar/v2", and gar/v1 is read`},
	{[]string{"shop.graph.yml", "gar/v1", "gar/v11"}, "shop.graph.yml", "", -1, `"gar/v11", and gar/v1 is read`},
	{[]string{"user.vertex.yml", "gar/v1", "gar/v2"}, "user.vertex.yml", "", -1, `"gar/v2", and gar/v1 is read`},
	{[]string{"shop.graph.yml", "edges: [buys.edge.yml]", "edges: []"}, "shop.graph.yml", "", -1,
		"it names no vertices, or no edges"},
	{[]string{"user.vertex.yml", "", "-"}, "user.vertex.yml", "", -1, "and NAME.graph.yml names it"},
	{[]string{"user.vertex.yml", "chunk_size: 2", "chunk_size: 0"}, "user.vertex.yml", "", -1, "a chunk_size of 0"},
	{[]string{"user.vertex.yml", "chunk_size: 2", "chunk_size: two"}, "user.vertex.yml", "", -1, "cannot unmarshal"},
	{[]string{"user.vertex.yml", "name: age", "name: id"}, "user.vertex.yml", "", -1, `"id" is there twice`},
	{[]string{"item.vertex.yml", "type: item", "type: user"}, "item.vertex.yml", "", -1, `"user" is there twice`},
	{[]string{"shop.graph.yml", "[buys.edge.yml]", "[buys.edge.yml, buys.edge.yml]"}, "buys.edge.yml", "", -1,
		"the edge type is there twice"},
	{[]string{"buys.edge.yml", "dst_type: item", "dst_type: thing"}, "buys.edge.yml", "", -1,
		`there is no vertex type "thing"; name its YAML under vertices`},
	{[]string{"buys.edge.yml", "edge_type: buys\n", ""}, "buys.edge.yml", "", -1, "the edge type lacks src_type"},
	{[]string{"buys.edge.yml", "src_type: user\n", ""}, "buys.edge.yml", "", -1, "the edge type lacks src_type"},
	{[]string{"buys.edge.yml", "chunk_size: 2", "chunk_size: 0"}, "buys.edge.yml", "", -1,
		"chunks of 0 edges, 2 and 10"},
	{[]string{"buys.edge.yml", "dst_chunk_size: 10", "dst_chunk_size: 0"}, "buys.edge.yml", "", -1, "2 and 0 vertices"},
	{[]string{"buys.edge.yml", "src_chunk_size: 2", "src_chunk_size: 1125899906842625"}, "buys.edge.yml", "", -1,
		"chunks of 2 edges, 1125899906842625 and 10 vertices"},
	{[]string{"buys.edge.yml", "src, file_type: csv", "src, file_type: orc", "buys.edge.yml", "dst, file_type: csv",
		"dst, file_type: json"}, "buys.edge.yml", "", -1,
		`its adjacency lists are in files of the type "orc", and parquet`},
	{[]string{"buys.edge.yml", "adj_lists:", "lists:"}, "buys.edge.yml", "", -1, `are in files of the type "none"`},
	{[]string{byUser + "edge_count0", "", "-", byUser + "vertex_count", "", "-", byItem + "edge_count0", "", "-",
		byItem + "vertex_count", "", "-"}, byItem + "edge_count0", "", -1, "there is no such file; copy all"},
	{[]string{"buys.edge.yml", "aligned_by: dst", "aligned_by: other", byItem + "edge_count0", "", "-"},
		"buys.edge.yml",
		"", -1, `an adjacency list is aligned by "other"`},
	{[]string{"buys.edge.yml", "dst_chunk_size: 10", "dst_chunk_size: 1", byItem + "edge_count0", "", count(most),
		byItem + "edge_count1", "", count(1)}, byItem + "edge_count1", "", -1,
		"there are 1125899906842625 edges so far"},
	{[]string{"user.vertex.yml", "chunk_size: 2", "chunk_size: 2\nlabels: [vip]", "vertex/user/labels/chunk0", "",
		"PAR1"},
		"user.vertex.yml", "", -1, `labels: the property "vip" is there twice`},
	{[]string{"user.vertex.yml", "chunk_size: 2", "chunk_size: 2\nlabels: [a]", "vertex/user/labels/chunk0", "",
		"PAR1"},
		"vertex/user/labels/chunk1", "", -1, "there is no such file"},
	{[]string{"buys.edge.yml", "aligned_by: dst", "aligned_by: edge"}, "buys.edge.yml", "", -1, `aligned by "edge"`},
	{[]string{"user.vertex.yml", "file_type: csv, prefix", "file_type: orc, prefix"}, "user.vertex.yml", "", -1,
		`the property group "more/" is in files of the type "orc", and parquet and csv are read; write the graph by`},
	{[]string{"item.vertex.yml", "csv", "json"}, "item.vertex.yml", "", -1, `"json", and parquet and csv are read`},
	{[]string{"item.vertex.yml", "csv", "parquet"}, "item/price/chunk0", "", -1, "where a Parquet file is wanted"},
	{[]string{"vertex/user/vertex_count", "", "-"}, "vertex/user/vertex_count", "", -1, "there is no such file"},
	{[]string{"vertex/user/vertex_count", "", "3"}, "vertex/user/vertex_count", "", -1, "8 bytes, and this has 1"},
	{[]string{"vertex/user/vertex_count", "", count(-1)}, "vertex/user/vertex_count", "", -1, "a count of -1"},
	{[]string{"vertex/user/vertex_count", "", count(4)}, "vertex/user/id/chunk1", "", -1,
		"the chunk has 1 row, and by vertex_count it has 2; write the chunk or its count again"},
	{[]string{"vertex/user/vertex_count", "", count(5)}, "vertex/user/id/chunk2", "", -1, "there is no such file"},
	{[]string{"vertex/user/vertex_count", "", count(2)}, "vertex/user/id/chunk1", "", -1,
		"the chunk is beyond the 1 that vertex_count asks for"},
	{[]string{"vertex/user/more/chunk1", "", "-"}, "vertex/user/more/chunk1", "", -1, "there is no such file"},
	{[]string{"vertex/user/id/chunk1", "2,30", "1,30"}, "vertex/user/id/chunk1", "_graphArVertexIndex", 2,
		"is 1, in row 2 of all; write the rows in the order"},
	{[]string{"vertex/user/id/chunk1", "2,30", "2,x"}, "vertex/user/id/chunk1", "id", 2, `"x" is not a whole number`},
	{[]string{"vertex/user/id/chunk1", "2,30", "2,"}, "vertex/user/id/chunk1", "id", 2, "where there must be one"},
	{[]string{"vertex/user/more/chunk1", ",9,", ",3000000000,"}, "vertex/user/more/chunk1", "age", 2, "beyond int32"},
	{[]string{"vertex/user/more/chunk1", ",false", ",yes"}, "vertex/user/more/chunk1", "vip", 2,
		`"yes" is not true or false`},
	{[]string{"vertex/user/more/chunk1", "2001-02-04", "12"}, "vertex/user/more/chunk1", "born", 2, "is no date"},
	{[]string{"user.vertex.yml", "name: age", "name: years"}, "vertex/user/more/chunk0", "", -1,
		`there is no column "years"; there are: "_graphArVertexIndex", "name", "age"`},
	{[]string{byItem + "edge_count0", "", count(3), byItem + "offset/chunk0", "", "-"},
		byItem + "adj_list/part0/chunk1", "", -1,
		"the chunk has 2 rows, and by edge_count0 it has 1"},
	{[]string{byItem + "edge_count0", "", count(5)}, byItem + "adj_list/part0/chunk2", "", -1, "no such file"},
	{[]string{byItem + "edge_count0", "", count(2)}, byItem + "adj_list/part0/chunk1", "", -1, "beyond the 1 that"},
	{[]string{byItem + "edge_count0", "", "-"}, byItem + "edge_count0", "", -1, "there is no such file"},
	{[]string{byItem + "edge_count1", "", count(0)}, byItem + "edge_count1", "", -1, "the part is beyond the 1 that"},
	{[]string{byItem + "vertex_count", "", count(3)}, byItem + "vertex_count", "", -1,
		`there are 3 vertices, and "item" has 2; write the count again`},
	{[]string{byItem + "n/part0/chunk1", "8\n", ""}, byItem + "n/part0/chunk1", "", -1, "1 row, and by edge_count0"},
	{[]string{byItem + "n/part0/chunk1", "8", "x"}, byItem + "n/part0/chunk1", "n", 3, `"x" is not a whole number`},
	{[]string{byItem + "at_why/part0/chunk1", "1969-12-31 23", "1969"}, byItem + "at_why/part0/chunk1", "at", 3,
		"is no date"},
	{[]string{byItem + "adj_list/part0/chunk1", "1,1", "3,1"}, byItem + "adj_list/part0/chunk1", srcIndex, 3,
		`3 is not a node of "user", of which there are 3`},
	{[]string{byItem + "adj_list/part0/chunk1", "1,1", "1,-1"}, byItem + "adj_list/part0/chunk1", dstIndex, 3,
		`-1 is not a node of "item"`},
	{[]string{byItem + "adj_list/part0/chunk1", "1,1", ",1"}, byItem + "adj_list/part0/chunk1", srcIndex, 3,
		"the id is missing"},
	{[]string{byItem + "offset/chunk0", "0\n", "1\n"}, byItem + "offset/chunk0", offsets, -1,
		"offset 0 of the part is 1"},
	{[]string{byItem + "offset/chunk0", "3\n", "5\n"}, byItem + "offset/chunk0", offsets, -1, "of 4 edges"},
	{[]string{byItem + "offset/chunk0", "4\n", "2\n"}, byItem + "offset/chunk0", offsets, -1, "is 2, behind 3"},
	{[]string{byItem + "offset/chunk0", "4\n", "3\n"}, byItem + "offset/chunk0", offsets, -1,
		"there are 3 offsets up to 3, for 2 vertices and 4 edges; write the adjacency list again"},
	{[]string{byItem + "offset/chunk0", "3\n4\n", "4\n"}, byItem + "offset/chunk0", offsets, -1, "there are 2 offsets"},
}

// A fault is an error that names the file, the column and row if there is one, and what to do.
func TestWhatIsWrongWithAGraphIsNamed(t *testing.T) {
	for _, c := range faults {
		at := sourcetest.Folder(t, "shop", with(t, c.change...))
		g, err := Reader.Read(context.Background(), at.In("shop.graph.yml"), &source.Request{})
		if err == nil {
			err = errors.Join(readAll(g), g.Close())
		}
		var e *formats.Error
		expect.Ensure(t, errors.As(err, &e), "%q: %v", c.change, err)
		expect.That(t, e.Path == filepath.Join(at.Path(), c.in) && e.Column == c.column && e.Row == c.row &&
			strings.Contains(err.Error(), c.says), "%q: %s, column %q, row %d: %v; want %s", c.change, e.Path, e.Column,
			e.Row, err, c.says)
	}
}

// readAll reads all that a graph has.
func readAll(g *source.Graph) error {
	for _, n := range g.Nodes {
		for _, c := range n.Columns {
			if err := c.Write(context.Background(), new(bytes.Buffer)); err != nil {
				return err
			}
		}
		for _, s := range n.Strings {
			if err := s.Each(func(string) error { return nil }); err != nil {
				return err
			}
		}
	}
	return g.Edges.Each(func(source.Batch) error { return nil })
}

// What a graph has that a dataset has not is noted, and so is what older writers leave out.
func TestWhatAGraphLosesIsSaid(t *testing.T) {
	for _, c := range []struct {
		change []string
		lost   bool
		says   string
	}{
		{[]string{"shop.graph.yml", "name: shop", "name: shop\nextra_info: [{key: a, value: b}]"}, true,
			`"extra_info" is not stored`},
		{[]string{"shop.graph.yml", "name: shop", "name: shop\ncolour: red"}, true,
			`shop.graph.yml: fields that are not known are left out: "colour"`},
		{[]string{"user.vertex.yml", "is_primary: true", "is_primary: true, unit: m, hue: 1", "user.vertex.yml",
			"data_type: bool", "data_type: bool, unit: s"}, true,
			`user.vertex.yml: fields that are not known are left out: "hue", "unit"`},
		{[]string{"shop.graph.yml", "name: shop", "name: shop\nprefix: s3://bucket/shop"}, false,
			"are looked for beside"},
		{[]string{"shop.graph.yml", "name: shop", "name: shop\nprefix: /tmp/shop/"}, false,
			`files are looked for beside`},
		{[]string{"user.vertex.yml", "data_type: int32", "data_type: colour"}, true,
			`"age" is left out: it is of the type "colour", which is not known`},
		{[]string{"user.vertex.yml", ", {name: vip, data_type: bool}", ""}, true,
			`user.vertex.yml: not stored, since it does not name them: "vip"`},
		{[]string{"user.vertex.yml", "chunk_size: 2", "chunk_size: 2\nlabels: [a, b]"}, true,
			"its labels are left out"},
		{[]string{"user.vertex.yml", "data_type: string", "data_type: string, cardinality: list"}, true,
			"neither numbers nor texts: name (lists in CSV"},
		{[]string{"buys.edge.yml", "directed: true\n", ""}, false,
			`nothing says whether the edges "buys" are directed`},
		{[]string{"buys.edge.yml", "directed: true", "directed: false"}, false, `"buys" are undirected, and stored as`},
		{[]string{byItem + "offset/chunk0", "", "-"}, false, "the offsets of 1 part are not there, and not needed"},
	} {
		at := sourcetest.Folder(t, "shop", with(t, c.change...))
		g := expect.Must(Reader.Read(context.Background(), at.In("shop.graph.yml"), &source.Request{}))(t)
		said := source.Text(g.Notes)
		expect.That(t, strings.Contains(said, c.says), "%q: %s", c.change, said)
		lost := slices.IndexFunc(g.Notes, func(n source.Note) bool {
			return strings.Contains(n.Text, c.says) && n.Change == source.LeftOut && n.Count > 0
		})
		expect.That(t, (lost >= 0) == c.lost, "%q: %+v", c.change, g.Notes)
		if strings.Contains(c.says, "colour") && strings.Contains(c.says, "age") {
			expect.That(t, len(g.Nodes[0].Columns) == 3, "%d columns beside the unknown", len(g.Nodes[0].Columns))
		}
		expect.OK(t, readAll(g), g.Close())
	}
}

// Older YAMLs call types labels, and have the groups of properties of an edge at its lists.
func TestOlderNamesAreRead(t *testing.T) {
	files := with(t, "user.vertex.yml", "type: user", "label: user", "buys.edge.yml", "src_type", "src_label",
		"buys.edge.yml", "edge_type", "edge_label", "buys.edge.yml", "dst_type", "dst_label")
	files["item.vertex.yml"] += "label: other\n" // new names go before old
	list, groups, _ := strings.Cut(files["buys.edge.yml"], "property_groups:\n")
	files["buys.edge.yml"] = strings.Replace(list, "prefix: to/}", "prefix: to/, property_groups: ["+
		strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(groups), "- ", ""), "\n", ", ")+"]}", 1)
	at := sourcetest.Folder(t, "shop", files)
	sourcetest.Reads(t, Reader, at.In("shop.graph.yml"), source.Request{}, spelled+toItem)
}

// New names of the ends of edges go before old ones.
func TestNewNamesGoBeforeOld(t *testing.T) {
	files := with(t, "buys.edge.yml", "directed: true", "directed: true\nsrc_label: a\nedge_label: b\ndst_label: c")
	at := sourcetest.Folder(t, "shop", files)
	sourcetest.Reads(t, Reader, at.In("shop.graph.yml"), source.Request{}, spelled+toItem)
}

// A graph is known by its YAML: one that is called so, or that somebody names and that has lists of vertices.
func TestGraphsAreFoundByTheirYAML(t *testing.T) {
	for _, c := range []struct {
		name, text string
		folder     bool // found in a folder
		single     bool // found if it is named
	}{
		{"a.graph.yml", shop, true, true}, {"a.graph.yaml", shop, true, true}, {"a.yml", shop, false, true},
		{"a.yaml", shop, false, true}, {"a.json", shop, false, false}, {"a.graph.yml", "version: gar/v1\n", true, true},
		{"a.graph.yml", "edges: [e]\n", true, true}, {"a.yml", "edges: [e]\n", false, false},
		{"a.graph.yml", "name: x\n", false, false}, {"a.graph.yml", "vertices: 7\n", false, false},
	} {
		at := sourcetest.Folder(t, "g", map[string]string{c.name: c.text, "other.yml": "a: b\n"})
		found := len(Reader.Find(at.Tree)) == 1
		expect.That(t, found == c.folder, "%s of %q in a folder: %t", c.name, c.text, found)
		single := expect.Must(source.OpenTree(filepath.Join(at.Path(), c.name), nil))(t)
		found = len(Reader.Find(single)) == 1
		expect.That(t, found == c.single, "%s of %q: %t", c.name, c.text, found)
	}
	at := sourcetest.Folder(t, "g", map[string]string{"x": "y"})
	sourcetest.Refuses(t, Reader, at, "a folder", "there is no NAME.graph.yml; name the folder that has it")
}

// An edge goes both ways if all types of edges are undirected, and between vertices of one type.
func TestUndirectedEdgesGoBothWays(t *testing.T) {
	files := with(t, "buys.edge.yml", "dst_type: item", "dst_type: user", "buys.edge.yml", "directed: true",
		"directed: false", byItem+"vertex_count", "", count(3), byItem+"offset/chunk0", "4\n", "4\n4\n")
	at := sourcetest.Folder(t, "shop", files).In("shop.graph.yml")
	sourcetest.Reads(t, Reader, at, source.Request{}, spelled+strings.ReplaceAll(toItem, "item", "user")+"; undirected")
}

// parquet returns a table in Parquet, of columns with a value for each row.
func parquet(t *testing.T, fields []parquetrows.Field, rows ...[]byte) string {
	t.Helper()
	var b bytes.Buffer
	w := expect.Must(parquetrows.New(&b, fields))(t)
	expect.OK(t, w.Put(rows), w.Close())
	return b.String()
}

// Labels are columns of truths, lists of numbers are rows, and a type without rows or edges needs no files.
func TestLabelsListsAndTypesWithoutRows(t *testing.T) {
	const nine = "chunk_size: 9\nsrc_chunk_size: 4\ndst_chunk_size: 4\n"
	vector := graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{2}}
	at := sourcetest.Folder(t, "g", map[string]string{
		"g.graph.yml": "vertices: [a.yml, b.yml]\nedges: [e.yml, f.yml]\nversion: gar/v1 (mine)\n",
		"a.yml": "type: a\nchunk_size: 4\nlabels: [red, blue]\nproperty_groups:\n" +
			"- {file_type: parquet, properties: [{name: feature, data_type: list<float>}]}\n",
		"b.yml": "type: b\nchunk_size: 4\nproperty_groups:\n" +
			"- {file_type: parquet, properties: [{name: x, data_type: double}, {name: l, data_type: list<int64>}, " +
			"{name: many, data_type: list<string>}]}\n",
		"e.yml": "src_type: a\nedge_type: e\ndst_type: a\ndirected: true\n" + nine +
			"adj_lists: [{ordered: false, aligned_by: dst, file_type: parquet}]\n",
		"f.yml": "src_type: b\nedge_type: f\ndst_type: b\ndirected: true\n" + nine +
			"adj_lists: [{ordered: true, aligned_by: src, file_type: parquet}]\n" +
			"property_groups: [{file_type: parquet, properties: [{name: w, data_type: float}]}]\n",
		"a/vertex_count": count(2), "b/vertex_count": count(0),
		"a/feature/chunk0": parquet(t, []parquetrows.Field{parquetrows.Number(vertexIndex), {Column: vector}},
			unified.FromSlice([]int64{0, 1}).Bytes(), unified.FromSlice([]float32{1, 2, 3, 4}).Bytes()),
		"a/labels/chunk0": parquet(t, []parquetrows.Field{
			{Column: graph.Column{Name: "red", DType: unified.Uint8}, Mask: true},
			{Column: graph.Column{Name: "blue", DType: unified.Uint8}, Mask: true}}, []byte{1, 0}, []byte{1, 1}),
		"a_e_a/unordered_by_dest/edge_count0": count(1),
		"a_e_a/unordered_by_dest/adj_list/part0/chunk0": parquet(t, []parquetrows.Field{parquetrows.Number(srcIndex),
			parquetrows.Number(dstIndex)}, unified.FromSlice([]int64{1}).Bytes(),
			unified.FromSlice([]int64{0}).Bytes()),
		"b_f_b/ordered_by_source/vertex_count": count(0),
	})
	sourcetest.Reads(t, Reader, at.In("g.graph.yml"), source.Request{}, "2 a; feature float32[2]: [1,2,3,4]; "+
		"red uint8[]: [1,0]; blue uint8[]: [1,1]; 0 b; x float64[]: []; edge w float32[]; a:e:a 1>0:NaN; b:f:b",
		"l (lists, of which there are none), many (lists")
}

// Properties keep their names: labels are whole numbers that are called "label", splits are masks, and other names that
// have a part in other tables have none.
func TestPropertiesHaveNoPartByOtherNames(t *testing.T) {
	files := with(t, "user.vertex.yml", "", "type: user\nchunk_size: 9\nprefix: vertex/user/\nproperty_groups:\n"+
		"- {file_type: csv, prefix: p, properties: [{name: label, data_type: int32}, {name: y, data_type: double}, "+
		"{name: split, data_type: string}, {name: x, data_type: list<float>}, {name: train_mask, data_type: bool}, "+
		"{name: time, data_type: int64}]}\n", "vertex/user/p/chunk0", "", "label,y,split,x,train_mask,time\n"+
		"1,0.5,a,1 2,true,7\n0,-1,b,3 4,false,8\n2,0,,5 6,true,9\n", "buys.edge.yml", "{name: n,", "{name: timestamp,",
		byItem+"n/part0/chunk0", "n", "timestamp", byItem+"n/part0/chunk1", "n", "timestamp", "buys.edge.yml",
		"properties: [{name: timestamp", "prefix: n, properties: [{name: timestamp")
	at := sourcetest.Folder(t, "shop", files)
	sourcetest.Reads(t, Reader, at.In("shop.graph.yml"), source.Request{}, "3 user, 3 classes; "+
		"label int64[]: [1,0,2]; y float64[]: [0.5,-1,0]; x float32[2]: [1,2,3,4,5,6]; time int64[]: [7,8,9]; "+
		"split: [\"a\" \"b\" \"\"]; 2 item; price float32[]: [1,0.10000000149011612]; edge timestamp int64[]; "+
		"edge at int64[]us; "+toItem+
		"; train 0 of user: [0 2]")
}

// A count of vertices without properties is bounded by the edges.
func TestVerticesWithoutPropertiesAreBounded(t *testing.T) {
	files := with(t, "item.vertex.yml", "", "type: item\nchunk_size: 1125899906842624\n", "item/vertex_count", "",
		count(most), byItem+"vertex_count", "", "-", byItem+"edge_count0", "", "-")
	at := sourcetest.Folder(t, "shop", files)
	sourcetest.Refuses(t, Reader, at.In("shop.graph.yml"), "vertices",
		"item/vertex_count: there are 1125899906842624 vertices without a property, but only 4 edges")
}

// uneven is a graph of many rows, whose groups of properties lie in files of other lengths than those beside them.
func uneven(rows int) map[string]string {
	const list = "e_/unordered_by_source/"
	files := map[string]string{"g.graph.yml": "vertices: [v.yml]\nedges: [e.yml]\n",
		"v/vertex_count": count(int64(rows)),
		"v.yml": "type: n\nprefix: v\nchunk_size: 4096\nproperty_groups:\n- {file_type: csv, prefix: i, properties: " +
			"[{name: id, data_type: int32}]}\n",
		"e.yml": "src_type: n\nedge_type: e\ndst_type: n\nprefix: e_\nchunk_size: 4096\nsrc_chunk_size: 40000\n" +
			"dst_chunk_size: 40000\nadj_lists: [{ordered: false, aligned_by: src, file_type: csv}]\nproperty_groups: " +
			"[{file_type: csv, prefix: w, properties: [{name: weight, data_type: double}, " +
			"{name: at, data_type: date}]}]\n",
		list + "edge_count0": count(int64(rows))}
	for lo := 0; lo < rows; lo += 4096 {
		var ids, weights strings.Builder
		var pairs [2]strings.Builder // a file of 1000 rows, and one of the others
		for i := lo; i < min(lo+4096, rows); i++ {
			fmt.Fprintln(&ids, i*3)
			fmt.Fprintf(&pairs[min((i-lo)/1000, 1)], "%d,%d\n", i*7%rows, i)
			day := fmt.Sprintf("2001-01-%02d", 1+i%20)
			if i%7 == 0 {
				day = ""
			}
			fmt.Fprintf(&weights, "%d,%s\n", i, day)
		}
		chunk := fmt.Sprint("chunk", lo/4096)
		files["v/i/"+chunk], files[list+"w/part0/"+chunk] = "id\n"+ids.String(), "weight,at\n"+weights.String()
		for k := range pairs {
			files[fmt.Sprint(list, "adj_list/part0/", chunk, "/", k)] = ends + pairs[k].String()
		}
	}
	return files
}

// Tables side by side are read in step, whatever their files and batches are, and an error names its file.
func TestTablesSideBySideAreReadInStep(t *testing.T) {
	const rows, day = 40_000, 86_400_000_000
	files := uneven(rows)
	at := sourcetest.Folder(t, "g", files)
	g := expect.Must(Reader.Read(context.Background(), at.In("g.graph.yml"), &source.Request{}))(t)
	seen := int64(0)
	expect.OK(t, g.Edges.Each(func(b source.Batch) error {
		for i := range b.Src {
			weight, date := unified.Float64.Float(b.Columns[0][8*i:]), int64(978307200_000_000)+seen%20*day
			if seen%7 == 0 {
				date = source.NoTime
			}
			expect.Ensure(t, b.Src[i] == seen*7%rows && b.Dst[i] == seen && weight == float64(seen) &&
				unified.Int64.Integer(b.Columns[1][8*i:]) == date, "edge %d: %d>%d, %v", seen, b.Src[i], b.Dst[i],
				weight)
			seen++
		}
		return nil
	}))
	expect.That(t, seen == rows && g.Nodes[0].Count == rows, "%d edges, %d nodes", seen, g.Nodes[0].Count)
	stop := errors.New("stop")
	err := g.Edges.Each(func(source.Batch) error { return stop })
	expect.That(t, errors.Is(err, stop), "%v", err)
	expect.OK(t, readAll(g), g.Close())

	const bad = "e_/unordered_by_source/w/part0/chunk2"
	files[bad] = strings.Replace(files[bad], "11000,2001", "-11000,2001", 1)
	at = sourcetest.Folder(t, "g", files)
	g = expect.Must(Reader.Read(context.Background(), at.In("g.graph.yml"), &source.Request{}))(t)
	var e *formats.Error
	err = readAll(g)
	expect.That(t, errors.As(err, &e) && e.Path == filepath.Join(at.Path(), bad) && e.Column == "weight" &&
		e.Row == 2+11000-2*4096, "%v", err)
	expect.OK(t, g.Close())
}
