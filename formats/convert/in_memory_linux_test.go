package convert

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// inBoth is a graph as arrays in memory, and as files of them.
type inBoth struct {
	folder string
	rows   map[string]unified.Tensor
}

func giveBoth[T unified.Element](t *testing.T, b *inBoth, name string, v []T) {
	t.Helper()
	file := filepath.Join(b.folder, name+".npy")
	expect.OK(t, os.MkdirAll(filepath.Dir(file), 0o777))
	expect.OK(t, os.WriteFile(file, expect.NPY(v), 0o600))
	b.rows[name] = unified.FromSlice(v)
}

// listOf makes a list of n, each as a function says.
func listOf[T any](n int64, one func() T) []T {
	list := make([]T, n)
	for i := range list {
		list[i] = one()
	}
	return list
}

// drawBoth draws a graph of several types, one in four of which khop convert refuses or has to note something of.
func drawBoth(t *testing.T, r *rand.Rand) *inBoth {
	b := &inBoth{filepath.Join(t.TempDir(), "graph"), map[string]unified.Tensor{}}
	counts := listOf(1+r.Int64N(3), func() int64 { return r.Int64N(40) + 1 })
	for i, n := range counts {
		of := fmt.Sprintf("nodes/n%d/", i)
		giveBoth(t, b, of+"num_nodes", []int64{n})
		switch r.IntN(6) {
		case 0:
			giveBoth(t, b, of+"node_time", listOf(n, func() int64 { return r.Int64N(9) - 4 }))
		case 1:
			giveBoth(t, b, of+"x", listOf(n, r.Float32))
		case 2:
			giveBoth(t, b, of+"y", listOf(n, func() int32 { return r.Int32N(5) }))
		}
	}
	for i := range 1 + r.IntN(4) {
		from, to, m := r.IntN(len(counts)), r.IntN(len(counts)), r.Int64N(120)
		of := fmt.Sprintf("edges/n%d__e%d__n%d/", from, i, to)
		giveBoth(t, b, of+"src", listOf(m, func() int64 { return r.Int64N(counts[from]) }))
		giveBoth(t, b, of+"dst", listOf(m, func() int64 { return r.Int64N(counts[to]) }))
		giveBoth(t, b, of+"edge_id", listOf(m, r.Int64))
		if r.IntN(2) == 0 {
			giveBoth(t, b, of+"edge_weight", listOf(m, r.Float64))
		}
		if m > 0 {
			spoil(t, r, b, of, m)
		}
	}
	return b
}

// spoil may make something of an edge type invalid, or worth a note.
func spoil(t *testing.T, r *rand.Rand, b *inBoth, of string, m int64) {
	ends, at := listOf(m, func() int64 { return 0 }), r.Int64N(m)
	switch r.IntN(24) {
	case 0:
		ends[at] = -1
		giveBoth(t, b, of+"src", ends)
	case 1:
		ends[at] = 1000
		giveBoth(t, b, of+"dst", ends)
	case 2:
		giveBoth(t, b, of+"dst", ends[1:])
	case 3:
		weights := listOf(m, r.Float32)
		weights[at] = float32(math.NaN())
		giveBoth(t, b, of+"edge_weight", weights)
	case 4:
		giveBoth(t, b, of+"edge_time", listOf(m, func() float64 { return r.Float64() * 1e9 }))
	case 5:
		giveBoth(t, b, of+"more", ends[1:])
	}
}

// A dataset in memory is that of a folder with the same arrays: its id, which covers every byte of every array, its
// notes, or the error.
func TestInMemoryIsWhatRunMakesOfAFolder(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 0))
	good, noted, refused := 0, 0, 0
	for range 300 {
		b := drawBoth(t, r)
		dir := filepath.Join(t.TempDir(), "x.khop")
		want, refusal := Run(t.Context(), b.folder, dir, Options{})
		ds, got, err := InMemory(t.Context(), b.rows, Options{})
		if refusal != nil || err != nil {
			said := strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(refusal), b.folder+"/", ""), b.folder, inMemory)
			expect.Ensure(t, refusal != nil && err != nil && err.Error() == said, "%v\nin memory: %v", refusal, err)
			refused++
			continue
		}
		for i := range want.Notes {
			want.Notes[i].Text = strings.NewReplacer("<i8", "int64", "<f4", "float32").Replace(want.Notes[i].Text)
		}
		expect.Ensure(t, reflect.DeepEqual(got.Notes, want.Notes), "%v\nin memory: %v", want.Notes, got.Notes)
		if good++; len(got.Notes) > 0 {
			noted++
		}
		onDisk := expect.Must(formats.Open(dir))(t)
		expect.Ensure(t, ds.ID() == onDisk.ID() && got.Edges == want.Edges, "ids %x and %x", onDisk.ID(), ds.ID())
		expect.OK(t, ds.VerifyTopology())
		for _, c := range ds.Graph().Schema().EdgeColumns {
			mine, _ := ds.Graph().EdgeColumn(c.Name)
			files, _ := onDisk.Graph().EdgeColumn(c.Name)
			expect.Ensure(t, slices.Equal(mine.Bytes(), files.Bytes()), "column %s of the edges", c.Name)
		}
		expect.OK(t, ds.Unchanged())
		expect.OK(t, ds.Close())
		expect.OK(t, onDisk.Close())
	}
	expect.That(t, good > 100 && noted > 10 && refused > 10, "%d datasets, %d with notes, %d refused", good, noted,
		refused)
}

// A graph in memory leaves no file open and no memory mapped once it is closed, or refused.
func TestInMemoryLeavesNothingOpen(t *testing.T) {
	open := func() (files, maps int) {
		for _, l := range expect.Must(os.ReadDir("/proc/self/fd"))(t) {
			if to, _ := os.Readlink("/proc/self/fd/" + l.Name()); strings.Contains(to, "khop-graph") {
				files++
			}
		}
		return files, strings.Count(string(expect.Must(os.ReadFile("/proc/self/maps"))(t)), "khop-graph")
	}
	ids := unified.FromSlice([]int64{0, 1, 2})
	rows := map[string]unified.Tensor{"src": ids, "dst": ids}
	ds, _, err := InMemory(t.Context(), rows, Options{})
	expect.OK(t, err)
	files, maps := open()
	expect.That(t, files == 0 && maps > 0, "%d files and %d mappings of an open graph", files, maps)
	expect.OK(t, ds.Close())
	rows["x"] = unified.FromSlice([]float32{1})
	ds, _, err = InMemory(t.Context(), rows, Options{})
	expect.That(t, ds == nil && err != nil, "features of one node of three: %v", err)
	files, maps = open()
	expect.That(t, files == 0 && maps == 0, "%d files and %d mappings stay", files, maps)
}
