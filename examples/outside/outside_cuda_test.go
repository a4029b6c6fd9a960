//go:build cuda

package outside

import (
	"context"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// openDevice fails where there is no device: this file is only built for one.
func openDevice(t *testing.T) (*device.Device, *device.Stream) {
	t.Helper()
	d, err := device.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, close := range []func() error{stream.Close, d.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	return d, stream
}

func TestDeviceMakesTheSameBatchesAndRows(t *testing.T) {
	d, stream := openDevice(t)
	g, store := example(t)
	var digests []uint64
	var rows [][]float32
	for batch, err := range load(t, g, "cpu").Epoch(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		topology, _ := batch.Digest()
		ids := view(t, batch.Sample.Nodes[0])
		out := make([]float32, len(ids)*width)
		store.Gather(out, ids)
		digests, rows = append(digests, topology), append(rows, out)
	}
	uploaded, err := store.Upload(d, stream)
	if err != nil {
		t.Fatal(err)
	}
	defer uploaded.Close()
	var dst unified.Buffer
	dst.Options = pinned.Options{Device: d}
	defer dst.Close()
	n := 0
	for batch, err := range load(t, g, "cuda").Epoch(context.Background(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if topology, _ := batch.Digest(); topology != digests[n] || batch.Device() != "cuda:0" {
			t.Fatalf("batch %d of %s differs from the CPU's", n, batch.Device())
		}
		if err := batch.Wait(stream.Handle()); err != nil {
			t.Fatal(err)
		}
		x, err := uploaded.Enqueue(stream, &dst, batch.Sample.Nodes[0])
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, x.Len()*width)
		if err := stream.CopyToHost(unified.FromSlice(got).Bytes(), x.Address()); err != nil {
			t.Fatal(err)
		}
		if err := stream.Synchronize(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, rows[n]) {
			t.Fatalf("batch %d: rows differ from the CPU's", n)
		}
		n++
	}
	if n != len(digests) {
		t.Errorf("%d batches, the CPU makes %d", n, len(digests))
	}
}
