package tables

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

const library = `
nodes:
  paper:
    file: papers{}
    id: paper_id
    features: emb
    label: venue
    columns: [pages, score, title]
    keys:
      main_author: {to: author, relation: by, reverse: wrote}
  author: authors{}
edges:
  cites: {file: "cites{}", src: citing, dst: cited, source: paper, target: paper, time: when, weight: strength}
  author:writes:paper: {file: "writes{}"}
`

// mapping writes a mapping beside a copy of the tables of testdata, and returns its place.
func mapping(t testing.TB, dir, text string) source.Place {
	t.Helper()
	expect.OK(t, os.WriteFile(filepath.Join(dir, "graph.yaml"), []byte(text), 0o600))
	tree := expect.Must(source.OpenTree(dir, nil))(t)
	return tree.At("graph.yaml")
}

// read reads a graph and spells it.
func read(t testing.TB, at source.Place) (string, *source.Graph) {
	t.Helper()
	ledger := sourcetest.Limited(64 << 20)
	g := expect.Must(Reader.Read(context.Background(), at, &source.Request{Budget: &source.Budget{Memory: ledger,
		Dir: t.TempDir()}}))(t)
	text := sourcetest.Spell(t, g)
	t.Cleanup(func() {
		expect.OK(t, g.Close())
		if n := ledger.Used(pinned.Sources); n > 1<<10 { // splits, which are the graph's
			t.Errorf("%d bytes are still counted", n)
		}
	})
	return text, g
}

// TestADraftOfAMappingIsOne: it names each table that is there, ids, keys and times, and reads as it is.
func TestADraftOfAMappingIsOne(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"authors", "papers"} {
		data := expect.Must(os.ReadFile(filepath.Join("testdata", name+".arrow")))(t)
		expect.OK(t, os.WriteFile(filepath.Join(dir, name+".arrow"), data, 0o600))
	}
	columns := arrow.NewSchema([]arrow.Field{{Name: "user_id", Type: arrow.BinaryTypes.String},
		{Name: "paper_id", Type: arrow.BinaryTypes.String}, {Name: "at", Type: arrow.FixedWidthTypes.Timestamp_s}}, nil)
	f := expect.Must(os.Create(filepath.Join(dir, "users.arrow")))(t)
	w := expect.Must(ipc.NewFileWriter(f, ipc.WithSchema(columns)))(t)
	expect.OK(t, w.Close(), f.Close())
	tree := expect.Must(source.OpenTree(dir, nil))(t)
	expect.That(t, len(Reader.Find(tree)) == 0, "found without a mapping: %v", Reader.Find(tree))
	text := expect.Must(Draft(context.Background(), tree, &source.Request{}))(t)
	for _, says := range []string{`"authors": {file: "authors.arrow", id: "id"}`,
		`"papers": {file: "papers.arrow", id: "paper_id"}`,
		`"users": {file: "users.arrow", id: "user_id", time: "at", keys: {"paper_id": "papers"}}`} {
		expect.That(t, strings.Contains(text, says), "no %s in\n%s", says, text)
	}
	at := mapping(t, dir, text)
	expect.That(t, slices.Equal(Reader.Find(at.Tree), []string{"graph.yaml"}), "the draft is not found:\n%s", text)
	g := expect.Must(Reader.Read(context.Background(), at, &source.Request{Budget: &source.Budget{
		Memory: &pinned.Ledger{}, Dir: t.TempDir()}}))(t)
	expect.OK(t, g.Close())
}

// TestADraftOfTextsKnowsKeysTimesAndParts: CSV, keys in one word, several files of a table, and what is no id.
func TestADraftOfTextsKnowsKeysTimesAndParts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"users.csv":                    "userId,name,createdAt\n1,ann,2024-01-01\n2,bob,2024-01-02\n",
		"categories.tsv":               "id\tname\n5\ta\n",
		"orders-0.csv":                 "orderId,userId,categoryID,at\n100,1,5,2024-01-05 10:00:00\n",
		"orders-1.csv":                 "orderId,userId,categoryID,at\n101,2,5,2024-01-06 10:00:00\n",
		"visits/part-00000-a1b2-c.csv": "user_id,page\n1,7\n1,7\n",
		"visits/part-00001-a1b2-c.csv": "user_id,page\n2,7\n",
		"x1.csv":                       "a,b\n1,2\n", "x2.csv": "c,d\n1,2\n", "bare.csv": "1,2\n3,4\n",
	} {
		expect.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	tree := expect.Must(source.OpenTree(dir, nil))(t)
	request := &source.Request{Budget: &source.Budget{Memory: &pinned.Ledger{}, Dir: t.TempDir()}}
	text := expect.Must(Draft(context.Background(), tree, request))(t)
	for _, says := range []string{`"users": {file: "users.csv", id: "userId", time: "createdAt"}`,
		`"categories": {file: "categories.tsv", id: "id"}`,
		`"orders": {file: "orders-*.csv", id: "orderId", time: "at", ` +
			`keys: {"userId": "users", "categoryID": "categories"}}`,
		`"visits": {file: "visits/part-*.csv", keys: {"user_id": "users"}}`, `"x1": {file: "x1.csv"}`,
		`"x2": {file: "x2.csv"}`} {
		expect.That(t, strings.Contains(text, says), "no %s in\n%s", says, text)
	}
	expect.That(t, !strings.Contains(text, "bare"), "a file without a header:\n%s", text)
	g := expect.Must(Reader.Read(context.Background(), mapping(t, dir, text), &source.Request{Budget: &source.Budget{
		Memory: &pinned.Ledger{}, Dir: t.TempDir()}}))(t)
	expect.That(t, len(g.Types) == 3 && g.Nodes[1].Count == 2, "%v", g.Types)
	expect.OK(t, g.Close())
}

// TestTheSameTablesAreTheSameGraph: however rows are stored, cut into files, groups, pages and batches.
func TestTheSameTablesAreTheSameGraph(t *testing.T) {
	want, dir := "", t.TempDir()
	expect.OK(t, os.CopyFS(dir, os.DirFS("testdata")))
	for _, ext := range []string{".snappy.parquet", ".zstd.parquet", ".?.parquet", ".arrow", ".arrows", ".csv"} {
		at := mapping(t, dir, strings.ReplaceAll(library, "{}", ext))
		found := Reader.Find(at.Tree)
		expect.That(t, len(found) == 1 && found[0] == "graph.yaml", "found %v", found)
		got, g := read(t, at)
		if want == "" {
			want = got
		}
		expect.That(t, got == want, "%s:\n%s\nwant\n%s", ext, got, want)
		notes := source.Text(g.Notes)
		expect.That(t, strings.Contains(notes, `edges "writes" have no column "time": it is -2^63`), "notes: %s",
			notes)
	}
	for _, says := range []string{"50 paper, 3 classes\n", "20 author\n", "feature float32[4]",
		"score float64[]: [0,0.25", "0.75,NaN,1.25", `id: ["P/0" "P/7" "P/14"`, "On “graphs”, part 49",
		`class: ["KDD" "ICML" "VLDB"]`,
		"  id int64[]: [5,15,25", "train 0 of paper: [0 4 5 9 ", "val 0 of paper: [1 6 ", "edge weight float64[]",
		"edge time int64[]", "paper:cites:paper 0>0:0:1e+12 43>43:0.125:1.000000000001e+12 36>22:0.25",
		"author:writes:paper 0>0:1:-9.223372036854776e+18 1>29:1:-9",
		"paper:by:author 1>1:1:-9.223372036854776e+18 2>4:1:-9", "author:wrote:paper 1>1:1:-9",
	} {
		expect.That(t, strings.Contains(want, says), "%q is not in\n%s", says, want)
	}
}

// TestATableOfEdgesNeedsNoMapping: a file alone, or edges.parquet with nodes.parquet beside it.
func TestATableOfEdgesNeedsNoMapping(t *testing.T) {
	const want = "2 node\nedge date int64[]d\nedge at int64[]ms\nedge half float16[]\nedge small uint8[]\n" +
		"edge flag uint8[]\nnode:edge:node 0>1:18000:5:3e00:1:1 1>0:18001:6:c000:255:0\n"
	for _, name := range []string{"types.parquet", "types.arrow"} {
		tree := expect.Must(source.OpenTree(filepath.Join("testdata", name), nil))(t)
		found := Reader.Find(tree)
		expect.That(t, len(found) == 1, "%s: found %v", name, found)
		got, g := read(t, tree.At(name))
		expect.That(t, got == want, "%s:\n%s\nwant\n%s", name, got, want)
		notes := source.Text(g.Notes)
		expect.That(t, strings.Contains(notes, "word (text)"), "%s: notes %q", name, notes)
	}
	beside := sourcetest.Folder(t, "g", map[string]string{"edges.csv": "src,dst\n0,1\n", "nodes.csv": "y\n1\n0\n3\n"})
	got, _ := read(t, beside.In("edges.csv"))
	expect.That(t, got == "3 node, 4 classes\n  label int64[]: [1,0,3]\n"+"node:edge:node 0>1\n", "got %s", got)
}

func TestIdsAreWhatColumnsSay(t *testing.T) {
	for _, c := range []struct{ mapping, edges, want string }{
		{"edges: {e: e.csv}", "src,dst,w\n4,1,2\n0,2,3\n", "5 node\nedge w int64[]\nnode:e:node 4>1:2 0>2:3\n"},
		{"edges: {e: e.csv}", "src;dst\nb;a\n é;b\n", "3 node\n  id: [\"b\" \"a\" \" é\"]\nnode:e:node 0>1 2>0\n"},
		{"edges: {buys: {file: e.csv, src: user, dst: item, source: user, target: item, reverse: bought}}",
			"user\titem\n1\tx\n0\ty\n", "2 user\n2 item\n  id: [\"x\" \"y\"]\nuser:buys:item 1>0 0>1\n" +
				"item:bought:user 0>1 1>0\n"},
		{"nodes: {a: {count: 9}}\nedges: {e: {file: e.csv, columns: [], weight: w}}", "src,dst,w,z\n4,1,.5,1\n",
			"9 a\nedge weight float64[]\na:e:a 4>1:0.5\n"},
		{"edges: {e: {file: e.csv, header: [src, dst, v, flag], features: [v]}}", "1,0,3 4,True\n0,0,5 6,False\n",
			"2 node\nedge feature float32[2]\nedge flag uint8[]\nnode:e:node 1>0:3,4:1 0>0:5,6:0\n"},
		{`{"edges": {"e": {"file": "e.csv", "time": "at"}}}`, "src,dst,at\n1,0,3.0\n0,0,5\n",
			"2 node\nedge time float64[]\nnode:e:node 1>0:3 0>0:5\n"},
	} {
		at := sourcetest.Folder(t, "g", map[string]string{"m.yaml": c.mapping, "e.csv": c.edges})
		got, _ := read(t, at.In("m.yaml"))
		expect.That(t, got == c.want, "%s: got\n%s\nwant\n%s", c.mapping, got, c.want)
	}
}

func TestWhatIsWrongWithTablesIsNamed(t *testing.T) {
	const nodes = "nodes: {a: {file: a.csv, id: k}}\nedges: {e: e.csv}"
	for _, c := range []struct{ mapping, a, e, says string }{
		{"nodes: {a: {fiel: a.csv}}", "", "", `"fiel" is not known here; there are: file, count, id`},
		{"edges: [1]", "", "", "line 1: edge types are wanted by name"},
		{"nodes: {a: {count: 2}, b: {count: 3}}\nedges: {e: e.csv}", "", "src,dst\n", "say which of the 2 node types"},
		{"edges: {e: f.csv}", "", "", `there is no file "f.csv"`},
		{"edges: {e: {file: e.csv, src: from}}", "", "a,dst\n1,2\n", `e.csv: there is no column "from"; there are: ` +
			`"a", "dst"`},
		{nodes, "k\nx\ny\nx\n", "src,dst\nx,y\n", `a.csv: column "k": row 4: the id "x" is there twice`},
		{nodes, "k\nx\ny\n", "src,dst\nx,y\ny,z\n", `e.csv: column "dst": row 3: "z" is not the id of a node of "a"`},
		{nodes, "k\n0\n1\n", "src,dst\n0,1\n\n1,2\n",
			`e.csv: column "dst": row 4: 2 is not a node of "a", of which there are 2`},
		{nodes, "k\n0\n1\n", "src,dst\n0,1\n,1\n", "e.csv: column \"src\": row 3: the id is missing"},
		{nodes, "k\n0\n1\n", "src,dst\n0\n", "e.csv: row 2: the row has 1 cell, and there are 2 columns"},
		{"edges: {e: e.csv}", "", "src,dst\n-1,2\n", "\"src\": row 2: -1 is negative"},
		{"edges: {e: e.csv}", "", "src,dst\n1.5,2\n", "\"src\": row 2: 1.5 is not a whole number"},
		{"edges: {e: e.csv}", "", "src,dst\n1,900000000000000\n",
			"ids of \"node\" reach 900000000000000, but there are only 1 edge; say"},
		{"edges: {e: e.csv}", "", "src,dst,weight\n0,1,1\n1,0,-2\n", "\"weight\": row 3: -2 is not a weight"},
		{"edges: {e: e.csv}", "", "src,dst,w\n0,1,9007199254740993\n1,0,\n",
			"\"w\": row 3: the number is missing"},
		{"edges: {e: {file: e.csv, delimiter: '::'}}", "", "", `the delimiter "::"`},
		{"nodes: {a: {file: a.csv, split: s}}\nedges: {e: e.csv}", "s\ntrain\nrest\n", "src,dst\n",
			`row 3: "rest" is none`},
		{"edges: {e: e.csv}", "", "src,dst\n\"" + strings.Repeat("x", 2<<20) + "\",b\n", "a record is longer"},
	} {
		at := sourcetest.Folder(t, "g", map[string]string{"m.yaml": c.mapping, "a.csv": c.a, "e.csv": c.e}).In("m.yaml")
		g, err := Reader.Read(context.Background(), at, &source.Request{})
		if err == nil {
			err = g.Edges.Each(func(source.Batch) error { return nil })
		}
		var within *formats.Error
		expect.That(t, err != nil && strings.Contains(err.Error(), c.says) && errors.As(err, &within),
			"%s, %.80q, %.80q: %v; want %q", c.mapping, c.a, c.e, err, c.says)
	}
}

// TestDamagedTablesAreErrors: bytes are changed, or the end is cut off.
func TestDamagedTablesAreErrors(t *testing.T) {
	dir, rnd := t.TempDir(), rand.New(rand.NewPCG(13, 13))
	for _, name := range []string{"cites.snappy.parquet", "cites.zstd.parquet", "papers.1.parquet", "papers.arrow",
		"papers.arrows", "types.parquet"} {
		whole := expect.Must(os.ReadFile(filepath.Join("testdata", name)))(t)
		for range 30 {
			b := bytes.Clone(whole)
			switch rnd.IntN(3) {
			case 0:
				b = b[:rnd.IntN(len(b))]
			default:
				for range 1 + rnd.IntN(4) {
					b[rnd.IntN(len(b))] = byte(rnd.Uint32())
				}
			}
			look(t, dir, name, b)
		}
	}
}

// look reads a table of edges with limited memory: it may be an error of the file, and nothing else.
func look(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	expect.OK(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	ledger := sourcetest.Limited(32 << 20)
	r := &source.Request{Budget: &source.Budget{Memory: ledger, Dir: dir}}
	m := &Mapping{Nodes: Nodes{{Type: "p", Files: Words{name}}}, Edges: Edges{{Relation: "e", Files: Words{name}}}}
	for _, key := range []string{"main_author", "dst", "cited"} {
		if bytes.Contains(b, []byte(key)) {
			m.Edges[0].Src, m.Edges[0].Dst = key, key
		}
	}
	g, err := Read(context.Background(), source.Local(filepath.Join(dir, "m.yaml")), m, r)
	if err == nil {
		err = g.Edges.Each(func(source.Batch) error { return nil })
		for _, c := range g.Nodes[0].Columns {
			err = errors.Join(err, c.Write(context.Background(), io.Discard))
		}
		err = errors.Join(err, g.Close())
	}
	var within *formats.Error
	expect.Ensure(t, err == nil || errors.As(err, &within), "%s: %v", name, err)
	n := ledger.Used(pinned.Sources)
	expect.Ensure(t, n <= 1<<12, "%s: %d bytes are still counted after %v", name, n, err)
}

// TestATableStopsAndKeepsItsLimit: the context ends the reading of every kind, and a page that does not fit is an
// error.
func TestATableStopsAndKeepsItsLimit(t *testing.T) {
	stop := errors.New("stop")
	for _, name := range []string{"papers.snappy.parquet", "papers.arrow", "papers.arrows", "papers.csv"} {
		ctx, cancel := context.WithCancelCause(context.Background())
		x, err := open(ctx, source.Local(filepath.Join("testdata", "m.yaml")), Words{name}, Format{}, &source.Request{})
		expect.OK(t, err)
		cancel(stop)
		if err := x.scan(ctx, []int{0}, func(*columnar.Batch) error { return nil }); !errors.Is(err, stop) {
			t.Errorf("%s: %v after the context ended", name, err)
		}
		if strings.HasSuffix(name, "csv") {
			continue
		}
		ledger := &pinned.Ledger{}
		limited := &source.Request{Budget: &source.Budget{Memory: ledger}}
		x.parts[0] = expect.Must(openPart(context.Background(), x.at[0], Format{}, limited))(t)
		ledger.SetLimit(100)
		err = x.scan(context.Background(), []int{0}, func(*columnar.Batch) error { return nil })
		expect.That(t, errors.Is(err, pinned.ErrLimit), "%s: %v in 100 bytes", name, err)
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"writes.0.parquet", "writes.zstd.parquet", "authors.arrow", "authors.arrows",
		"authors.csv"} {
		b := expect.Must(os.ReadFile(filepath.Join("testdata", name)))(f)
		f.Add(b)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) { look(t, dir, "fuzz", b) })
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(library))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if m, err := Parse(b); err == nil {
			_ = m.settle()
		}
	})
}
