//go:build !race

package convert

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// TestTheMemoryLimitHoldsForReadersToo reads sources of each kind that take more than the structure that is built.
func TestTheMemoryLimitHoldsForReadersToo(t *testing.T) {
	const n = 200_000 // names take the most time, and the most memory
	var names strings.Builder
	for i := range n / 3 {
		fmt.Fprintf(&names, "node-%d node-%d\n", i, i+1)
	}
	if res, _ := convert(t, adjacency(t, 2*n), Options{MemoryLimit: 2 << 20}); res.MemoryPeak > 2<<20 ||
		res.TempPeak == 0 {
		t.Errorf("an archive: a peak of %d bytes, %d of temporary files", res.MemoryPeak, res.TempPeak)
	}
	for _, c := range []struct {
		name, src, where string
		opt              Options
		fits             int64
	}{
		{"names", write(t, "names.txt", names.String()), "names.txt: row", Options{}, 32 << 20},
		{"npy", write(t, "edges.txt", "0 1\n"), "table.npy", Options{Labels: npyFile(t, make([]int32, 2*n))}, 8 << 20},
		{"musae", collection(t, n/10), "x_target.csv: row", Options{}, 8 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opt.MemoryLimit = 2 << 20
			_, err := Run(context.Background(), c.src, filepath.Join(t.TempDir(), "x"), c.opt)
			if !errors.Is(err, pinned.ErrLimit) || !strings.Contains(err.Error(), c.where) ||
				!strings.Contains(err.Error(), "and of the limit of 2.10 MB (2.00 MiB)") {
				t.Errorf("a limit of 2 MiB: %v", err)
			}
			c.opt.MemoryLimit = c.fits
			if res, _ := convert(t, c.src, c.opt); res.MemoryPeak < 2<<20 || res.MemoryPeak > c.fits {
				t.Errorf("a peak of %d bytes under a limit of %d", res.MemoryPeak, c.fits)
			}
		})
	}
}

// TestAGraphOfManyRelationsHasThatManyTypes: their numbers take two bytes beyond 256, and tasks make it, too.
func TestAGraphOfManyRelationsHasThatManyTypes(t *testing.T) {
	for _, n := range []int{2, 256, 257, 300} {
		src := knowledge(t, n)
		_, ds := convert(t, src, Options{RelationsAsTypes: true})
		s := ds.Graph().Schema()
		if len(s.Edges) != n || int64(len(ds.Graph().Types().Bytes())) != s.NumEdges()*map[bool]int64{true: 2,
			false: 1}[n > 256] {
			t.Errorf("%d relations: %d edge types, %v", n, len(s.Edges), ds.Graph().Types())
		}
		for i, e := range s.Edges {
			expect.That(t, e.Count == 1, "%d relations: type %d has %d edges", n, i, e.Count)
		}
		tasksMake(t, ds, src, 3, Options{RelationsAsTypes: true})
	}
}
