//go:build !race

package convert

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// knownSources are small sources of each kind that conversions treat in a way of its own.
func knownSources(t *testing.T, dir string) map[string]string {
	t.Helper()
	r := rand.New(rand.NewPCG(20261123, 10))
	put := func(name, text string) string {
		put(t, dir, map[string]string{name: text})
		return filepath.Join(dir, name)
	}
	var pairs, timed, names strings.Builder
	timed.WriteString("src,dst,weight,time\n")
	for range 90 {
		u, v := r.IntN(25), r.IntN(25)
		fmt.Fprintln(&pairs, u, v)
		fmt.Fprintf(&timed, "%d,%d,%d,%d\n", u, v, r.IntN(9), r.IntN(40))
		fmt.Fprintf(&names, "n%d n%d\n", u*7, v*7)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	ends, x, y := make([]int64, 120), make([]float32, 25*3), make([]int64, 25)
	for i := range ends {
		ends[i] = r.Int64N(25)
	}
	for i := range x {
		x[i] = r.Float32()
	}
	for i := range y {
		y[i] = r.Int64N(4)
	}
	members := map[string][]byte{"edge_index": expect.NPY(ends, 2, 60), "x": expect.NPY(x, 25, 3),
		"y": expect.NPY(y, 25), "train_idx": expect.NPY([]int64{3, 1, 9}, 3)}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		w, err := z.Create(name + ".npy")
		if err == nil {
			_, err = w.Write(members[name])
		}
		expect.OK(t, err)
	}
	expect.OK(t, z.Close())
	put("features.npy", string(expect.NPY(x, 25, 3)))
	put("labels.npy", string(expect.NPY(y, 25)))
	put("few.npy", string(expect.NPY(y[:9], 9)))
	return map[string]string{"pairs": put("pairs.txt", pairs.String()), "timed": put("timed.csv", timed.String()),
		"names": put("names.txt", names.String()), "archive": put("archive.npz", archive.String())}
}

// knownOptions are what each source is converted with.
func knownOptions(dir string) map[string]Options {
	in := func(name string) string { return filepath.Join(dir, name) }
	return map[string]Options{
		"as given": {}, "directed": {Direction: Directed}, "symmetrised": {Direction: Symmetrise},
		"first": {Merge: MergeFirst}, "sum": {Merge: MergeSum, Direction: Symmetrise}, "max": {Merge: MergeMax},
		"no loops": {Loops: DropLoops}, "loops": {Loops: AddLoops, Direction: Symmetrise}, "by time": {ByTime: true},
		"features": {Features: in("features.npy"), Labels: in("labels.npy")}, "few labels": {Labels: in("few.npy")},
		"no features": {Features: in("labels.npy")}, "none there": {Features: in("none.npy")},
		"narrow":   {Features: in("features.npy"), FeatureDType: []string{"int8"}},
		"half":     {Features: in("features.npy"), FeatureDType: []string{"float16"}, RowStride: 64},
		"degree":   {Reorder: ByDegree, Features: in("features.npy")},
		"breadth":  {Reorder: BreadthFirst, Labels: in("labels.npy")},
		"tiny":     {MemoryLimit: 1000},
		"as names": {IDs: "names"}, "renamed": {Columns: []string{"dst", "src"}},
		"two types": {Columns: []string{"src:user", "dst:item"}},
	}
}

// A source converts to the same dataset in every version, with the same notes, or is refused for the same.
func TestConversionsMakeWhatTheyMadeAndSayWhatTheySaid(t *testing.T) {
	dir := t.TempDir()
	sources, options := knownSources(t, dir), knownOptions(dir)
	var got strings.Builder
	for _, of := range []string{"pairs", "timed", "names", "archive"} {
		for _, name := range slices.Sorted(maps.Keys(options)) {
			to := filepath.Join(t.TempDir(), "x.khop")
			res, err := Run(t.Context(), sources[of], to, options[name])
			fmt.Fprintf(&got, "%s, %s: ", of, name)
			if err != nil {
				fmt.Fprintln(&got, expect.Line(t, err, dir))
				continue
			}
			ds := expect.Must(formats.Open(to))(t)
			id := ds.ID()
			fmt.Fprintf(&got, "%x, %d nodes, %d of %d edges, %s, %d wide, %d classes, %d splits, %d bytes", id[:6],
				res.Nodes, res.Edges, res.SourceEdges, res.Direction, res.FeatureDim, res.Classes, res.Splits,
				res.Bytes)
			for _, note := range res.Notes {
				fmt.Fprint(&got, " ", expect.TextLine(t, note.Text, dir))
			}
			fmt.Fprintln(&got)
			expect.OK(t, ds.Close())
		}
	}
	expect.Golden(t, "testdata/known.txt", got.String())
}
