//go:build !race

package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/unified"
)

// drawnName is a name as users, sources and attackers have them.
func drawnName(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var s string
	switch r.IntN(12) {
	case 0:
		for range 1 + r.IntN(20) {
			s += string([]byte{byte(r.Uint32())})
		}
	case 1: // Unicode of every plane
		for range 1 + r.IntN(8) {
			s += string(rune(r.IntN(17)<<16 + r.IntN(1<<16)))
		}
	case 2:
		s = pick("con", "nul", "COM1", "indptr", "edge_id", "type", "by_source", "src", "dst", "id", "-",
			"--force", "null", "true", "1", "1e5", "~", "*", "?",
			`"`, "'", "\\", "$HOME", "%s", "{a: b}", "[x]", "&a", "!!str", "# x")
	case 3:
		s = strings.Repeat(pick("x", "ñ", "名"), 1+r.IntN(2500))
	case 4: // both normal forms
		s = pick("año", "an\u0303o", "\uac00", "\u1100\u1161", "Å", "A\u030a", "\u212b", "ﬁ", "①")
	case 5:
		s = pick("\u212a", "a\u200bb", "аbс", "ａ", "a\u00adb", "l1I|", "a\ufe0f", "e\u0301\u0323")
	case 6:
		s = pick("שלום", "مرحبا", "\u202eabc", "a\u200fב", "\u2067x\u2069", "א1ב", "\u061cx")
	case 7:
		s = pick("a\x00b", "\x1b[2J", "a\nb", "a\tb", "\r", "\x7f", "a\u0085", "a\u2028b", "\ufeffa", "a\a")
	case 8:
		s = pick("", " ", "  a", "a ", "\u00a0", "\u3000")
	case 9:
		s = pick("../a", "/etc/x", "a/b", ".", "..", "a\\..\\b", "./x", ".hidden", strings.Repeat("../", 40)+"tmp/x")
	case 10:
		s = pick("a:b", "a=b", "a,b", "a;b", "node:x", ":", "=", "a\u037eb", "x:", "=x", "a==b")
	default:
		s = fmt.Sprintf("%c%x", 'a'+r.IntN(26), r.Uint32())
	}
	if r.IntN(3) == 0 {
		s += fmt.Sprint(r.IntN(100))
	}
	return s
}

// plainName tells names that every door has to take.
func plainName(s string) bool {
	return s != "" && len(s) < 60 && strings.IndexFunc(s, func(r rune) bool {
		return r > 'z' || r < '0' || r == '\\' || r == '`' ||
			unicode.IsPunct(r) || unicode.IsSymbol(r)
	}) < 0 && !slices.Contains([]string{"src", "dst", "id", "type"}, s) && s[0] > '9'
}

// A door makes or extends a dataset at target with something of a name, and says whose names to look at then. in is an
// empty folder. ok is false where the name cannot be written so.
type door struct {
	title string
	open  func(t *testing.T, name, target, in string) attempt
	list  func(ds *formats.Dataset) []string
}

// An attempt is what came of it, and the name to look for.
type attempt struct {
	err  error
	want string
}

func columnsOf(ds *formats.Dataset) (list []string) {
	for _, n := range ds.Graph().Schema().Nodes {
		for _, c := range n.Columns {
			list = append(list, c.Name)
		}
	}
	return list
}

func edgeColumnsOf(ds *formats.Dataset) (list []string) {
	for _, c := range ds.Graph().Schema().EdgeColumns {
		list = append(list, c.Name)
	}
	return list
}

func splitsOf(ds *formats.Dataset) (list []string) {
	for _, s := range ds.Graph().Splits() {
		list = append(list, s.Name)
	}
	return list
}

func typesOf(ds *formats.Dataset) (list []string) {
	for _, n := range ds.Graph().Schema().Nodes {
		list = append(list, n.Name)
	}
	for _, e := range ds.Graph().Schema().Edges {
		list = append(list, e.Relation)
	}
	return list
}

// said is the error of a command line.
func said(args ...string) error {
	_, text, code := khopIn(context.Background(), args...)
	if code == exitDone {
		return nil
	}
	return fmt.Errorf("status %d: %s", code, text)
}

func put(t *testing.T, path string, data []byte) string {
	t.Helper()
	expect.OK(t, os.WriteFile(path, data, 0o600))
	return path
}

// tableFolder writes a mapping with tables, whose node type, relation and columns have the name.
func tableFolder(t *testing.T, in, name string, typed bool) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\x00", `\0`).Replace(name)
	typ, rel, other := "a", "r", "b"
	if typed {
		typ, rel, other = quoted, quoted, "b"
	}
	put(t, filepath.Join(in, "graph.yaml"), fmt.Appendf(nil,
		`{"nodes": {"%s": {"file": "n.csv", "id": "id"}, "%s": {"file": "m.csv", "id": "id"}},`+
			` "edges": {"%s": {"file": "e.csv", "src": "s", "dst": "d", "source": "%s", "target": "%s"}}}`,
		typ, other, rel, typ, other))
	column := "w"
	if !typed {
		column = name
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	expect.OK(t, w.WriteAll([][]string{{"id", column}, {"0", "5"}, {"1", "6"}}))
	put(t, filepath.Join(in, "n.csv"), b.Bytes())
	put(t, filepath.Join(in, "m.csv"), []byte("id\n0\n1\n"))
	put(t, filepath.Join(in, "e.csv"), []byte("s,d\n0,1\n1,1\n"))
	return in
}

func zipped(t *testing.T, in string) string {
	path := in + ".zip"
	f := expect.Must(os.Create(path))(t)
	z := zip.NewWriter(f)
	expect.OK(t, z.AddFS(os.DirFS(in)), z.Close(), f.Close())
	return path
}

var ids5 = []int64{0, 1, 2, 3, 4}

var nameDoors = []door{
	{"add --column", func(t *testing.T, name, target, in string) attempt {
		return attempt{said("add", target, "--column", name+"="+put(t, in+"/x.npy", expect.NPY(ids5))), name}
	}, columnsOf},
	{"add --edge-column", func(t *testing.T, name, target, in string) attempt {
		return attempt{said("add", target, "--edge-column", name+"="+put(t, in+"/x.npy", expect.NPY(ids5[:4]))), name}
	}, edgeColumnsOf},
	{"add --split", func(t *testing.T, name, target, in string) attempt {
		return attempt{said("add", target, "--split", name+"="+put(t, in+"/x.npy", expect.NPY(ids5))), name}
	}, splitsOf},
	{"a header", func(t *testing.T, name, target, in string) attempt {
		file := put(t, in+"/x.tsv", []byte("src\tdst\t"+name+"\n0\t1\t5\n1\t2\t6\n"))
		want := names.Clean(strings.TrimSpace(name))
		if want == "" { // a field without a name is left out
			return attempt{errors.New("no name"), ""}
		}
		return attempt{said("convert", file, target, "--force", "--from", "edgelist"), want}
	}, edgeColumnsOf},
	{"--columns", func(t *testing.T, name, target, in string) attempt {
		file := put(t, in+"/x.txt", []byte("0 1 5\n1 2 6\n"))
		want, _, _ := strings.Cut(name, ":")
		if want == "" || want == "-" { // a list that ends in a comma has no name there, and "-" is not stored
			return attempt{errors.New("no name"), ""}
		}
		return attempt{said("convert", file, target, "--force", "--columns", "src,dst,"+name),
			names.Clean(strings.TrimSpace(want))}
	}, edgeColumnsOf},
	{"a table's column", func(t *testing.T, name, target, in string) attempt {
		if strings.TrimSpace(name) == "id" { // there is one already
			name = "ids"
		}
		return attempt{said("convert", tableFolder(t, in, name, false), target, "--force"), strings.TrimSpace(name)}
	}, columnsOf},
	{"a mapping's types", func(t *testing.T, name, target, in string) attempt {
		return attempt{said("convert", tableFolder(t, in, name, true), target, "--force"), name}
	}, typesOf},
	{"an archive", func(t *testing.T, name, target, in string) attempt {
		return attempt{said("convert", zipped(t, tableFolder(t, in, name, true)), target, "--force"), name}
	}, typesOf},
	{"a member's name", func(t *testing.T, name, target, in string) attempt {
		f := expect.Must(os.Create(in + "/x.npz"))(t)
		z := zip.NewWriter(f)
		for member, data := range map[string][]byte{"edge_index": expect.NPY([]int64{0, 1, 1, 2}, 2, 2),
			"node_" + name: expect.NPY(ids5[:3])} {
			w := expect.Must(z.Create(member + ".npy"))(t)
			_, err := w.Write(data)
			expect.OK(t, err)
		}
		expect.OK(t, z.Close(), f.Close())
		return attempt{said("convert", in+"/x.npz", target, "--force"), cmp.Or(name, "node_")}
	}, columnsOf},
	{"tasks", func(t *testing.T, name, target, in string) attempt {
		from := tableFolder(t, in, name, true)
		return attempt{said("convert", from, target, "--tasks", "2", "--force"), name}
	}, typesOf},
	{"Go, types", func(t *testing.T, name, target, in string) attempt {
		return attempt{written(target, graph.Data{Nodes: []graph.NodeData{{Name: name, Count: 3}},
			Edges: []graph.EdgeData{{Relation: name, Src: []int64{0}, Dst: []int64{1}}}}), cmp.Or(name, "node")}
	}, typesOf},
	{"Go, columns", func(t *testing.T, name, target, in string) attempt {
		return attempt{written(target, graph.Data{Nodes: []graph.NodeData{{
			Columns: map[string]unified.Tensor{name: unified.FromSlice(ids5)}}}}), name}
	}, columnsOf},
	{"Go, splits", func(t *testing.T, name, target, in string) attempt {
		return attempt{written(target, graph.Data{Nodes: []graph.NodeData{{Count: 3}},
			Splits: []graph.Split{{Name: name, Seeds: graph.NodeIDs([]int64{1})}}}), name}
	}, splitsOf},
}

// written writes a graph as a Go program does.
func written(target string, data graph.Data) error {
	g, err := graph.New(data)
	if err != nil {
		return err
	}
	return formats.WriteGraph(context.Background(), target, g, formats.WriterOptions{Force: true})
}

func TestAListOfNamesThatIsNotTextIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := put(t, dir+"/x.txt", []byte("0 1 5\n1 2 6\n"))
	fails(t, exitUsage, `"src,dst,s\xf1" is not UTF-8`, "convert", file, dir+"/data", "--columns", "src,dst,s\xf1")
}

// scratchInMemory is a folder that is in memory, where the system has one: a thousand datasets wait for no disk.
func scratchInMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "khop-names-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestNamesAreReadBackAsTheyAreOrRefused draws names, and brings each through every door that takes one; where
// KHOP_DRAWS says how many, a name goes through the doors of Go and one of the others, in turn.
func TestNamesAreReadBackAsTheyAreOrRefused(t *testing.T) {
	n, r := draws(t, 5)
	taken, refused := map[string]int{}, map[string]int{}
	scratch := scratchInMemory(t)
	base := filepath.Join(scratch, "base")
	expect.OK(t, written(base, graph.Data{Nodes: []graph.NodeData{{Count: 5}},
		Edges: []graph.EdgeData{{Src: ids5[:4], Dst: ids5[1:]}}}))
	before := expect.Files(t, base)
	for k := range n {
		name := drawnName(r)
		for i, d := range nameDoors {
			if n > 100 && i < 10 && k%10 != i {
				continue
			}
			work := filepath.Join(scratch, "work")
			expect.OK(t, os.Mkdir(work, 0o700))
			target, in := filepath.Join(work, "data"), filepath.Join(work, "in")
			expect.OK(t, os.CopyFS(target, os.DirFS(base)), os.Mkdir(in, 0o700))
			try := d.open(t, name, target, in)
			if err := try.err; err != nil {
				refused[d.title]++
				same := maps.EqualFunc(before, expect.Files(t, target), bytes.Equal)
				expect.That(t, same, "%s: %q is refused, and the dataset is another one: %v", d.title, name, err)
				expect.That(t, !plainName(name), "%s: %q is refused: %v", d.title, name, err)
			} else if taken[d.title]++; true {
				readBack(t, &d, target, name, try.want, n < 100 || r.IntN(8) == 0)
			}
			_ = os.RemoveAll(work)
		}
	}
	for _, d := range nameDoors {
		t.Logf("%-18s %d taken, %d refused", d.title, taken[d.title], refused[d.title])
	}
}

// readBack looks for a name in a dataset, in what khop info says of it, and in what its export is converted to.
func readBack(t *testing.T, d *door, dataset, name, want string, exported bool) {
	t.Helper()
	ds, err := formats.Open(dataset)
	if err != nil {
		t.Errorf("%s: %q is taken, and nothing opens the dataset: %v", d.title, name, err)
		return
	}
	there := d.list(ds)
	expect.OK(t, ds.Close())
	if short, typed := strings.CutPrefix(want, "node:"); typed {
		want = short
	}
	expect.That(t, slices.Contains(there, want) && utf8.ValidString(want), "%s: %.100q is taken, and there are "+
		"%.100q", d.title, name, there)
	info := object(t, "info", dataset, "--json")
	expect.That(t, strings.Contains(fmt.Sprint(info), want), "%s: info does not have %.100q", d.title, want)
	if !exported {
		return
	}
	for _, to := range []string{"numpy", "npz", "pyg", "graphbolt"} {
		if err := said("export", dataset, dataset+"."+to, "--to", to); err != nil {
			t.Errorf("%s: %q: export --to %s: %v", d.title, name, to, err)
		}
	}
	if err := said("export", dataset, dataset+".tables", "--to", "parquet"); err != nil {
		expect.That(t, strings.Contains(err.Error(), "rename one of them"), "%s: %q: %v", d.title, name, err)
		return
	}
	if slices.Contains([]string{"add --split", "Go, splits"}, d.title) { // columns of masks
		return
	}
	if err := said("convert", dataset+".tables", dataset+".again"); err != nil {
		t.Errorf("%s: %q: its export is not converted: %v", d.title, name, err)
		return
	}
	again := expect.Must(formats.Open(dataset + ".again"))(t)
	defer again.Close()
	expect.That(t, slices.Contains(d.list(again), want), "%s: %q is exported, and read as %q", d.title, name,
		d.list(again))
}
