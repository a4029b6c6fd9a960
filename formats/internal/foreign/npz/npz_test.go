package npz

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// member is an array in an archive.
type member struct {
	name, descr, shape string
	data               []byte
}

func numpy[T unified.Element](name, shape string, v ...T) member {
	descr := map[unified.DType]string{
		unified.Uint8: "|b1", unified.Int8: "|i1", unified.Int32: "<i4", unified.Int64: "<i8", unified.Float32: "<f4",
		unified.Float64: "<f8",
	}[unified.Of[T]()]
	if shape == "" {
		shape = fmt.Sprintf("(%d,)", len(v))
	}
	return member{name, descr, shape, unified.FromSlice(v).Bytes()}
}

func text(name string, width int, v ...string) member {
	var b []byte
	for _, s := range v {
		cells := make([]byte, 4*width)
		for i, r := range []rune(s) {
			cells[4*i] = byte(r)
		}
		b = append(b, cells...)
	}
	return member{name, fmt.Sprintf("<U%d", width), fmt.Sprintf("(%d,)", len(v)), b}
}

func pack(t testing.TB, members ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, m := range members {
		w := expect.Must(z.Create(m.name + ".npy"))(t)
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", m.descr, m.shape)
		_, _ = w.Write(append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8)))
		_, _ = w.Write(append([]byte(header), m.data...))
	}
	expect.OK(t, z.Close())
	return out.Bytes()
}

func save(t testing.TB, b []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "g.npz")
	expect.OK(t, os.WriteFile(p, b, 0o600))
	return p
}

// sparse is the sparse layout of 0>1, 0>2, 2>0 with features, as parts that tests replace.
func sparse() []member {
	return []member{
		numpy("adj_matrix.data", "", float32(1), 1, 1),
		numpy("adj_matrix.indices", "", int32(1), 2, 0),
		numpy("adj_matrix.indptr", "", int32(0), 2, 2, 3),
		numpy("adj_matrix.shape", "", int64(3), 3),
		numpy("attr_matrix.data", "", float32(5), 6, 7),
		numpy("attr_matrix.indices", "", int32(0), 1, 1),
		numpy("attr_matrix.indptr", "", int32(0), 1, 1, 3),
		numpy("attr_matrix.shape", "", int64(3), 2),
		numpy("labels", "", int8(1), 0, 4),
		text("node_names", 2, "ab", "c", "d"),
		text("class_names", 1, "x", "y"),
		{"metadata", "|O", "()", []byte("\x80\x03X")},
	}
}

func dense() []member {
	return []member{
		numpy("edges", "(2, 2)", int64(0), 1, 2, 2),
		numpy("node_features", "(3, 2)", float32(1), 2, 3, 4, 5, 6),
		numpy("node_labels", "", int64(0), 1, 1),
		numpy("train_masks", "(2, 3)", uint8(1), 0, 0, 0, 1, 1),
		numpy("val_masks", "(2, 3)", uint8(0), 1, 0, 0, 0, 0),
	}
}

func with(members []member, changed ...member) []member {
next:
	for _, c := range changed {
		for i := range members {
			if members[i].name == c.name {
				members[i] = c
				continue next
			}
		}
		members = append(members, c)
	}
	return members
}

func without(members []member, name string) []member {
	var kept []member
	for _, m := range members {
		if m.name != name {
			kept = append(kept, m)
		}
	}
	return kept
}

func TestLayouts(t *testing.T) {
	const sparseWant = "3 node, 5 classes; feature float32[2]: [5,0,0,0,0,13]; label int64[]: [1,0,4]; " +
		`id: ["ab" "c" "d"]; node:edge:node 0>1 0>2 2>0`
	const denseNodes = "3 node, 2 classes; feature float32[2]: [1,2,3,4,5,6]; label int64[]: [0,1,1]; "
	const denseSplits = "; train 0 of node: [0]; train 1 of node: [1 2]; val 0 of node: [1]; val 1 of node: []; " +
		"undirected"
	renamed := sparse()
	for i := range renamed {
		renamed[i].name = strings.NewReplacer("adj_matrix.", "adj_", "attr_matrix.", "attr_").Replace(renamed[i].name)
	}
	for _, c := range []struct {
		name    string
		members []member
		want    string
		note    string
	}{
		{"sparse", sparse(), sparseWant, "metadata"},
		{"sparse, other names", renamed, sparseWant, "class_names"},
		{"sparse, a name too few", with(sparse(), text("node_names", 2, "ab", "c")),
			strings.Replace(sparseWant, `id: ["ab" "c" "d"]; `, "", 1),
			"node_names is not stored: it has 2 names for 3"},
		{"sparse with weights", with(sparse(), numpy("adj_matrix.data", "", float32(1), .5, 2)),
			strings.Replace(sparseWant, "node:edge:node 0>1 0>2 2>0",
				"edge weight float32[]; node:edge:node 0>1:1 0>2:0.5 2>0:2", 1), "weight"},
		{"sparse with signs", with(sparse(), numpy("adj_matrix.data", "", float64(1), -.5, 2)),
			strings.Replace(sparseWant, "node:edge:node 0>1 0>2 2>0",
				"edge value float64[]; node:edge:node 0>1:1 0>2:-0.5 2>0:2", 1), "value"},
		{"dense", dense(), denseNodes + "node:edge:node 0>1 2>2" + denseSplits, ""},
		{"dense, edges alone", dense()[:1], "3 node; node:edge:node 0>1 2>2", ""},
		{"dense, one mask", with(dense()[:3], numpy("test_mask", "", uint8(0), 1, 1)),
			denseNodes + "node:edge:node 0>1 2>2; test 0 of node: [1 2]; undirected", ""},
		{"dense, splits behind", with(dense()[:3], numpy("test_mask", "(3, 2)", uint8(0), 1, 1, 1, 0, 0)),
			denseNodes + "node:edge:node 0>1 2>2; test 0 of node: [1]; test 1 of node: [0 1]; undirected", ""},
		{"csr", []member{numpy("indptr", "", int64(0), 1, 2), numpy("indices", "", int32(1), 0)},
			"2 node; node:edge:node 0>1 1>0", ""},
		{"dense, with more", with(dense(), numpy("edge_attr", "(2, 2)", float32(1), 2, 3, 4), numpy("odd", "",
			int64(5))),
			denseNodes + "edge feature float32[2]; node:edge:node 0>1:1,2 2>2:3,4" + denseSplits, "odd (<i8 (1))"},
		{"csr, with more", []member{numpy("indptr", "", int64(0), 1, 2), numpy("indices", "", int32(1), 0),
			numpy("time", "", int64(9), 8), numpy("node_features", "(2, 1)", float32(3), 4)},
			"2 node; feature float32[]: [3,4]; edge time int64[]; node:edge:node 0>1:9 1>0:8", ""},
		{"by name", []member{numpy("edge_index", "(2, 3)", int64(0), 1, 2, 1, 2, 0), numpy("y", "", int8(1), 0, 2)},
			"3 node, 3 classes; label int64[]: [1,0,2]; node:edge:node 0>1 1>2 2>0", ""},
		{"no edges", with(dense(), numpy[int64]("edges", "(0, 2)")),
			denseNodes + "node:edge:node " + denseSplits, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			sourcetest.Reads(t, Reader, source.Local(save(t, pack(t, c.members...))), source.Request{}, c.want,
				c.note)
		})
	}
}

// damagedArrays are archives with one array that is wrong, and how the error names it.
var damagedArrays = []struct {
	name    string
	members []member
	member  string
	row     int64
	says    string
}{
	{"indptr falls", with(sparse(), numpy("adj_matrix.indptr", "", int32(0), 3, 2, 3)), "adj_matrix.indptr", 2,
		"falls from 3 to 2"},
	{"indptr falls at once", with(sparse(), numpy("adj_matrix.indptr", "", int32(0), -1, 2, 3)), "adj_matrix.indptr", 1,
		"falls from 0 to -1"},
	{"indptr falls at the end", with(sparse(), numpy("adj_matrix.indptr", "", int32(0), 2, 4, 3)),
		"adj_matrix.indptr", 3, "falls from 4 to 3"},
	{"indptr does not begin", with(sparse(), numpy("adj_matrix.indptr", "", int32(1), 2, 2, 3)),
		"adj_matrix.indptr", -1, "from 0"},
	{"indptr does not end", with(sparse(), numpy("adj_matrix.indptr", "", int32(0), 2, 2, 9)), "adj_matrix.indptr",
		-1, "3 indices"},
	{"indptr is empty", with(sparse(), numpy[int32]("adj_matrix.indptr", "")), "adj_matrix.indptr", -1, "is empty"},
	{"column too large", with(sparse(), numpy("adj_matrix.indices", "", int32(1), 3, 0)), "adj_matrix.indices", 1,
		"column 3 is not in 0 .. 2"},
	{"column negative", with(sparse(), numpy("adj_matrix.indices", "", int32(1), 2, -1)), "adj_matrix.indices", 2,
		"column -1"},
	{"NaN weight", with(sparse(), member{"adj_matrix.data", "<f4", "(3,)",
		[]byte("\x00\x00\x80\x3f\x00\x00\xc0\x7f\x00\x00\x80\x3f")}), "adj_matrix.data", 1, "NaN"},
	{"too few values", with(sparse(), numpy("adj_matrix.data", "", float32(1))), "adj_matrix.data", -1, "3 indices"},
	{"not square", with(sparse(), numpy("adj_matrix.shape", "", int64(3), 4)), "adj_matrix.shape", -1, "square"},
	{"shape of another", with(sparse(), numpy("adj_matrix.shape", "", int64(4), 4)), "adj_matrix.shape", -1,
		"4 entries"},
	{"features of another", with(sparse(), numpy("attr_matrix.indptr", "", int32(0), 3),
		numpy("attr_matrix.shape", "", int64(1), 2)), "attr_matrix.shape", -1, "1 rows"},
	{"features too wide", with(sparse(), numpy("attr_matrix.shape", "", int64(3), 1<<40)), "attr_matrix.shape", -1,
		"too many"},
	{"too few labels", with(sparse(), numpy("labels", "", int8(1))), "labels", -1, "(1), but there are 3 nodes"},
	{"labels that are not integers", with(sparse(), numpy("labels", "", float32(1), 2, .5)), "labels", 2, "a class"},
	{"indptr missing a part", without(sparse(), "adj_matrix.indices"), "adj_matrix.indices", -1, "missing"},
	{"edges of three", with(dense(), numpy("edges", "(1, 3)", int64(0), 1, 2)), "edges", -1, "[1 3]"},
	{"edges in one dimension", with(dense(), numpy("edges", "", int64(0), 1)), "edges", -1, "dimension"},
	{"features cut short", with(dense(), member{"node_features", "<f4", "(3, 2)", make([]byte, 23)}),
		"node_features", -1, "23 of 24 bytes"},
	{"a mask of 2", with(dense(), member{"train_masks", "|u1", "(1, 3)", []byte{0, 2, 0}}), "train_masks", 1,
		"not 2"},
	{"a mask of another", with(dense(), numpy("train_masks", "(2, 4)", uint8(1), 0, 0, 0, 1, 1, 0, 0)),
		"train_masks", -1, "(2, 4), but there are 3 nodes"},
	{"something follows", with(dense(), member{"edges", "<i8", "(1, 2)", make([]byte, 17)}), "edges", -1, "follows"},
	{"objects for edges", with(dense(), member{"edges", "|O", "(2, 2)", nil}), "edges", -1, "never executed"},
}

func TestDamagedArraysAreNamed(t *testing.T) {
	for _, c := range damagedArrays {
		t.Run(c.name, func(t *testing.T) {
			g, err := Read(context.Background(), source.Local(save(t, pack(t, c.members...))), &source.Request{})
			if err == nil { // streamed arrays are checked when they are written
				defer g.Close()
				for _, col := range g.Node().Columns {
					err = errors.Join(err, col.Write(context.Background(), &bytes.Buffer{}))
				}
			}
			var e *formats.Error
			if !errors.As(err, &e) || e.Column != c.member || e.Row != c.row || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v; want %s, row %d, saying %q", err, c.member, c.row, c.says)
			}
		})
	}
}

// edgesOfDense are the edges of dense, with a column of any name or without.
var edgesOfDense = regexp.MustCompile(`\nnode:edge:node 0>1\S* 2>2\S*\n`)

// TestAnyFlippedByteIsHarmless flips each byte of an archive: the checksum, or a check, finds it, or it does not
// matter.
func TestAnyFlippedByteIsHarmless(t *testing.T) {
	good := pack(t, dense()...)
	g := expect.Must(Read(context.Background(), source.Local(save(t, good)), &source.Request{}))(t)
	want := sourcetest.Spell(t, g)
	g.Close()
	path := save(t, good)
	refused := 0
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x20
		expect.OK(t, os.WriteFile(path, bad, 0o600))
		g, err := Read(context.Background(), source.Local(path), &source.Request{})
		if err != nil {
			refused++
			continue
		}
		writes := g.Edges.Each(func(source.Batch) error { return nil })
		for _, c := range g.Node().Columns {
			writes = errors.Join(writes, c.Write(context.Background(), &bytes.Buffer{}))
		}
		if writes != nil {
			refused++
		} else if got := sourcetest.Spell(t, g); got != want && !edgesOfDense.MatchString(got) {
			t.Errorf("byte %d: got %s", i, got)
		}
		g.Close()
	}
	expect.That(t, refused >= len(good)/2, "only %d of %d flips were refused", refused, len(good))
}

// FuzzRead packs an array of any bytes, with a right checksum, among good ones.
func FuzzRead(f *testing.F) {
	for _, m := range append(sparse(), dense()...) {
		f.Add(m.name, m.descr, m.shape, m.data)
	}
	f.Add("adj_matrix.indptr", "<i8", "(4,)",
		[]byte("\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Add("node_names", "<U0", "(99999999999,)", []byte{})
	f.Add("train_masks", "|b1", "(99999999, 3)", []byte{})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name, descr, shape string, data []byte) {
		if len(name) > 50 || len(descr)+len(shape) > 200 || len(data) > 1<<12 {
			return
		}
		for i, base := range [][]member{sparse(), dense()} {
			b := pack(t, with(base, member{name, descr, shape, data})...)
			path := filepath.Join(dir, fmt.Sprintf("%d-%08x", i, crc32.ChecksumIEEE(b)))
			expect.OK(t, os.WriteFile(path, b, 0o600))
			readAll(t, path, len(b))
			_ = os.Remove(path)
		}
	})
}

// FuzzArchive reads any bytes.
func FuzzArchive(f *testing.F) {
	f.Add(pack(f, sparse()...))
	f.Add(pack(f, dense()...))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(dir, fmt.Sprintf("%08x", crc32.ChecksumIEEE(b)))
		expect.OK(t, os.WriteFile(path, b, 0o600))
		readAll(t, path, len(b))
		_ = os.Remove(path)
	})
}

// readAll reads an archive and all that it yields, and bounds the memory that this makes.
func readAll(t *testing.T, path string, size int) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g, err := Read(context.Background(), source.Local(path), &source.Request{})
	if err == nil {
		n := int64(0)
		if err := g.Edges.Each(func(batch source.Batch) error {
			src, dst := batch.Src, batch.Dst
			for i := range src {
				if uint64(src[i]) >= uint64(g.Node().Count) || uint64(dst[i]) >= uint64(g.Node().Count) {
					return fmt.Errorf("edge %d>%d of %d nodes", src[i], dst[i], g.Node().Count)
				}
			}
			n += int64(len(src))
			return nil
		}); err == nil && n != g.Edges.Count {
			t.Fatalf("%d edges of %d: %v", n, g.Edges.Count, err)
		}
		for _, c := range g.Node().Columns {
			if w := c.RowBytes(); w > 0 && g.Node().Count < 1000 && w < 1<<20 {
				var b bytes.Buffer
				if err := c.Write(context.Background(), &b); err == nil && int64(b.Len()) != w*g.Node().Count {
					t.Fatalf("column %s wrote %d bytes, not %d", c.Name, b.Len(), w*g.Node().Count)
				}
			}
		}
		g.Close()
	}
	runtime.ReadMemStats(&after)
	made := after.TotalAlloc - before.TotalAlloc
	expect.Ensure(t, made <= 64<<20+2000*uint64(size), "%d bytes of input made %d bytes of memory", size, made)
}

// zeros is an array of zero bytes, which take next to nothing in an archive.
func zeros(name, descr, shape string, bytes int) member {
	return member{name, descr, shape, make([]byte, bytes)}
}

// TestMasksTakeTheMemoryOfTheirNodes reads masks of both orders, of which the arrays alone exceed the limit.
func TestMasksTakeTheMemoryOfTheirNodes(t *testing.T) {
	const n = 1 << 20
	mask := zeros("train_masks", "|b1", fmt.Sprintf("(3, %d)", n), 3*n)
	for _, v := range []int{5, n + 7, 3*n - 1} {
		mask.data[v] = 1
	}
	across := zeros("val_mask", "|b1", fmt.Sprintf("(%d, 2)", n), 2*n)
	for _, v := range []int{2 * 4, 2*9 + 1} {
		across.data[v] = 1
	}
	ledger := sourcetest.Limited(10 << 20)
	g := expect.Must(Read(context.Background(), source.Local(save(t, pack(t, numpy("edges", "(1, 2)", int8(0), 0),
		zeros("node_labels", "|i1", fmt.Sprintf("(%d,)", n), n), mask, across))), &source.Request{
		Budget: &source.Budget{Memory: ledger}}))(t)
	defer g.Close()
	got := ""
	for _, s := range g.Splits {
		got += fmt.Sprintf("%s%d%d", s.Name, s.Index, s.IDs)
	}
	want := fmt.Sprint("train0[5]train1[7]train2[", n-1, "]val0[4]val1[9]")
	expect.That(t, got == want, "splits %s, want %s", got, want)
	peak := ledger.Peak()
	expect.That(t, peak <= 8*n+1<<16, "%d bytes were counted at a time, the labels take %d", peak, 8*n)
}

// TestAnArchiveTakesTheNumberOfNodesFromElsewhere: a table of features beside it has a row for each.
func TestAnArchiveTakesTheNumberOfNodesFromElsewhere(t *testing.T) {
	path := save(t, pack(t, numpy("edge_index", "(2, 1)", int64(0), int64(3))))
	g := expect.Must(Read(context.Background(), source.Local(path), &source.Request{Nodes: 9}))(t)
	defer g.Close()
	n := g.Node().Count
	expect.That(t, n == 9, "%d nodes, not 9", n)
}

// TestWhatComesOfAnyNumPyArchive: see sourcetest.Outcomes.
func TestWhatComesOfAnyNumPyArchive(t *testing.T) {
	packed := func(name string, members []member) sourcetest.Case {
		path := save(t, pack(t, members...))
		return sourcetest.Case{Name: name, Reader: Reader, At: "g.npz", Files: sourcetest.Members(t, path),
			Pack: sourcetest.Zipped(t, "g.npz"), Requests: []source.Request{{}, {Nodes: 3}, {Nodes: 7}, {Nodes: 2}}}
	}
	long := make([]int64, 24_000)
	for i := range long {
		long[i] = int64(i) * 7 % 991
	}
	at := make([]int32, 992)
	for i := range at {
		at[i] = int32(3 * i)
	}
	small := packed("an archive", dense())
	small.Files, small.Pack = small.Pack(small.Files), nil
	sourcetest.Outcomes(t, packed("sparse", sparse()), packed("dense", dense()), small,
		packed("weighted", with(sparse(), numpy("adj_matrix.data", "", float64(1), 2.5, -3))).Whole(),
		packed("large and dense", with(dense(), numpy("edges", "(12000, 2)", long...),
			numpy("node_features", "(991, 1)", make([]float32, 991)...),
			numpy("node_labels", "", make([]int64, 991)...), numpy("train_masks", "(991,)", make([]uint8, 991)...),
			numpy("val_masks", "(991,)", make([]uint8, 991)...))).Whole(),
		packed("large and sparse", []member{numpy("data", "", make([]float32, 2973)...),
			numpy("indices", "", at[:991]...), numpy("indptr", "", at...), numpy("shape", "", int64(991), 991)},
		).Whole())
}
