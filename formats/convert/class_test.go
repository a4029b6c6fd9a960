package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// knowledge is a knowledge graph of this number of relations, with a split of links that has some of them.
func knowledge(t *testing.T, relations int) string {
	t.Helper()
	var train, valid strings.Builder
	for i := range relations {
		fmt.Fprintf(&train, "e%d\tr%d\te%d\n", i%7, i, i%5+1)
		if i%2 == 1 {
			fmt.Fprintf(&valid, "e%d\tr%d\te%d\n", i%5, i, i%3)
		}
	}
	return files(t, map[string]string{"train.txt": train.String(), "valid.txt": valid.String(),
		"test.txt": "e0\tr0\te1\n"})
}

// works are conversions, an addition and a merge, that between them do all that there is.
func works(t *testing.T) map[string]func(ctx context.Context, dst string, memory int64) error {
	run := func(src string, opt Options) func(ctx context.Context, dst string, memory int64) error {
		return func(ctx context.Context, dst string, memory int64) error {
			opt.MemoryLimit = memory
			_, err := Run(ctx, src, dst, opt)
			return err
		}
	}
	library, names := newLibrary(3).write(t), write(t, "n.csv", "src,dst,weight\na,b,1\nb,c,2\nd,a,3\na,a,4\n")
	features := npyMatrix(t, 4, 3, make([]float32, 12))
	whole := filepath.Join(t.TempDir(), "whole.khop")
	expect.Must(Run(t.Context(), library, whole, Options{}))(t)
	heat := func(_ context.Context, indptr []int64, _ unified.Tensor, _ []int64) ([]float64, error) {
		return make([]float64, len(indptr)-1), nil
	}
	return map[string]func(ctx context.Context, dst string, memory int64) error{
		"folder": run(library, Options{Reorder: ReverseCuthillMcKee, RowStride: 64}),
		"heat":   run(library, Options{Reorder: ByHeat, Heat: heat}),
		"names": run(names, Options{Reorder: ByDegree, Features: features, FeatureDType: []string{"int8"},
			Loops: AddLoops}),
		"labels":  run(names, Options{Labels: npyFile(t, []int32{1, 0, 2, 1}), Merge: MergeMax, Direction: Symmetrise}),
		"triples": run(knowledge(t, 9), Options{RelationsAsTypes: true}),
		"tasks": func(ctx context.Context, dst string, memory int64) error {
			_, err := inTasks(ctx, library, dst, 3, Options{MemoryLimit: memory})
			return errors.Join(err, CleanTasks(context.Background(), dst))
		},
		"add": func(ctx context.Context, dst string, memory int64) error {
			if err := os.CopyFS(dst, os.DirFS(whole)); err != nil {
				return err
			}
			_, err := Add(ctx, dst, adds(AddOptions{MemoryLimit: memory},
				extra{nodeColumn, "x", "paper", numpy(t, expect.NPY(make([]int64, 80)))},
				extra{nodeColumn, "label", "author", numpy(t, expect.NPY(make([]int64, 30)))}))
			if err != nil {
				return errors.Join(err, os.RemoveAll(dst))
			}
			return nil
		},
	}
}

// TestEveryLookAtTheContextEndsTheWork, with the context's cause and nothing left behind.
func TestEveryLookAtTheContextEndsTheWork(t *testing.T) {
	for name, work := range works(t) {
		for looks := 0; ; looks++ {
			ctx := expect.EndsAfter(context.Background(), int64(looks))
			dir := t.TempDir()
			err := work(ctx, filepath.Join(dir, "x"), 0)
			if err == nil {
				expect.That(t, looks >= 1, "%s looks %d times", name, looks)
				break
			}
			if left, _ := os.ReadDir(dir); !errors.Is(err, context.Canceled) || len(left) > 0 {
				t.Fatalf("%s, look %d: %v; left behind: %v", name, looks, err, left)
			}
		}
	}
}

// TestAnyLimitOfMemoryIsEnoughOrIsNamed: with more and more memory, from too little on, there is the same
// dataset, or nothing and an error that says what to allow.
func TestAnyLimitOfMemoryIsEnoughOrIsNamed(t *testing.T) {
	for name, work := range works(t) {
		if name == "merge" {
			continue // it takes none
		}
		refused, ids := 0, map[string]bool{}
		for memory, enough := int64(64), 0; enough < 3; memory = memory*3/2 + 1 {
			dir := t.TempDir()
			dst := filepath.Join(dir, "x")
			err := work(t.Context(), dst, memory)
			left, _ := os.ReadDir(dir)
			if err != nil {
				refused++
				expect.Ensure(t, errors.Is(err, pinned.ErrLimit) && strings.Contains(err.Error(), "allow at least") &&
					len(left) == 0, "%s in %d bytes: %v; left behind: %v", name, memory, err, left)
				continue
			}
			enough++
			ds := expect.Must(formats.Open(dst))(t)
			ids[fmt.Sprintf("%x", ds.ID())] = true
			err = ds.Close()
			expect.That(t, err == nil && len(left) == 1, "%s in %d bytes: %v; there are %v", name, memory, err, left)
		}
		expect.That(t, len(ids) == 1 && refused != 0, "%s: %d datasets; refused %d times", name, len(ids), refused)
	}
}

// TestLinksArePutByTheirTypes, those of type 0 also where there are none.
func TestLinksArePutByTheirTypes(t *testing.T) {
	k := source.Link{Name: "valid", Index: 3, Src: []int64{1, 2, 3}, Dst: []int64{4, 5, 6}, Labels: []int64{7, 8, 9}}
	spell := func(types []int64, labels bool, n int) (s []string) {
		k := k
		if k.Types = types; !labels {
			k.Labels = nil
		}
		for _, p := range byType(&k, n) {
			s = append(s, fmt.Sprintf("%d %s %d %v %v %v %t", p.typ, p.Name, p.Index, p.Src, p.Dst, p.Labels,
				p.Src == nil))
		}
		return s
	}
	for _, c := range []struct{ got, want []string }{
		{spell(nil, true, 1), []string{"0 valid 3 [1 2 3] [4 5 6] [7 8 9] false"}},
		{spell([]int64{2, 0, 2}, true, 4), []string{"0 valid 3 [2] [5] [8] false",
			"2 valid 3 [1 3] [4 6] [7 9] false"}},
		{spell([]int64{1, 1, 1}, false, 2), []string{"0 valid 3 [] [] [] false", "1 valid 3 [1 2 3] [4 5 6] [] false"}},
	} {
		expect.That(t, slices.Equal(c.got, c.want), "got  %q\nwant %q", c.got, c.want)
	}
}

// TestTasksOfManyNodesMakeTheirDataset: more than a buffer of them.
func TestTasksOfManyNodesMakeTheirDataset(t *testing.T) {
	const n = 100_000
	src := write(t, "e.npy", string(expect.NPY([]int64{0, n - 1, n - 1, 0, n / 2, 7, n/3 + 1, n / 2}, 4, 2)))
	_, whole := convert(t, src, Options{})
	for _, of := range []int{1, 2, 5} {
		tasksMake(t, whole, src, of, Options{})
	}
}

// TestWhatIsUnderstoodIsLogged, and what is found noted, to the letter.
func TestWhatIsUnderstoodIsLogged(t *testing.T) {
	src := write(t, "e.csv", "src,dst\n0,1\n1,0\n0,1\n0,1\n2,2\n1,2\n")
	for _, c := range []struct {
		opt   Options
		notes []string
		log   string
	}{
		{Options{}, []string{"2 edges are parallel to an earlier one, and kept"},
			"3 nodes, 6 edges as listed: ordering " +
				"takes at most 262 kB (256 KiB) of memory, 0 B of temporary files beside the dataset, and about 1s"},
		{Options{Direction: Symmetrise}, []string{"1 edge was listed in both directions: stored once each way",
			"4 edges are parallel to an earlier one, and kept"},
			"12 edges (both directions, self-loops once, by request)"},
		{Options{Direction: Directed, Merge: MergeFirst}, []string{
			"2 edges were merged into an earlier one between the same nodes"}, "(directed, as listed, by request)"},
		{Options{Loops: DropLoops, Merge: MergeSum}, []string{
			"2 edges were merged into an earlier one between the same nodes", "1 self-loop was dropped"},
			"6 edges (directed, as listed), about 56 B"},
		{Options{Loops: AddLoops}, []string{"2 edges are parallel to an earlier one, and kept",
			"2 self-loops were added"}, "9 edges (directed, as listed), about 68 B"},
		{Options{RowStride: 64}, []string{"no column of nodes has rows of several numbers: RowStride changes none",
			"2 edges are parallel to an earlier one, and kept"}, ""},
	} {
		var log []string
		opt := c.opt
		opt.Log = func(line string) { log = append(log, line) }
		res := expect.Must(Run(t.Context(), src, filepath.Join(t.TempDir(), "x"), opt))(t)
		expect.That(t, noteText(res) == strings.Join(c.notes, "\n"), "%+v: notes %q", c.opt, res.Notes)
		expect.That(t, strings.Contains(strings.Join(log, "\n"), c.log), "%+v: log %q lacks %q", c.opt, log, c.log)
		for _, n := range c.notes {
			expect.That(t, slices.Contains(log, "note: "+n), "%+v: the note %q is not in the log", c.opt, n)
		}
	}
}

func npyText(t *testing.T) string {
	t.Helper()
	return write(t, "x.npy", "\x93NUMPY\x01\x00\x3a\x00{'descr': '<U4', 'fortran_order': False, "+
		"'shape': (3,), }  \n \n"+strings.Repeat("x", 48))
}

func cutShort(t *testing.T, path string) string {
	t.Helper()
	expect.OK(t, os.Truncate(path, 600))
	return path
}

// refusing takes this number of bytes, and then refuses.
type refusing struct{ left int }

var errRefused = errors.New("refused")

func (w *refusing) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errRefused
	}
	return len(p), nil
}

// TestRowsThatCannotBeWrittenAreAnError: narrow ones, padded ones, those in another order; after any number of them.
func TestRowsThatCannotBeWrittenAreAnError(t *testing.T) {
	const rows = 200_000
	data := make([]byte, 8*rows)
	col := source.Bytes(graph.Column{Name: "x", DType: unified.Float32, Shape: []int64{2}}, data)
	c := &conversion{graph: source.Plain(), opt: Options{RowStride: 16}}
	c.budget.Dir = t.TempDir()
	c.graph.Node().Count = rows
	old := make([]uint32, rows)
	as := func(dtype unified.DType, width int64) graph.Column {
		return graph.Column{Name: "x", DType: dtype, Shape: []int64{width}}
	}
	for name, write := range map[string]func(context.Context, io.Writer) error{
		"narrow": c.narrowed(col, as(unified.Float16, 2), rows).Write,
		"scales": c.narrowWriter(col, graph.Column{DType: unified.Float32}),
		"coded":  c.narrowWriter(col, expect.Must(as(unified.Float32, 2).Coded("int4"))(t)),
		"padded": c.padded(col, rows).Write, "ordered": c.permuted(old, col),
	} {
		var out bytes.Buffer
		if err := write(t.Context(), &out); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, left := range []int{0, 1, out.Len() / 2, out.Len() - 1} {
			err := write(t.Context(), &refusing{left})
			expect.That(t, errors.Is(err, errRefused), "%s, after %d of %d bytes: %v", name, left, out.Len(), err)
		}
		expect.Is(t, write(t.Context(), &refusing{out.Len()}), nil, name)
	}
	short := source.Bytes(graph.Column{Name: "x", DType: unified.Int32}, make([]byte, 4*rows-4))
	err := c.permuted(old, short)(t.Context(), io.Discard)
	expect.That(t, err != nil && err.Error() == `column "x" has 799996 bytes for 200000 nodes`,
		"a column that is short: %v", err)
	left, _ := os.ReadDir(c.budget.Dir)
	expect.That(t, len(left) == 0, "left behind: %v", left)
}

// TestNumbersBeyondTheirLimitsAreRefused: of nodes that are converted, and of those that are numbered anew.
func TestNumbersBeyondTheirLimitsAreRefused(t *testing.T) {
	for _, n := range []int64{maxNodes, maxNodes + 1} {
		c := &conversion{graph: source.Plain(), src: "x"}
		c.graph.Node().Count = n
		if _, err := c.plan(); (err != nil) != (n > maxNodes) || err != nil && err.Error() !=
			"x: there are 281474976710657 nodes; number the nodes from 0, or take the ids as names" {
			t.Errorf("%d nodes: %v", n, err)
		}
	}
	for _, n := range []int64{math.MaxUint32, math.MaxUint32 + 1} {
		c := &conversion{graph: source.Plain(), opt: Options{Reorder: ByDegree}}
		c.ledger.SetLimit(1)
		c.graph.Node().Count = n
		err := c.reorder(t.Context(), &order{c: c})
		large := errors.Is(err, ErrOptions)
		expect.That(t, large == (n > math.MaxUint32) && (large || errors.Is(err, pinned.ErrLimit)), "%d nodes: %v", n,
			err)
	}
	g := source.Plain()
	g.Node().Count = 3
	g.Splits = []source.Split{{Name: "train", IDs: []int64{0, 3}}}
	c := &conversion{graph: g, src: "x"}
	err := c.renumber(&numbering{types: []anew{{[]uint32{2, 1, 0}, []uint32{2, 1, 0}}}})
	expect.That(t, err != nil && err.Error() == `x: split "train": node 3 is not below 3`, "a split: %v", err)
}

// TestAnIDThatIsNoNodesIsRefused by what numbers nodes, before edges are sorted.
func TestAnIDThatIsNoNodesIsRefused(t *testing.T) {
	for _, end := range []string{"source", "destination"} {
		for id, fine := range map[int64]bool{-1: false, 0: true, 3: true, 4: false} {
			g := source.Plain()
			g.Node().Count, g.Edges.Count = 4, 3
			b := source.Batch{Src: []int64{0, 1, 2}, Dst: []int64{1, 2, 3}}
			if end == "source" {
				b.Src[1] = id
			} else {
				b.Dst[1] = id
			}
			g.Edges.Each = func(yield func(source.Batch) error) error { return errors.Join(yield(b), yield(b)) }
			c := &conversion{graph: g, src: "x", opt: Options{Reorder: ByDegree}}
			err := c.reorder(t.Context(), &order{c: c})
			want := fmt.Sprintf("x: edge 1: %s %d is not below 4 nodes", end, id)
			if id < 0 {
				want = fmt.Sprintf("x: edge 1: %s %d is negative", end, id)
			}
			expect.That(t, (err == nil) == fine && (err == nil || strings.HasPrefix(err.Error(), want)), "%s %d: %v",
				end, id, err)
		}
	}
}

// TestNumberingByDegreeTakesWhatItSays: 16 bytes a node, and not one less.
func TestNumberingByDegreeTakesWhatItSays(t *testing.T) {
	for _, missing := range []int64{0, 1} {
		c := &conversion{graph: source.Plain(), src: "x", opt: Options{Reorder: ByDegree}}
		c.graph.Node().Count = 1000
		c.graph.Edges.Each = func(func(source.Batch) error) error { return nil }
		c.ledger.SetLimit(16_000 - missing)
		err := c.reorder(t.Context(), &order{c: c})
		expect.That(t, (missing != 0 || err == nil) && (missing <= 0 || errors.Is(err, pinned.ErrLimit) &&
			strings.HasPrefix(err.Error(), "number 1000 nodes anew: ")), "%d bytes less: %v", missing, err)
		expect.OK(t, c.graph.Close())
	}
}

// TestColumnsThatLieTogetherFailAsOne: without memory, not written, or short; nothing stays counted.
func TestColumnsThatLieTogetherFailAsOne(t *testing.T) {
	for name, c := range map[string]struct {
		limit int64
		write func(to []io.Writer) error
		fine  bool
	}{
		"fine":   {0, func(to []io.Writer) error { return writeEach(to, 8) }, true},
		"memory": {2*arrayfile.WriterMemory - 1, func(to []io.Writer) error { return writeEach(to, 8) }, false},
		"error":  {0, func([]io.Writer) error { return errRefused }, false},
		"short":  {0, func(to []io.Writer) error { return writeEach(to, 7) }, false},
		"long":   {0, func(to []io.Writer) error { return writeEach(to, 9) }, false},
	} {
		conv := &conversion{graph: source.Plain()}
		conv.ledger.SetLimit(c.limit)
		conv.graph.Node().Count = 1
		table := &source.Together{Write: func(_ context.Context, _ []int, to []io.Writer) error { return c.write(to) }}
		var list []source.Column
		for _, name := range []string{"a", "b"} {
			list = append(list, source.Column{Column: graph.Column{Name: name, DType: unified.Int64}, Together: table})
		}
		w := expect.Must(formats.Create(filepath.Join(t.TempDir(), "x"), formats.WriterOptions{}))(t)
		err := conv.writeSome(t.Context(), w, 0, list)
		expect.That(t, (err == nil) == c.fine && conv.ledger.Total() == 0, "%s: %v; %d bytes stay counted", name, err,
			conv.ledger.Total())
		again := conv.writeSome(t.Context(), w, 0, list)
		expect.That(t, !c.fine || errors.Is(again, formats.ErrExist), "%s: a column is written twice: %v", name, again)
		expect.OK(t, w.Abort())
	}
}

func writeEach(to []io.Writer, n int) error {
	for _, w := range to {
		if _, err := w.Write(make([]byte, n)); err != nil {
			return err
		}
	}
	return nil
}
