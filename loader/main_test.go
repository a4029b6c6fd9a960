package loader_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// open makes a loader on the CPU, unless opt names a device, whatever devices there are.
func open(t testing.TB, src loader.Source, opt loader.Options) *loader.Loader {
	t.Helper()
	if opt.Device.Name == "" {
		opt.Device.Name = "cpu"
	}
	l := expect.Must(loader.New(src, opt))(t)
	t.Cleanup(func() {
		expect.OK(t, l.Close())
		m := l.Stats().Memory
		expect.That(t, m.Total() == 0, "memory held after Close: %+v", m)
	})
	return l
}

var neighbor = sampling.Neighbor{Fanouts: []int{4, 3}, Frontier: sampling.AllNodes}

// each ranges over batches, none of which may fail.
func each(t testing.TB, batches iter.Seq2[*loader.Batch, error]) iter.Seq[*loader.Batch] {
	return func(yield func(*loader.Batch) bool) {
		t.Helper()
		for b, err := range batches {
			if expect.OK(t, err); !yield(b) {
				return
			}
		}
	}
}

// digests collects "number padded topology full" of all batches.
func digests(t testing.TB, seq iter.Seq2[*loader.Batch, error]) (list []string) {
	t.Helper()
	for b := range each(t, seq) {
		list = append(list, digestOf(b))
	}
	return list
}

func digestOf(b *loader.Batch) string {
	topology, full := b.Digest()
	return fmt.Sprintf("%d %d %t %016x %016x", b.Epoch, b.Number, b.Padded, topology, full)
}

func view[T unified.Element](t testing.TB, x unified.Tensor) []T {
	t.Helper()
	return expect.Must(unified.View[T](x))(t)
}

// seedsOf returns the seeds of type 0 as they were asked for.
func seedsOf(t testing.TB, b *loader.Batch) (ids []int32) {
	t.Helper()
	nodes := view[int32](t, b.Sample.Nodes[0])
	for _, i := range view[int32](t, b.Sample.SeedLocal[0]) {
		ids = append(ids, nodes[i])
	}
	return ids
}

var background = context.Background()
