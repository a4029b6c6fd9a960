//go:build unix

package sparse

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/pinned/pinnedtest"
	"github.com/khop-gnn/khop/unified"
)

func TestAFileThatIsCutShortEndsAnOperation(t *testing.T) {
	p := drawn(rand.New(rand.NewPCG(5, 5)), 300, 4000, 16)
	path := filepath.Join(t.TempDir(), "x")
	mapped := pinnedtest.Map(t, path, 0, matrixOf(t, p.x, p.cols, p.width).Bytes())
	x := expect.Must(unified.New(unified.Float32, mapped, int64(p.cols), int64(p.width)))(t)
	a, pool, y := p.matrix(t, false, false), open(t, 3), matrixOf(t, make([]float32, 300*16), 300, 16)
	expect.OK(t, pool.SpMM(y, Sum, a, unified.Tensor{}, x))
	expect.OK(t, os.Truncate(path, 0))
	for range 2 { // a pool outlives the fault
		err := pool.SpMM(y, Sum, a, unified.Tensor{}, x)
		expect.Ensure(t, errors.Is(err, pinned.ErrFault), "%v, want ErrFault", err)
	}
}
