package tables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// header is a first line of n columns: src, dst, and numbers.
func header(n int) string {
	var b strings.Builder
	b.WriteString("src,dst")
	for i := 2; i < n; i++ {
		fmt.Fprintf(&b, ",%d", i)
	}
	return b.String() + "\n"
}

// TestRefusalsSayWhatIsWrongAndWhatIsAllowed has a line for each refusal that other tests leave out. "" is no refusal.
func TestRefusalsSayWhatIsWrongAndWhatIsAllowed(t *testing.T) {
	const plain, edge = "edges: {e: e.csv}", "src,dst\n0,1\n"
	const two = "edges: {e: {file: [a.csv, e.csv]}}"
	node := func(of string) string { return "nodes: {a: {file: a.csv, " + of + "}}\nedges: {e: e.csv}" }
	for _, c := range []struct{ mapping, a, e, says string }{
		{plain, "", header(columnar.MaxFields + 1), "e.csv: not a table, or a damaged one: 16385 columns; the file " +
			"is cut short or damaged, or written in a way that is not supported: write it again"},
		{plain, "", "PARE1234", "e.csv: an encrypted Parquet file, which is not read: decrypt it first"},
		{plain, "", "FEA11234", "e.csv: a file of Feather 1, which is not read: write it as version 2, or as Parquet"},
		{two, edge, "src,dst,w\n0,1,2\n", "e.csv: there are 3 columns, and 2 in the first file, "},
		{two, edge, "src,to\n0,1\n", `e.csv: column 1 is "to", and "dst" in the first file`},
		{two, "src,dst,w\n0,1,2\n", "src,dst,w\n0,1,2 3\n", `column "w" is lists of 2 float32, and int64 in the first`},
		{two, "src,dst,w\n0,1,2\n", "src,dst,w\n0,1,2.5\n", ""},
		{"edges: {e: {file: '[.csv'}}", "", edge, `m.yaml: the pattern "[.csv": syntax error in pattern`},
		{"edges: {e: {file: []}}", "", edge, `edges "e" have no file`},
		{"nodes: {a: {count: 2}}", "", edge, "the mapping has no edges, and no keys that make some"},
		{"nodes: {a: {count: 3, keys: {k: b}}}\nedges: {e: e.csv}", "", edge, `nodes "a" have keys, but no file`},
		{"edges: {e: {}}", "", edge, `edges "e" have no file`},
		{"edges: {'a:e:a': e.csv, e: {file: e.csv, source: a, target: a}}", "", edge,
			"the edge type a:e:a is there twice: name one of them otherwise"},
		{"edges: {e: {file: e.csv, reverse: e}}", "", edge, "the edge type node:e:node is there twice"},
		{plain + "\n---\n" + plain, "", edge, "the mapping goes on after its end"},
		{"edges: {e: {file: e.csv, src: [1]}}", "", edge, "line 1"},
		{"edges: {e: [[e.csv]]}", "", edge, "line 1"},
		{plain + "\n#" + strings.Repeat("x", 1<<20), "", edge, "it is longer than 1048576 bytes"},
		{node("features: t"), "t\nx\ny\n", edge, `a.csv: column "t": is text, which cannot be a part of features`},
		{node("features: none"), "t\n1\n2\n", edge, `a.csv: there is no column "none"; there are: "t"`},
		{node("count: 3"), "t\n1\n2\n", edge, "a.csv: there are 2 rows, and the mapping says 3"},
		{node("count: 2"), "t\n1\n2\n", edge, ""},
		{node("id: none"), "t\n1\n2\n", edge, `a.csv: there is no column "none"`},
		{node("id: t"), "t\n1 2\n2 3\n", edge, `a.csv: column "t": is a list, not an id`},
		{node("split: t"), "t\n1\n2\n", edge, `a.csv: column "t": a split is named: train, val or test`},
		{node("split: none"), "t\n1\n2\n", edge, `a.csv: there is no column "none"`},
		{node("label: none"), "t\n1\n2\n", edge, `a.csv: there is no column "none"`},
		{node("time: none"), "t\n1\n2\n", edge, `a.csv: there is no column "none"`},
		{node("columns: [none]"), "t\n1\n2\n", edge, `a.csv: there is no column "none"`},
		{"edges: {e: {file: e.csv, columns: [none]}}", "", edge, `e.csv: there is no column "none"`},
		{"edges: {e: {file: e.csv, features: [none]}}", "", edge, `e.csv: there is no column "none"`},
		{plain, "", "src,dst\n1 2,2 3\n", `e.csv: say by "src" which column has the ids; there are: "src", "dst"`},
		{"edges: {e: {file: e.csv, src: src, dst: dst}}", "", "src,dst\n1 2,2 3\n",
			`e.csv: column "src": is a list, not an id`},
		{plain, "", "src,dst,dst\n0,1,2\n", ""},
		{"edges: {e: {file: e.csv, weight: w}}", "", "src,dst,w,w\n0,1,2,3\n", ""},
		{plain, "", "src,dst,w\n0,1,1 2\n1,0,1 2 3\n", ""},
	} {
		at := sourcetest.Folder(t, "g", map[string]string{"m.yaml": c.mapping, "a.csv": c.a, "e.csv": c.e}).In("m.yaml")
		g, err := Reader.Read(context.Background(), at, &source.Request{})
		if err == nil {
			err = errors.Join(g.Edges.Each(func(source.Batch) error { return nil }), g.Close())
		}
		var within *formats.Error
		if c.says == "" && err == nil {
			continue
		}
		expect.That(t, c.says != "" && err != nil && strings.Contains(err.Error(), c.says) && errors.As(err, &within),
			"%.120s, %.80q, %.80q:\ngot  %.300v\nwant %q", c.mapping, c.a, c.e, err, c.says)
	}
}

func TestATableHasAsManyColumnsAsItMay(t *testing.T) {
	at := sourcetest.Folder(t, "g", map[string]string{"e.csv": header(columnar.MaxFields)}).In("e.csv")
	p, err := openPart(context.Background(), at, Format{}, &source.Request{})
	expect.That(t, err == nil && len(p.Fields()) == columnar.MaxFields, "%v", err)
}
