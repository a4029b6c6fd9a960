package formats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

func requireEqualGraphs(t testing.TB, a, b *graph.Graph) {
	t.Helper()
	expect.Ensure(t, reflect.DeepEqual(a.Schema(), b.Schema()), "schemas differ:\n%+v\n%+v", a.Schema(), b.Schema())
	same := slices.Equal(a.Indptr(), b.Indptr()) && equalTensors(a.Indices(), b.Indices()) &&
		equalTensors(a.Types(), b.Types()) && equalTensors(a.EdgeIDs(), b.EdgeIDs())
	for _, c := range a.Schema().EdgeColumns {
		x, _ := a.EdgeColumn(c.Name)
		y, _ := b.EdgeColumn(c.Name)
		same = same && equalTensors(x, y)
	}
	for n := range a.Schema().Nodes {
		for _, c := range a.Schema().Nodes[n].Columns {
			x, _ := a.NodeColumn(n, c.Name)
			y, ok := b.NodeColumn(n, c.Name)
			same = same && ok && equalTensors(x, y)
		}
	}
	same = same && len(a.Splits()) == len(b.Splits())
	for _, s := range a.Splits() {
		x, err := b.Split(s.Name, s.Index)
		same = same && err == nil && len(x.Sets) == len(s.Seeds.Sets)
		for i := range x.Sets {
			same = same && x.Sets[i].Type == s.Seeds.Sets[i].Type && equalTensors(x.Sets[i].IDs, s.Seeds.Sets[i].IDs)
		}
	}
	expect.Ensure(t, same, "the graphs differ")
}

func TestOpenReadsWhatWriteGraphWrote(t *testing.T) {
	few := func(nodes, edges int64, indptr []int64, indices ...int32) graph.Arrays {
		return graph.Arrays{Schema: plainSchema(nodes, edges), Indptr: unified.FromSlice(indptr),
			Indices: unified.FromSlice(indices)}
	}
	disorder := few(2, 2, []int64{0, 2, 2}, 0, 1)
	disorder.EdgeIDs = unified.FromSlice([]int64{1, 0})
	for name, arrays := range map[string]graph.Arrays{"plain": plainArrays(t), "typed": typedArrays(t),
		"random": randomArrays(t, 3, 5000, 4), "no node": few(0, 0, []int64{0}), "one node": few(1, 0, []int64{0, 0}),
		"one self-loop": few(1, 1, []int64{0, 1}, 0), "parallel edges": few(2, 3, []int64{0, 3, 3}, 1, 1, 1),
		"only isolated": few(4, 0, make([]int64, 5)), "ids in disorder": disorder} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, arrays, WriterOptions{Provenance: map[string]string{"source": "a \"test\" <&> \n"}})
			d := open(t, dir)
			requireEqualGraphs(t, newGraph(t, arrays), d.Graph())
			got := d.Manifest().Provenance["source"]
			expect.That(t, got == "a \"test\" <&> \n", "provenance is %q", got)
			expect.That(t, d.ID() != [16]byte{} && d.ID() == d.Graph().ID() && d.Path() == dir,
				"id %x, graph's id %x, path %s", d.ID(), d.Graph().ID(), d.Path())
			total := int64(0)
			for _, b := range expect.Files(t, dir) {
				total += int64(len(b))
			}
			expect.That(t, d.FileBytes() == total, "FileBytes is %d, the files have %d", d.FileBytes(), total)
			report, err := Check(context.Background(), dir, CheckOptions{})
			files := len(expect.Files(t, dir))
			expect.That(t, err == nil && report.OK() && report.Bytes == total && report.Files == files,
				"check: %+v, %v", report, err)
			again := filepath.Join(scratchDir(t), "y.khop") // a graph over mapped files can be written like any other
			expect.OK(t, WriteGraph(context.Background(), again, d.Graph(), WriterOptions{}))
			id := open(t, again).ID()
			expect.That(t, id == d.ID(), "written again it has id %x, not %x", id, d.ID())
		})
	}
}

// writeBackwards opens everything at once and writes it from the end to the beginning.
func writeBackwards(t *testing.T, w *Writer, a graph.Arrays) {
	t.Helper()
	type open struct {
		w *ColumnWriter
		t unified.Tensor
	}
	var list []open
	for _, s := range slices.Backward(a.Splits) {
		cw, err := w.Split(s.Name, s.Index, 0, unified.Int32, s.Seeds.Len())
		list, err = append(list, open{cw, s.Seeds.Sets[0].IDs}), errors.Join(err)
		expect.OK(t, err)
	}
	for _, c := range slices.Backward(a.Schema.Nodes[0].Columns) {
		cw := expect.Must(w.NodeColumn(0, c, 5))(t)
		list = append(list, open{cw, a.NodeColumns[0][c.Name]})
	}
	for name, x := range map[string]unified.Tensor{"indices": a.Indices, "indptr": a.Indptr} {
		cw := expect.Must(w.Topology(name, x.DType(), x.Len()))(t)
		list = append(list, open{cw, x})
	}
	for busy := true; busy; { // a byte at a time, in turn
		busy = false
		for i := range list {
			if b := list[i].t.Bytes(); len(b) > 0 {
				expect.Must(list[i].w.Write(b[:1]))(t)
				list[i].t, _ = unified.New(unified.Uint8, b[1:], int64(len(b)-1))
				busy = true
			}
		}
	}
	for i := range list {
		expect.OK(t, list[i].w.Close())
	}
}

func TestEqualDataHasEqualFilesAndIDWhereverWrittenAndInWhateverOrder(t *testing.T) {
	a := plainArrays(t)
	first := write(t, a, WriterOptions{})
	want := expect.Files(t, first)
	dir := filepath.Join(scratchDir(t), "other name.khop")
	w := expect.Must(Create(dir, WriterOptions{}))(t)
	writeBackwards(t, w, a)
	expect.OK(t, w.Commit(a.Schema))
	got := expect.Files(t, dir)
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s differs", name)
		}
	}
	expect.That(t, len(got) == len(want), "%d files, not %d", len(got), len(want))
}

func TestIDDependsOnDataAndNotOnProvenance(t *testing.T) {
	a := plainArrays(t)
	id := open(t, write(t, a, WriterOptions{})).ID()
	got := open(t, write(t, a, WriterOptions{Provenance: map[string]string{"when": "now"}})).ID()
	expect.That(t, got == id, "provenance changes the id: %x, %x", got, id)
	a.Indices = unified.FromSlice([]int32{1, 3, 2, 0, 0, 3})
	expect.That(t, open(t, write(t, a, WriterOptions{})).ID() != id, "another edge leaves the id as it was")
}

func TestStringsAreReadByTypeAndName(t *testing.T) {
	a := plainArrays(t)
	dir := filepath.Join(scratchDir(t), "x.khop")
	w := expect.Must(Create(dir, WriterOptions{chunkBytes: 4096}))(t)
	defer func() { expect.OK(t, w.Abort()) }()
	want := make([]string, 70_000) // more than one buffer of offsets and of characters
	for i := range want {
		want[i] = string(counting(int64(i % 11))[:0]) + string(rune('a'+i%26)) + "é"[:2*(i%2)]
	}
	s := expect.Must(w.NodeStrings(0, "names of nodes", int64(len(want))))(t)
	for _, v := range want {
		expect.OK(t, s.Write(v))
	}
	expect.OK(t, errors.Join(s.Close(), s.Close(), w.writeAll(context.Background(), edgeArrays(newGraph(t, a)))))
	empty, err := w.NodeStrings(0, "one empty string", 1) // its body ends in a gap, which the checksum covers
	expect.OK(t, errors.Join(err, empty.Write(""), empty.Close()))
	a.Schema.Nodes[0].Columns = nil
	expect.OK(t, w.Commit(a.Schema))
	d := open(t, dir)
	list, err := d.Strings(0, "names of nodes")
	if err != nil || list.Len() != int64(len(want)) {
		t.Fatal(list, err)
	}
	for i, v := range want {
		got, err := list.At(int64(i))
		expect.Ensure(t, err == nil && got == v, "string %d is %q, %v; written %q", i, got, err, v)
	}
	if _, err := list.At(list.Len()); err == nil {
		t.Error("a string beyond the last one is not an error")
	}
	expect.Is(t, expect.Err(d.Strings(0, "name")), ErrNoStrings, "strings that are not there")
	report, err := Check(context.Background(), dir, CheckOptions{})
	expect.That(t, err == nil && report.OK(), "check: %+v, %v", report, err)
}

// TestOpenCostsTheSameWhateverTheSize compares a dataset of a few bytes with one of 200 MB.
func TestOpenCostsTheSameWhateverTheSize(t *testing.T) {
	cost := func(rows int64) (allocs, size float64) {
		dir := filepath.Join(scratchDir(t), "x.khop")
		w := expect.Must(Create(dir, WriterOptions{}))(t)
		column := func(cw *ColumnWriter, err error) {
			t.Helper()
			zeros := make([]byte, 1<<20)
			size := cw.a.typ.RowBytes() * map[string]int64{"indptr": rows + 1, "feature": rows}[cw.a.typ.Name]
			for n := int64(0); err == nil && n < size; n += int64(len(zeros)) {
				_, err = cw.Write(zeros[:min(int64(len(zeros)), size-n)])
			}
			expect.OK(t, errors.Join(err, cw.Close()))
		}
		column(w.Topology("indptr", unified.Int64, rows+1))
		column(w.Topology("indices", unified.Int32, 0))
		c := graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{92}}
		column(w.NodeColumn(0, c, rows))
		expect.OK(t, w.Commit(graph.Schema{
			Nodes: []graph.NodeType{{Name: "node", Count: rows, Columns: []graph.Column{c}}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node"}},
		}))
		openOnce := func() {
			d := expect.Must(Open(dir))(t)
			d.Close()
		}
		openOnce()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const runs = 50
		allocs = testing.AllocsPerRun(runs-1, openOnce)
		runtime.ReadMemStats(&after)
		return allocs, float64(after.TotalAlloc-before.TotalAlloc) / runs
	}
	allocs, bytes := cost(3)
	bigAllocs, bigBytes := cost(500_000)
	expect.That(t, bigAllocs <= allocs+2 && bigBytes <= bytes+2048,
		"a dataset of 188 MB takes %v allocations of %v bytes, one of 1 KB %v of %v", bigAllocs, bigBytes, allocs,
		bytes)
}

func TestOpenSaysWhatIsNotADataset(t *testing.T) {
	dir := scratchDir(t)
	expect.Is(t, expect.Err(Open(filepath.Join(dir, "nothing"))), fs.ErrNotExist, "no directory")
	expect.Is(t, expect.Err(Open(dir)), ErrIncomplete, "a directory without a manifest")
	put(t, dir, "file", []byte("1 2\n"))
	expect.Is(t, expect.Err(Open(filepath.Join(dir, "file"))), ErrIncomplete, "a file")
	folder := filepath.Join(scratchDir(t), manifestName)
	expect.OK(t, os.Mkdir(folder, 0o777))
	err := expect.Err(Open(filepath.Dir(folder)))
	expect.That(t, err != nil && strings.HasPrefix(err.Error(), folder+": "), "a folder for a manifest: %v", err)
	expect.Is(t, expect.Err(Check(context.Background(), dir, CheckOptions{})), ErrIncomplete,
		"check of a directory without a manifest")
}

func TestAFileThatIsCutWhileOpenIsAnErrorToItsReader(t *testing.T) {
	d, _ := cutWhileOpen(t, 4096)
	sum := int32(0)
	err := pinned.Guard(func() error {
		v, err := unified.View[int32](d.Graph().Indices())
		for _, x := range v {
			sum += x
		}
		return err
	})
	expect.Is(t, err, pinned.ErrFault, "reading a file that was cut short")
	err = WriteGraph(context.Background(), filepath.Join(scratchDir(t), "y.khop"), d.Graph(), WriterOptions{})
	expect.Is(t, err, pinned.ErrFault, "writing a graph whose file was cut short")
}

// Seeds that are all nodes of a type are written out, piece by piece.
func TestSeedsThatAreManyNodesAreWrittenOut(t *testing.T) {
	const n = 1<<17 + 3
	g := newGraph(t, graph.Arrays{Schema: plainSchema(n, 0), Indptr: unified.FromSlice(make([]int64, n+1)),
		Indices: unified.FromSlice([]int32{}),
		Splits:  []graph.Split{{Name: "train", Seeds: graph.Seeds{Sets: []graph.SeedSet{{Count: n}}}}}})
	dir := filepath.Join(scratchDir(t), "x.khop")
	expect.OK(t, WriteGraph(context.Background(), dir, g, WriterOptions{}))
	seeds := expect.Must(open(t, dir).Graph().Split("train", 0))(t)
	ids := expect.Must(unified.View[int32](seeds.Sets[0].IDs))(t)
	expect.Ensure(t, len(ids) == n, "%d seeds", len(ids))
	for i, id := range ids {
		expect.Ensure(t, int(id) == i, "seed %d is %d", i, id)
	}
}

// TestAnAddressIsRefusedByNameOfWhatOpensIt without what may be a secret.
func TestAnAddressIsRefusedByNameOfWhatOpensIt(t *testing.T) {
	for address, shown := range map[string]string{"s3://bucket/x.khop": "s3://bucket/x.khop: ",
		"https://me:secret@server/x": "https://..."} {
		err := expect.Err(Open(address))
		expect.That(t, err != nil && strings.HasPrefix(err.Error(), shown) &&
			strings.Contains(err.Error(), "formats/remote") && !strings.Contains(err.Error(), "secret"), "%v", err)
	}
}

var goldenNames = []string{"Ada", "", "Élise 名"}

// goldenID is the id of each golden dataset, which must never change.
var goldenID = map[string]string{
	"golden-v1-plain": "4f01e2b32fb9891a081c7e297ac97d0c",
	"golden-v1-typed": "f1a604db6e43bbe3c079e8acc7ffe159",
}

func goldenArrays(t *testing.T, name string) graph.Arrays {
	if name == "golden-v1-typed" {
		return typedArrays(t)
	}
	return plainArrays(t)
}

// writeGolden writes a golden dataset with everything that the format has.
func writeGolden(t *testing.T, name, dir string) {
	t.Helper()
	ctx, g := context.Background(), newGraph(t, goldenArrays(t, name))
	w, err := Create(dir, WriterOptions{Force: true, Provenance: map[string]string{"source": "made by a test"}})
	expect.OK(t, err)
	defer func() { expect.OK(t, w.Abort()) }()
	s, err := w.NodeStrings(0, "names", int64(len(goldenNames)))
	for _, v := range goldenNames {
		if err == nil {
			err = s.Write(v)
		}
	}
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		err = w.writeArrays(ctx, g)
	}
	if err == nil {
		err = w.Commit(*g.Schema())
	}
	expect.OK(t, err)
}

func TestGoldenDatasetsOfFormat1AreReadAndWrittenByteForByte(t *testing.T) {
	for name, id := range goldenID {
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("testdata", name)
			if expect.Rewriting() {
				expect.OK(t, os.RemoveAll(golden))
				writeGolden(t, name, golden)
			}
			d := open(t, golden)
			requireEqualGraphs(t, newGraph(t, goldenArrays(t, name)), d.Graph())
			list, err := d.Strings(0, "names")
			if err != nil || list.Len() != int64(len(goldenNames)) {
				t.Fatal(list, err)
			}
			for i, want := range goldenNames {
				got, err := list.At(int64(i))
				expect.That(t, err == nil && got == want, "string %d is %q, %v", i, got, err)
			}
			report, err := Check(context.Background(), golden, CheckOptions{})
			expect.That(t, err == nil && report.OK(), "check: %+v, %v", report, err)
			if got := fmt.Sprintf("%x", d.ID()); got != id {
				t.Errorf("id is %s, it was %s", got, id)
			}
			dir := filepath.Join(scratchDir(t), name)
			writeGolden(t, name, dir)
			want, got := expect.Files(t, golden), expect.Files(t, dir)
			for file := range want {
				if !bytes.Equal(want[file], got[file]) {
					t.Errorf("%s is written otherwise today", file)
				}
			}
			expect.That(t, len(want) == len(got), "%d files are written, there were %d", len(got), len(want))
		})
	}
}
