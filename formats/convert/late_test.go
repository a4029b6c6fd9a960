package convert

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestCountingNodesLateChangesNothing converts edges whose greatest id the sample of them has, misses by little, and
// misses by far, in ways that need the count before and not; and edges with ids that cannot be.
func TestCountingNodesLateChangesNothing(t *testing.T) {
	defer func(n int64) { lateEdges = n }(lateEdges)
	const m = 40_000
	for _, great := range []int64{999, 1000, 1023, 1024, 30_000, -1, 1 << 40} {
		ids := make([]int64, 2*m)
		for i := range ids {
			ids[i] = int64(i*7919) % 1000
		}
		ids[m/2+1], ids[3*m/2+1] = great, great
		src := write(t, "edge_index.npy", string(expect.NPY(ids, 2, m)))
		for _, opt := range []Options{{}, {MemoryLimit: 2 << 20}, {Direction: Symmetrise}, {Loops: AddLoops},
			{Reorder: ByDegree}, {DryRun: true}} {
			var said [2]string
			for i, late := range []int64{1, 1 << 40} {
				lateEdges = late
				dst := filepath.Join(t.TempDir(), "x.khop")
				res, err := Run(t.Context(), src, dst, opt)
				if err != nil {
					said[i] = err.Error()
					continue
				}
				said[i] = fmt.Sprint(res.Nodes, res.Edges, res.Bytes, res.Notes)
				if opt.DryRun {
					continue
				}
				ds := expect.Must(formats.Open(dst))(t)
				said[i] += fmt.Sprintf(" %x", ds.ID())
				expect.OK(t, ds.Close())
			}
			refused := strings.Contains(said[0], "edge_index.npy")
			if said[0] != said[1] || !opt.DryRun && (great < 0 || great > 1<<20) != refused {
				t.Errorf("%d, %+v:\n%s\n%s", great, opt, said[0], said[1])
			}
		}
	}
}

// TestADiskThatIsTooSmallIsFoundBeforeEdgesAreTakenIn, also where nodes are counted late.
func TestADiskThatIsTooSmallIsFoundBeforeEdgesAreTakenIn(t *testing.T) {
	c := &conversion{dst: filepath.Join(t.TempDir(), "x.khop")}
	expect.Is(t, c.roomFor(1<<60), formats.ErrSpace, "an exbibyte")
	expect.OK(t, c.roomFor(1<<10))
}
