package formats

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestEveryLookAtTheContextEndsTheWork: writing, checking and scrubbing end at each of them, with nothing left
// behind.
func TestEveryLookAtTheContextEndsTheWork(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	d := open(t, dir)
	for name, work := range map[string]func(ctx context.Context) error{
		"write": func(ctx context.Context) error {
			return WriteGraph(ctx, filepath.Join(scratchDir(t), "x.khop"), d.Graph(), WriterOptions{})
		},
		"check": func(ctx context.Context) error {
			_, err := Check(ctx, dir, CheckOptions{Workers: 1})
			return err
		},
		"scrub": func(ctx context.Context) error {
			_, err := Check(ctx, dir, CheckOptions{Scrub: true, Rate: 1 << 50})
			return err
		},
	} {
		looks := 0
		for ; ; looks++ {
			ctx := expect.EndsAfter(context.Background(), int64(looks))
			err := work(ctx)
			if err == nil {
				break
			}
			expect.Ensure(t, errors.Is(err, context.Canceled), "%s, look %d: %v", name, looks, err)
		}
		expect.That(t, looks >= map[string]int{"write": 6, "check": 12, "scrub": 12}[name], "%s looks %d times", name,
			looks)
	}
}

// TestWritersTellProgressEvery16MiB, and at the end.
func TestWritersTellProgressEvery16MiB(t *testing.T) {
	var told []string
	w := expect.Must(Create(filepath.Join(scratchDir(t), "x.khop"), WriterOptions{ExpectBytes: 99,
		Progress: func(stage string, done, total int64) {
			told = append(told, fmt.Sprint(stage, " ", done>>10, " ", total))
		}}))(t)
	const n = 33 << 20
	indptr := expect.Must(w.Topology("indptr", unified.Int64, 2))(t)
	feed(t, indptr, 16)
	indices := expect.Must(w.Topology("indices", unified.Int32, 0))(t)
	col := graph.Column{Name: "x", DType: unified.Uint8, Shape: []int64{n}}
	x := expect.Must(w.NodeColumn(0, col, 1))(t)
	for range n >> 20 {
		feed(t, x, 1<<20)
	}
	s := plainSchema(1, 0)
	s.Nodes[0].Columns = []graph.Column{col}
	expect.OK(t, indptr.Close(), indices.Close(), x.Close(), w.Commit(s))
	want := []string{"write 16384 99", "write 32768 99", "write 33792 34603024"}
	expect.That(t, slices.Equal(told, want), "told %q, not %q", told, want)
}

// reseal changes the elements of a file, and makes their checksums right again.
func reseal(t *testing.T, dir, path string, change func(body []byte)) {
	t.Helper()
	forge(t, dir, func(m *Manifest) {
		for _, p := range m.parts() {
			if p.Path == path {
				b := expect.Files(t, dir)[path]
				body := b[p.BodyOffset : p.BodyOffset+p.Bytes]
				change(body)
				put(t, dir, path, b)
				var sums []uint64
				for chunk := range slices.Chunk(body, int(m.ChunkBytes)) {
					sums = append(sums, xxh3.Hash(chunk))
				}
				p.ChunkXXH3 = newSums(sums)
			}
		}
	})
}

// problems are what Check finds, with the dataset's name replaced.
func problems(t *testing.T, dir string) string {
	t.Helper()
	report := expect.Must(Check(context.Background(), dir, CheckOptions{Workers: 1}))(t)
	return linesOf(t, dir, report.Problems...)
}

// TestDamagedStringsAreNamed by Check and by who reads them.
func TestDamagedStringsAreNamed(t *testing.T) {
	lines := map[string]string{}
	for name, change := range map[string]func(body []byte){
		"fine":           func([]byte) {},
		"first not 0":    func(b []byte) { b[0] = 1 },
		"last too small": func(b []byte) { b[16] = 5 },
		"last too large": func(b []byte) { b[16] = 7 },
		"descending":     func(b []byte) { b[8] = 9 },
		"negative":       func(b []byte) { b[15] = 0x80 },
		"not UTF-8":      func(b []byte) { b[len(b)-1] = 0xff },
	} {
		dir := filepath.Join(scratchDir(t), "x.khop")
		expect.OK(t, writeShort(dir, WriterOptions{}))
		reseal(t, dir, "nodes/n0/id.arrow", change)
		list := expect.Must(open(t, dir).Strings(0, "id"))(t)
		text := problems(t, dir)
		for i := int64(-1); i < 3; i++ {
			v, err := list.At(i)
			text += fmt.Sprintf(" | %d is %q, %s", i, v, expect.Line(t, err, dir))
		}
		lines[name] = text
	}
	said(t, "strings", lines)
}

// A list of no strings has the place of its end alone.
func TestDamageOfNoStringsIsNamed(t *testing.T) {
	dir := filepath.Join(scratchDir(t), "x.khop")
	expect.OK(t, WriteGraph(context.Background(), dir, newGraph(t, plainArrays(t)), WriterOptions{}))
	w := expect.Must(Extend(dir, ExtendOptions{}))(t)
	names := expect.Must(w.NodeStrings(0, "none", 0))(t)
	d := expect.Must(Open(dir))(t)
	expect.OK(t, names.Close(), w.Commit(d.SchemaOf()), d.Close())
	lines := map[string]string{"none": problems(t, dir)}
	reseal(t, dir, "nodes/n0/none.arrow", func(body []byte) { body[0] = 1 })
	lines["an end"] = problems(t, dir)
	said(t, "no-strings", lines)
}

// TestStringsTellTheirProgress: all their bytes, when they are written.
func TestStringsTellTheirProgress(t *testing.T) {
	var last int64
	opt := WriterOptions{Progress: func(_ string, done, _ int64) { last = done }}
	w := expect.Must(Create(filepath.Join(scratchDir(t), "x.khop"), opt))(t)
	names := expect.Must(w.NodeStrings(0, "id", 3))(t)
	long := strings.Repeat("x", arrayfile.WriterMemory)
	expect.OK(t, names.Write(long), names.Write("y"), names.Write(long), names.Close())
	indptr := expect.Must(w.Topology("indptr", unified.Int64, 4))(t)
	feed(t, indptr, 32)
	indices := expect.Must(w.Topology("indices", unified.Int32, 0))(t)
	expect.OK(t, indptr.Close(), indices.Close(), w.Commit(plainSchema(3, 0)))
	want := int64(2*arrayfile.WriterMemory + 1 + 4*8 + 32)
	expect.That(t, last == want, "%d bytes were told of, not %d", last, want)
}

// writeShort writes a dataset of two nodes, without edges, of which a thousand were announced at most, and with names.
func writeShort(dir string, opt WriterOptions) (err error) {
	w, err := Create(dir, opt)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	indptr, err := w.Topology("indptr", unified.Int64, 3)
	if err != nil {
		return err
	}
	if _, err := indptr.Write(make([]byte, 24)); err != nil {
		return err
	}
	indices, err := w.Topology("indices", unified.Int32, 1<<20)
	if err != nil {
		return err
	}
	indices.AtMost()
	names, err := w.NodeStrings(0, "id", 2)
	if err != nil {
		return err
	}
	for _, name := range []string{"ada", "bob"} {
		if err := names.Write(name); err != nil {
			return err
		}
	}
	for _, c := range []interface{ Close() error }{indptr, indices, names} {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return w.Commit(plainSchema(2, 0))
}

// TestChecksumsThatCannotBeAreNamed by Check, Scrub and Verify.
func TestChecksumsThatCannotBeAreNamed(t *testing.T) {
	lines := map[string]string{}
	for name, text := range map[string]string{"none": `[]`, "too many": `["0000000000000000","0000000000000000"]`,
		"no list": `{}`, "numbers": `[1]`, "short": `["00"]`, "large": `["000000000000000A"]`,
		"another": `["0000000000000000"]`} {
		dir := write(t, plainArrays(t), WriterOptions{})
		forge(t, dir, part(func(p *Part) { p.ChunkXXH3 = json.RawMessage(text) }))
		scrubbed := expect.Must(Check(context.Background(), dir, CheckOptions{Scrub: true, Rate: 1 << 50}))(t)
		d := open(t, dir)
		lines[name] = fmt.Sprint(problems(t, dir), " | ", linesOf(t, dir, scrubbed.Problems...), " | ",
			expect.Line(t, d.Verify(unified.FromSlice(d.Graph().Indptr()).Bytes()), dir))
	}
	said(t, "checksums", lines)
	b := newSums(nil)
	expect.That(t, string(b) == "[]", "no checksums are written as %s", b)
}

// TestGraphsOfManyTypesAreChecked: of one edge type between two node types, and of 300 edge types.
func TestGraphsOfManyTypesAreChecked(t *testing.T) {
	two := graph.Arrays{Schema: plainSchema(2, 2), Indptr: unified.FromSlice([]int64{0, 0, 0, 2}),
		Indices: unified.FromSlice([]int32{0, 1})}
	two.Schema.Nodes = append(two.Schema.Nodes, graph.NodeType{Name: "other", Count: 1})
	two.Schema.Edges[0].Target = "other"
	many := graph.Arrays{Schema: plainSchema(3, 1), Indptr: unified.FromSlice([]int64{0, 3, 4, 6}),
		Indices: unified.FromSlice([]int32{1, 1, 2, 0, 2, 2}), Types: unified.FromSlice([]uint16{0, 255, 256, 299, 7,
			7}),
		EdgeIDs: unified.FromSlice([]int64{0, 1, 2, 3, 4, 5})}
	for i := 1; i < 300; i++ {
		n := map[int]int64{7: 2, 255: 1, 256: 1, 299: 1}[i]
		many.Schema.Edges = append(many.Schema.Edges, graph.EdgeType{Source: "node", Relation: fmt.Sprint(i),
			Target: "node", Count: n})
	}
	wide := func(i int, v uint64) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[8*i:], v) }
	}
	lines := map[string]string{}
	for name, c := range map[string]struct {
		a      graph.Arrays
		path   string
		change func([]byte)
	}{
		"two, fine":           {two, "graph/indices.arrow", func([]byte) {}},
		"two, another target": {two, "graph/indptr.arrow", wide(2, 1)},
		"two, another source": {two, "graph/indices.arrow", func(b []byte) { b[4] = 2 }},
		"two, descending":     {two, "graph/indices.arrow", func(b []byte) { b[0] = 1; b[4] = 0 }},
		"many, fine":          {many, "graph/indices.arrow", func([]byte) {}},
		"many, type":          {many, "graph/type.arrow", func(b []byte) { b[7] = 2 }},
		"many, types":         {many, "graph/type.arrow", func(b []byte) { b[5] = 0 }},
		"many, counts":        {many, "graph/type.arrow", func(b []byte) { b[6]-- }},
		"many, ids equal":     {many, "graph/edge_id.arrow", wide(5, 4)},
		"many, ids less":      {many, "graph/edge_id.arrow", wide(5, 3)},
		"many, indptr":        {many, "graph/indptr.arrow", wide(2, 7)},
		"many, indptr's end":  {many, "graph/indptr.arrow", wide(3, 5)},
		"many, indptr's 0":    {many, "graph/indptr.arrow", wide(0, 1)},
	} {
		dir := write(t, c.a, WriterOptions{})
		reseal(t, dir, c.path, c.change)
		lines[name] = problems(t, dir)
	}
	said(t, "types", lines)
}

// TestWhatADatasetLacksIsNamed, with what there is.
func TestWhatADatasetLacksIsNamed(t *testing.T) {
	dir, _ := writeLinks(t)
	d := open(t, dir)
	_, noStrings := d.Strings(1, "x")
	_, noLinks := d.Links("x", 3)
	_, noSplit := d.Split("x", 3)
	lines := map[string]string{}
	for name, err := range map[string]error{"strings": noStrings, "links": noLinks, "split": noSplit} {
		lines[name] = expect.Line(t, err, dir)
	}
	said(t, "lacking", lines)
	if seeds, err := d.Split("valid", 0); err != nil || len(seeds.Edges) != 2 || seeds.Edges[1].Labels[1] != 0 {
		t.Errorf("links as seeds: %+v, %v", seeds, err)
	}
	seeds, err := d.Split("train", 1)
	expect.That(t, err == nil && len(seeds.Sets) == 2, "nodes as seeds: %+v, %v", seeds, err)
}

// TestADatasetThatWasRemovedMeanwhileIsReplacedAllTheSame.
func TestADatasetThatWasRemovedMeanwhileIsReplacedAllTheSame(t *testing.T) {
	dir := write(t, typedArrays(t), WriterOptions{})
	g := newGraph(t, plainArrays(t))
	w := expect.Must(Create(dir, WriterOptions{Force: true}))(t)
	expect.OK(t, w.writeArrays(context.Background(), g), os.RemoveAll(dir), w.Commit(*g.Schema()))
	requireEqualGraphs(t, g, open(t, dir).Graph())
	requireEqualNames(t, filepath.Dir(dir), filepath.Dir(write(t, plainArrays(t), WriterOptions{})))
}

// TestManifestsOfAnotherFormAreRefused, with the whole text.
func TestManifestsOfAnotherFormAreRefused(t *testing.T) {
	const content = `{"chunk_bytes": 4096, "node_types": [], "edge_types": [], "columns": [], "splits": []}`
	whole := string(asContent([]byte(content)))
	lines := map[string]string{}
	for name, change := range map[string][2]string{
		"no format": {`"format": [1, 0]`, `"format": []`}, "three": {`"format": [1, 0]`, `"format": [1, 0, 0]`},
		"version":  {`"format": [1, 0]`, `"format": [3, 7]`},
		"a text":   {`"format": [1, 0]`, `"format": "1.0"`},
		"requires": {`"requires": []`, `"requires": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]`},
		"short id": {`"id": "`, `"id": "0`}, "odd id": {`"id": "`, `"id": "x", "i": "`},
		"large id":      {`"id": "`, `"id": "ABCDEFABCDEFABCDEFABCDEFABCDEFAB", "i": "`},
		"another id":    {`"id": "`, `"id": "00000000000000000000000000000000", "i": "`},
		"a later minor": {`"format": [1, 0]`, `"format": [1, 7]`},
		"fine":          {`"provenance": {}`, `"provenance": {"a": 1, "b": "c", "d": {"e": [null]}}`},
	} {
		m, err := parseManifest(seal(strings.Replace(whole, change[0], change[1], 1)))
		lines[name] = expect.Line(t, err, "")
		if m != nil {
			lines[name] += fmt.Sprint(" ", m.Provenance, m.Generation, m.Format)
		}
	}
	for name, content := range map[string]string{"a list": `[]`, "counts": `{"node_types": [{"count": "1"}]}`} {
		_, err := parseManifest(asContent([]byte(content)))
		lines[name] = expect.Line(t, err, "")
	}
	for name, text := range map[string]string{"nothing": "", "an end": manifestEnd, "a sum": strings.Repeat("0", 16) +
		manifestEnd, "no sum": strings.Repeat("0", 40) + manifestEnd, "cut": whole[:len(whole)-1]} {
		_, err := parseManifest([]byte(text))
		lines[name] = expect.Line(t, err, "")
	}
	said(t, "form", lines)
}

// TestAGraphTakesWhatWasExpected of the disk, small and large, and little less.
func TestAGraphTakesWhatWasExpected(t *testing.T) {
	for _, a := range []graph.Arrays{plainArrays(t), typedArrays(t), randomArrays(t, 4, 140_000, 3)} {
		d := open(t, write(t, a, WriterOptions{}))
		expected, most := graphBytes(newGraph(t, a)), int64(1<<16)
		for _, p := range d.Manifest().parts() {
			if most += 2 * 128; p.Bytes >= 1<<20 {
				most += 64 << 10
			}
		}
		if is := d.FileBytes(); expected < is || expected > is+most {
			t.Errorf("%d bytes were expected, at most %d more than there are; there are %d", expected, most, is)
		}
	}
}

func TestCheckTellsProgress(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	done, total := int64(-1), int64(0)
	_, err := Check(context.Background(), dir, CheckOptions{Progress: func(_ string, d, n int64) {
		done, total = d,
			n
	}})
	bytes := int64(0) // of what is hashed, and of what is looked at once more
	for _, p := range manifestOf(t, dir).parts() {
		bytes += p.Bytes
	}
	expect.That(t, err == nil && done == total && total >= bytes && total <= 3*bytes,
		"told %d of %d, where the arrays have %d bytes, %v", done, total, bytes, err)
}
