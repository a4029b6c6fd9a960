package loader_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// codedData converts 60 nodes with 47 numbers each, which int4 holds as they are, with some options.
func codedData(t *testing.T, opt convert.Options) *formats.Dataset {
	t.Helper()
	dir, n, width := t.TempDir(), 60, 47
	var values []float64
	edges := ""
	for v := range n {
		for i := range width {
			values = append(values, codedNumber(int64(v), i))
		}
		edges += "0 " + string(rune('0'+v%10)) + "\n"
	}
	src, features, to := filepath.Join(dir, "e.txt"), filepath.Join(dir, "x.npy"), filepath.Join(dir, "to")
	expect.OK(t, os.WriteFile(src, []byte(edges+"59 1\n"), 0o600))
	expect.OK(t, os.WriteFile(features, expect.NPY(values, n, width), 0o600))
	opt.Features, opt.IDs, opt.Loops = features, "numbers", convert.KeepLoops
	expect.Must(convert.Run(t.Context(), src, to, opt))(t)
	ds := expect.Must(formats.Open(to))(t)
	t.Cleanup(func() { expect.OK(t, ds.Close()) })
	return ds
}

// codedNumber is number i of node v: a quarter of -7 to 7, which all groups have.
func codedNumber(v int64, i int) float64 { return float64((int(v)+i)%15-7) / 4 }

// TestCodedRowsAreDeliveredAsNumbers of each type, or as they are stored, wherever the rows are.
func TestCodedRowsAreDeliveredAsNumbers(t *testing.T) {
	data := codedData(t, convert.Options{FeatureDType: []string{"feature=int4"}})
	for _, to := range []unified.DType{unified.Uint8, unified.Float32, unified.Float16, unified.BFloat16} {
		var widen []string
		if to != unified.Uint8 {
			widen = []string{"feature=" + to.String()}
		}
		for _, residence := range []loader.Residence{loader.Mapped, loader.Resident, loader.Disk} {
			l := expect.Must(loader.New(data, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}},
				Columns:   loader.ColumnOptions{Nodes: []string{"feature"}, Seeds: []string{}, Widen: widen},
				BatchSize: 7, Verify: true, Seeds: loader.AllNodes(), Residence: residence,
				Disk:   loader.DiskOptions{CacheBytes: 100},
				Device: loader.DeviceOptions{Name: "cpu"}}))(t)
			for b := range each(t, l.Epoch(background, 0)) {
				checkCoded(t, b, to)
			}
			expect.OK(t, l.Close())
		}
	}
}

func checkCoded(t *testing.T, b *loader.Batch, to unified.DType) {
	t.Helper()
	x, ids := b.Node(0, "feature"), idsOf(t, b.Sample.Nodes[0])
	if to == unified.Uint8 { // two scales, and 24 bytes of numbers
		expect.Ensure(t, x.DType() == to && x.Dim(1) == 28, "as stored: %v", x)
		return
	}
	expect.Ensure(t, x.DType() == to && x.Dim(0) == int64(len(ids)) && x.Dim(1) == 47, "%v", x)
	got := make([]float32, x.Len()*47)
	to.Floats(got, x.Bytes())
	for k, v := range got {
		want := codedNumber(ids[k/47], k%47)
		expect.Ensure(t, float64(v) == want, "%v: number %d of node %d is %g, not %g", to, k%47, ids[k/47], v, want)
	}
}

// TestNarrowBatchesAreTheSameHoweverTheyAreLoaded compares digests over workers and places of rows, of every type that
// is stored and delivered, and every order of nodes. They are the same in every build, on every processor.
func TestNarrowBatchesAreTheSameHoweverTheyAreLoaded(t *testing.T) {
	known := ""
	for _, stored := range []string{"float16", "bfloat16", "int8", "int4"} {
		data := codedData(t, convert.Options{FeatureDType: []string{"feature=" + stored}})
		for _, widen := range []string{"", "float32", "float16", "bfloat16"} {
			known += fmt.Sprintf("%s as %q: %s\n", stored, widen, sameHoweverLoaded(t, data, widenTo(widen)))
		}
	}
	for _, order := range []convert.Reorder{convert.ByDegree, convert.BreadthFirst,
		convert.ReverseCuthillMcKee, convert.ByCommunity} {
		data := codedData(t, convert.Options{FeatureDType: []string{"int4"}, Reorder: order})
		known += fmt.Sprintf("int4 in order %v: %s\n", order, sameHoweverLoaded(t, data, []string{"float32"}))
	}
	expect.Golden(t, "testdata/narrow.txt", known)
}

// sameHoweverLoaded returns a digest of two epochs, loaded in several ways.
func sameHoweverLoaded(t *testing.T, data *formats.Dataset, widen []string) (want string) {
	t.Helper()
	for _, c := range []struct {
		residence loader.Residence
		cache     int64
		pack      int64
		workers   int
	}{{loader.Mapped, 0, 0, 1}, {loader.Mapped, 0, 0, 3}, {loader.Resident, 0, 0, 2}, {loader.Disk, 1, 0, 1},
		{loader.Disk, 700, 0, 3}, {loader.Disk, 1 << 20, 0, 2}, {loader.Disk, 700, 1 << 20, 3}} {
		l := expect.Must(loader.New(data, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2, 3}},
			Columns:   loader.ColumnOptions{Nodes: []string{"feature"}, Widen: widen},
			BatchSize: 7, Seeds: loader.AllNodes(), Residence: c.residence, Workers: c.workers, Shuffle: true,
			Disk:   loader.DiskOptions{CacheBytes: c.cache, PackBytes: c.pack},
			Device: loader.DeviceOptions{Name: "cpu"}}))(t)
		of := xxh3.New()
		for epoch := range uint64(2) {
			for b := range each(t, l.Epoch(background, epoch)) {
				fmt.Fprintln(of, digestOf(b))
			}
		}
		expect.OK(t, l.Close())
		got := fmt.Sprintf("%016x", of.Sum64())
		if want == "" {
			want = got
		}
		expect.Ensure(t, got == want, "widened to %v, %v: batches differ", widen, c)
	}
	return want
}
