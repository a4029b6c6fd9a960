//go:build linux

package server

import (
	"testing"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

// MaxMemory bounds what all ranks read, their rings, and the copies of ids.
func TestMaxMemoryBoundsTheWholeServer(t *testing.T) {
	opt := usual()
	opt.Residence, opt.MaxMemory, opt.Workers = loader.Resident, 3<<20, 2
	s := serve(t, plainGraph(t, 500), Options{Loader: opt, WorldSize: 2, Hold: 1})
	for range s.ranks {
		c := connect(t, s, consumer.Options{IndexDType: unified.Int64})
		expect.That(t, len(lines(t, c.Epoch(t.Context(), 0))) != 0, "a rank has no batches")
	}
	ledger, loaders, rings := s.placed[0].Ledger(), int64(0), int64(0)
	for _, r := range s.ranks {
		loaders += r.loader.Stats().Memory.Total()
		for i := range r.records {
			rings += r.records[i].memory.Cap()
		}
	}
	peak := ledger.Peak()
	expect.That(t, peak <= opt.MaxMemory, "the server took %d bytes, MaxMemory is %d", peak, opt.MaxMemory)
	expect.That(t, rings != 0 && ledger.Total() >= loaders+rings,
		"%d bytes are counted, of loaders %d and copies of ids %d", ledger.Total(), loaders, rings)
}
