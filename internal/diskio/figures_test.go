package diskio

import (
	"testing"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/expect"
)

// Rows that lie at most a gap apart are read by one request.
func TestAGapCostsAsMuchAsARequest(t *testing.T) {
	p := disk.Probe{Shape: disk.Shape{Page: 4096, Most: 65536}, Small: 1e5, Large: 65536 * 2e4}
	if got := gap(&p); got != 8192 { // (1e-5 - 4096 b) / b for b = 4e-5/61440 is 11264
		t.Errorf("a request takes as long as %d bytes", got)
	}
	p.Large = 1e12
	expect.That(t, gap(&p) == 16384, "bytes that cost nothing: a gap of %d", gap(&p))
}

// A pack needs two rows in a chunk, and chunks for all batches of the window.
func TestWhatAPackHasRoomFor(t *testing.T) {
	layout := Layout{RowBytes: 2048, Rows: 1000, Shape: disk.Shape{Page: 4096, Most: 1 << 16, Sector: 512}}
	for _, c := range []struct {
		memory, rowBytes, chunk int64
		most                    int
	}{
		{(20 + packAside) * 4096, 2048, 4096, 256},
		{(20+packAside)*4096 - 1, 2048, 0, 0},
		{(20 + packAside) * 4096, 2049, 0, 0},
		{(20 + packAside) * 12 << 10, 2048, 12 << 10, 85},
		{1 << 30, 2048, 1 << 16, 16},
	} {
		layout.RowBytes = c.rowBytes
		p, err := newPack(layout, 10, PackOptions{Bytes: 1 << 20, Memory: c.memory})
		switch {
		case (err == nil) != (c.chunk > 0):
			t.Errorf("%+v: %v", c, err)
		case err != nil:
		case p.layout.groupBytes != c.chunk || p.most != c.most ||
			int64(len(p.spare)) != min(c.memory/c.chunk, int64(c.most)) || int64(p.per) != c.chunk/c.rowBytes:
			t.Errorf("%+v: chunks of %d bytes and %d rows, %d of them, %d in memory", c, p.layout.groupBytes, p.per,
				p.most, len(p.spare))
		}
	}
}
