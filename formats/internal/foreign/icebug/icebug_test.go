package icebug

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// small is a graph without a fault. The bytes of a table tell its format, so that those of tests may be CSV.
var small = map[string]string{
	schemaName: "CREATE NODE TABLE a(k STRING, x INT64, PRIMARY KEY(k)) WITH (storage = '');\n" +
		"CREATE NODE TABLE b(k INT64, PRIMARY KEY(k));\nCREATE REL TABLE e(FROM a TO b, w DOUBLE);\n",
	"nodes_a.parquet": "k,x\np,5\nq,\nr,7\n", "nodes_b.parquet": "k\n9\n4\n",
	"indptr_e.parquet": "ptr\n0\n2\n2\n3\n", "indices_e.parquet": "target,w\n1,0.5\n0,2\n1,3\n",
}

// with returns the graph with other files; a text of "" takes one away.
func with(other map[string]string) map[string]string {
	files := maps.Clone(small)
	maps.Copy(files, other)
	maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
	return files
}

const spelled = "3 a; x float64[]: [5,NaN,7]; id: [\"p\" \"q\" \"r\"]; 2 b; id int64[]: [9,4]; edge w float64[]; " +
	"a:e:b 0>1:0.5 0>0:2 2>1:3"

// Rows of indices are edges from the node whose range of rows has them to the row of a node, whatever its key is.
func TestEdgesAreThoseOfTheOffsets(t *testing.T) {
	schema := small[schemaName]
	for what, other := range map[string]map[string]string{
		"as it is": nil,
		"names in small letters": {schemaName: strings.NewReplacer("TABLE a", "TABLE A", "FROM a", "FROM `A`").
			Replace(schema)},
		"a storage that is elsewhere": {schemaName: strings.ReplaceAll(schema, "''", "'s3://bucket/g'")},
		"a storage that is a folder": {schemaName: strings.ReplaceAll(schema, "''", "'./g/'"), "nodes_a.parquet": "",
			"g/nodes_a.parquet": small["nodes_a.parquet"]},
		"a storage that is a prefix": {schemaName: strings.ReplaceAll(schema, "''", "'./g/p'"), "nodes_a.parquet": "",
			"p_nodes_a.parquet": small["nodes_a.parquet"]},
		"a column split":          {"nodes_b.parquet": "k,split\n9,x\n4,train\n"},
		"offsets of another name": {"indptr_e.parquet": "n\n0\n2\n2\n3\n"},
	} {
		at := sourcetest.Folder(t, schemaName, with(other))
		expect.That(t, slices.Equal(Reader.Find(at.Tree), []string{schemaName}), "%s: found %v", what,
			Reader.Find(at.Tree))
		want := spelled
		if strings.HasPrefix(what, "a column") {
			want = strings.Replace(want, "[9,4];", `[9,4]; split: ["x" "train"];`, 1)
		}
		if strings.HasPrefix(what, "names") {
			want = strings.NewReplacer("3 a;", "3 A;", "a:e", "A:e").Replace(want)
		}
		sourcetest.Reads(t, Reader, at, source.Request{}, want)
		alone := expect.Must(source.OpenTree(at.Path(), nil))(t)
		sourcetest.Reads(t, Reader, alone.At(schemaName), source.Request{}, want)
	}
	none := with(map[string]string{"indptr_e.parquet": ""})
	expect.That(t, Reader.Find(sourcetest.Folder(t, schemaName, none).Tree) == nil, "found without offsets")
}

// A fault is named with its file, its row and what should be there.
func TestWhatIsWrongIsNamed(t *testing.T) {
	replace := func(old, text string) map[string]string {
		return map[string]string{schemaName: strings.ReplaceAll(small[schemaName], old, text)}
	}
	indptr := func(text string) map[string]string { return map[string]string{"indptr_e.parquet": text} }
	indices := func(text string) map[string]string { return map[string]string{"indices_e.parquet": text} }
	for _, c := range []struct {
		says  string
		other map[string]string
	}{
		{`column "ptr": row 2: the first offset is 1, not 0`, indptr("ptr\n1\n2\n2\n3\n")},
		{`column "ptr": row 4: the offset 1 is below the one before it, 2`, indptr("ptr\n0\n2\n1\n3\n")},
		{`column "ptr": row 3: the last offset is 2, and `, indptr("ptr\n0\n2\n2\n2\n")},
		{`indptr_e.parquet: there are 3 rows, and "a" has 3 nodes: a row for each`, indptr("ptr\n0\n2\n3\n")},
		{`column "ptr": row 3: the offset is missing`, indptr("ptr\n0\n\"\"\n2\n3\n")},
		{`column "ptr": is float64: whole numbers are wanted`, indptr("ptr\n0\n1.5\n2\n3\n")},
		{`there is no column "ptr"; there are: "a", "b"`, indptr("a,b\n0,1\n")},
		{`column "target": is text: whole numbers are wanted`, indices("target,w\nx,1\n")},
		{`there is no column "target"`, indices("dst,w\n0,1\n")},
		{`the quote ' has no end`, replace("'');", "');")},
		{`the table "e": FROM table TO table is missing`, replace("FROM a TO b, ", "")},
		{`edges lead between several pairs of tables`, replace("TO b", "TO b, FROM b TO b")},
		{`edges "e" lead between "a" and "c", of which one is no node table`, replace("TO b", "TO c")},
		{`it has no CREATE REL TABLE`, replace("REL", "LINK")},
		{`the table "a": a list has no end`, replace("KEY(k)) WITH (storage = ''", "KEY(k")},
		{`it is stored as "csv", not as "icebug-disk"`, replace("''", "'', format = 'csv'")},
		{`there is no file "nodes_b.parquet" beside it; put the files of all tables besi`,
			map[string]string{"nodes_b.parquet": ""}},
		{`and none in the storage "s3://x"`, map[string]string{"nodes_a.parquet": "",
			schemaName: strings.ReplaceAll(small[schemaName], "''", "'s3://x'")}},
		{`the edge type a:e:b is there twice`,
			map[string]string{schemaName: small[schemaName] + "CREATE REL TABLE e(FROM a TO b)"}},
	} {
		at := sourcetest.Folder(t, schemaName, with(c.other))
		sourcetest.Refuses(t, Reader, at, c.says, c.says)
	}
	at := sourcetest.Folder(t, schemaName, with(indices("target,w\n1,0.5\n2,2\n1,3\n")))
	g := expect.Must(Reader.Read(t.Context(), at, &source.Request{}))(t)
	err := g.Edges.Each(func(source.Batch) error { return nil })
	const says = `indices_e.parquet: column "target": row 3: 2 is not a node of "b", of which there are 2`
	expect.That(t, err != nil && strings.HasSuffix(err.Error(), says), "%v", err)
	expect.OK(t, g.Close())
}

// Files may be of the first version, or say nothing of it.
func TestOtherVersionsAreRefused(t *testing.T) {
	files := sourcetest.Within(t, "testdata/shop")
	expect.Ensure(t, strings.Contains(files["nodes_city.parquet"], "v1"), "the files have no version")
	for version, says := range map[string]string{"v1": "", "v2": `it is of version "v2" of icebug-disk`} {
		other := maps.Clone(files)
		other["nodes_city.parquet"] = strings.ReplaceAll(files["nodes_city.parquet"], "v1", version)
		at := sourcetest.Folder(t, schemaName, other)
		g, err := Reader.Read(t.Context(), at, &source.Request{})
		if says == "" {
			expect.OK(t, err)
			expect.OK(t, g.Close())
			continue
		}
		expect.That(t, err != nil && strings.Contains(err.Error(), says), "%v", err)
	}
}

func TestSchemasAreRead(t *testing.T) {
	s := expect.Must(parse("/* ; */ CREATE NODE TABLE `a;``b`(x STRUCT(a INT64, b STRING), y DOUBLE[3] DEFAULT " +
		"f(1, ')'), `PRIMARY` INT64, PRIMARY KEY(`PRIMARY`)) WITH (storage = \"it\\\"s;\", format = 'ICEBUG-DISK');" +
		";\ncreate rel table group if not exists r(FROM `a;``b` TO `a;``b`, `FROM` INT64, MANY_ONE) // ;\n; " +
		"COMMENT ON x IS 'y'"))(t)
	expect.That(t, slices.Equal(s.nodes, []nodeTable{{"a;`b", "PRIMARY", `it"s;`}}), "%q", s.nodes)
	expect.That(t, slices.Equal(s.rels, []relTable{{"r", "a;`b", "a;`b", ""}}), "%q", s.rels)
	expect.That(t, s.others == 1, "%d others", s.others)
}

func FuzzParse(f *testing.F) {
	f.Add(small[schemaName])
	f.Add("/* */ CREATE NODE TABLE `a``b`(x STRUCT(a INT64), id SERIAL PRIMARY KEY) " +
		"WITH (storage = \"\\\"\", format = 'x');")
	f.Fuzz(func(t *testing.T, text string) {
		at := sourcetest.Folder(t, schemaName, with(map[string]string{schemaName: text + " "}))
		Reader.Find(at.Tree)
		sourcetest.SoundAt(t, Reader, t.TempDir(), "schema", at)
	})
}

// FuzzRead has other offsets and targets.
func FuzzRead(f *testing.F) {
	dir := "testdata/shop"
	for _, files := range [][2]string{{"indptr_follows.parquet", "indices_follows.parquet"},
		{"indptr_livesin.parquet", "indices_livesin.parquet"}} {
		f.Add(expect.Must(os.ReadFile(filepath.Join(dir, files[0])))(f),
			expect.Must(os.ReadFile(filepath.Join(dir, files[1])))(f))
	}
	f.Add([]byte(small["indptr_e.parquet"]), []byte(small["indices_e.parquet"]))
	f.Fuzz(func(t *testing.T, indptr, indices []byte) {
		at := sourcetest.Folder(t, schemaName, with(map[string]string{"indptr_e.parquet": string(indptr) + "\n",
			"indices_e.parquet": string(bytes.Clone(indices)) + "\n"}))
		sourcetest.SoundAt(t, Reader, t.TempDir(), "edges", at)
	})
}
