package tables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// lay writes files into a folder.
func lay(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// spelt reads what lies at a place of a tree, and spells the graph with its notes, or the error.
func spelt(t testing.TB, at source.Place) string {
	t.Helper()
	g, err := Reader.Read(context.Background(), at, &source.Request{Budget: &source.Budget{Dir: t.TempDir()}})
	if err != nil {
		return err.Error()
	}
	text := sourcetest.Spell(t, g)
	expect.OK(t, g.Close())
	return text
}

// both reads a mapping by its folder, and by its own name.
func both(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := lay(t, files)
	tree := expect.Must(source.OpenTree(dir, nil))(t)
	whole := spelt(t, tree.At("m.yaml"))
	alone := spelt(t, expect.Must(source.OpenTree(filepath.Join(dir, "m.yaml"), nil))(t).At("m.yaml"))
	expect.That(t, whole == alone, "by its folder:\n%s\nby its name:\n%s", whole, alone)
	return strings.ReplaceAll(whole, dir+string(filepath.Separator), "")
}

const folders = "nodes: {u: {file: users, id: id, columns: [x, year]}}\nedges: {e: {file: follows/, src: a, dst: b}}\n"

// A folder of parts is the table that one file of the same rows is: names are in the order in which people count, what
// programs write beside the parts is passed over, parts without rows say nothing, and folders KEY=VALUE are columns.
func TestAFolderOfPartsIsATable(t *testing.T) {
	one := both(t, map[string]string{
		"m.yaml":    strings.NewReplacer("file: users", "file: users.csv", "follows/", "f.csv").Replace(folders),
		"users.csv": "id,x,year\n7,,2020\n5,2.5,2020\n3,1,\n", "f.csv": "a,b\n7,5\n5,3\n3,7\n"})
	many := both(t, map[string]string{"m.yaml": folders,
		"users/year=2020/part-2.csv": "id,x\n7,\n", "users/year=2020/part-10.csv": "id,x\n5,2.5\n",
		"users/year=__HIVE_DEFAULT_PARTITION__/part-1.csv": "id,x\n3,1\n", "users/year=2020/part-3.csv": "",
		"users/_SUCCESS": "", "users/_temporary/0/part.csv": "id\n", "users/year=2020/.part-2.csv.crc": "crc",
		"follows/a/0.csv": "a,b\n7,5\n", "follows/a/1.csv": "", "follows/b/0.csv": "a,b\n5,3\n3,7\n",
		"follows/0.csv": "id\n", "follows/empty.csv": "id\n"})
	expect.That(t, one == many, "one file each:\n%s\nfolders:\n%s", one, many)
}

// What is no table as a whole is refused, with the names of the files that do not go together.
func TestFoldersThatAreNoTableAreRefused(t *testing.T) {
	for what, c := range map[string]struct {
		files map[string]string
		says  []string
	}{
		"an empty one": {map[string]string{"users/_SUCCESS": ""}, []string{"users: the folder has no table in it"}},
		"two tables": {map[string]string{"users/a.csv": "id,x,year\n1,2,3\n", "users/b.csv": "id,y,year\n1,2,3\n"},
			[]string{"b.csv", "a.csv", `column 1 is "y"`}},
		"two formats": {map[string]string{"users/a.csv": "id,x,year\n1,2,3\n", "users/b.parquet": "PAR1"},
			[]string{"b.parquet: is Parquet, and ", "a.csv is CSV"}},
		"another file": {map[string]string{"users/a.csv": "id,x,year\n1,2,3\n", "users/readme.md": "read me"},
			[]string{"readme.md: is no table"}},
		"a file of no bytes": {map[string]string{"users/a.parquet": ""}, []string{"a.parquet: is no table"}},
		"other keys": {map[string]string{"users/year=1/a.csv": "id,x\n1,2\n", "users/a.csv": "id,x\n1,2\n"},
			[]string{"lies in folders of other keys than"}},
		"a key twice": {map[string]string{"users/x=1/x=2/a.csv": "id,year\n1,2\n"},
			[]string{`the key "x" is in the names of two folders`}},
		"a table of Delta": {map[string]string{"users/a.csv": "id,x,year\n", "users/_delta_log/0.json": "{}"},
			[]string{"a table of Delta"}},
	} {
		c.files["m.yaml"], c.files["follows/a.csv"] = folders, "a,b\n"
		said := both(t, c.files)
		for _, words := range c.says {
			expect.That(t, strings.Contains(said, words), "%s: %q is not in %s", what, words, said)
		}
	}
}

// The value of a key may be in the rows, too. Names of folders are percent-encoded.
func TestKeysOfFoldersAreWhatTheirNamesSay(t *testing.T) {
	for _, name := range []string{"k=a%2Fb%3D", "k%20=a", "k=2024-01-31", "k=007", "k=-5"} {
		at := source.Place{Name: "p.csv"}
		in := expect.Must(inputAt(at, name+"/p.csv"))(t)
		f := keyFields([]input{in})[0]
		got := strings.Join([]string{in.keys[0].name, in.keys[0].value, f.String(), f.Unit}, "|")
		want := map[string]string{"k=a%2Fb%3D": "k|a/b=|text|", "k%20=a": "k |a|text|",
			"k=2024-01-31": "k|2024-01-31|text|us", "k=007": "k|007|int64|", "k=-5": "k|-5|int64|"}[name]
		expect.That(t, got == want, "%s: %s, not %s", name, got, want)
	}
	for rows, says := range map[string]string{"1,2,2\n3,4,02\n": "", "1,2,2\n3,4,5\n": `a.csv: column "year": row 3: ` +
		`a row says "5", and the name of its folder "02": correct either`} {
		tree := expect.Must(source.OpenTree(lay(t, map[string]string{"u/year=02/a.csv": "id,x,year\n" + rows}), nil))(t)
		users := expect.Must(open(t.Context(), tree.At("m.yaml"), Words{"u"}, Format{}, &source.Request{}))(t)
		err := users.scan(t.Context(), []int{2, 0}, func(*columnar.Batch) error { return nil })
		expect.That(t, says == "" && err == nil || err != nil && says != "" && strings.HasSuffix(err.Error(), says),
			"%q: %v", rows, err)
	}
}

// A folder of parts of a table of edges is found by itself, with the nodes beside it. Others are not: of several
// tables, of files that are not called as parts are, and one CSV, which is an edge list.
func TestAFolderOfEdgesIsFound(t *testing.T) {
	const edges, nodes = "src,dst\n0,1\n", "id,x\n0,2\n1,3\n"
	for want, files := range map[string]map[string]string{
		".":             {"part-0.csv": edges, "part-1.csv": edges, "_SUCCESS": ""},
		"edges.csv":     {"edges.csv/0.csv": edges, "edges.csv/1.csv": edges, "nodes.csv/0.csv": nodes, "b.txt": ""},
		". keyed":       {"day=1/part-0.csv": edges},
		" names":        {"train.csv": edges, "test.csv": edges},
		" numbers":      {"train1.csv": edges, "test2.csv": edges},
		" tables":       {"0.csv": edges, "1.csv": nodes},
		" an edge list": {"part-0.csv": edges},
		" beside":       {"0.csv": edges, "1.csv": edges, "readme": "read me"},
	} {
		tree := expect.Must(source.OpenTree(lay(t, files), nil))(t)
		found := Reader.Find(tree)
		place, _, _ := strings.Cut(want, " ")
		expect.That(t, strings.Join(found, " ") == place, "%q: found %q", want, found)
		if len(found) == 1 {
			said := spelt(t, tree.At(found[0]))
			expect.That(t, strings.Contains(said, "edge"), "%q: %s", want, said)
		}
	}
}

// What a column of a CSV is does not depend on where its lines are cut into files.
func TestColumnsOfPartsAreThoseOfOneFile(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 9))
	kinds := [][]string{{"1", "-7"}, {"1.5", "2e3"}, {"9007199254740993"}, {"true", "False"}, {"2024-01-31"}, {"x"},
		{"NULL"}, {""}}
	for range expect.Draws(t, 300) {
		var parts []string
		few := kinds[r.IntN(len(kinds))]
		few = slices.Concat(few, kinds[r.IntN(len(kinds))])
		for range 2 + r.IntN(2) {
			text := ""
			for range 1 + r.IntN(3) {
				text += "0," + few[r.IntN(len(few))] + "\n"
			}
			parts = append(parts, text)
		}
		files := map[string]string{"one.csv": "k,x\n" + strings.Join(parts, "")}
		for i, text := range parts {
			files[fmt.Sprintf("many/%d.csv", i)] = "k,x\n" + text
		}
		at := expect.Must(source.OpenTree(lay(t, files), nil))(t).At("m.yaml")
		var is []string
		for _, name := range []string{"one.csv", "many"} {
			whole := expect.Must(open(t.Context(), at, Words{name}, Format{}, &source.Request{}))(t)
			f := whole.list[1]
			kind := fmt.Sprint(f.String(), f.Unit, f.Boolean, f.Gaps)
			expect.OK(t, whole.scan(t.Context(), []int{1}, func(b *columnar.Batch) error {
				for i := range b.Rows {
					cell, there := f.Cell(&b.Columns[0], i)
					kind += fmt.Sprintf(" %q %v", cell, there)
				}
				return nil
			}))
			is = append(is, kind)
		}
		expect.That(t, is[0] == is[1], "%q: in one file %s, in several %s", parts, is[0], is[1])
	}
}

func TestNamesAreInTheOrderInWhichPeopleCount(t *testing.T) {
	want := []string{"a/z", "a0", "a01", "a1", "a2", "a10", "a10b", "a10b2", "a10b10", "b", "b-1", "part-9/x",
		"part-10"}
	got := slices.Clone(want)
	slices.Sort(got)
	slices.SortFunc(got, natural)
	expect.That(t, slices.Equal(got, want), "%q", got)
}
