//go:build !race

package convert

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// Graphs of icebug-disk of which one or two files have other bytes are converted, or errors of a file, soon and within
// the limit of memory. KHOP_DRAWS says how many are drawn.
func TestDamagedGraphsOfIcebugNeitherHangNorPanic(t *testing.T) {
	seed, draws := expect.Seed(t), expect.Draws(t, 200)
	r := rand.New(rand.NewPCG(seed, 4))
	whole := sourcetest.Within(t, "../internal/foreign/icebug/testdata/shop")
	names := slices.Sorted(maps.Keys(whole))
	dir, dst, good := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "d"), map[string]int{}
	for i := range draws {
		files, what := maps.Clone(whole), fmt.Sprintf("draw %d of seed %d:", i, seed)
		for _, k := range r.Perm(len(names))[:min(i, 1+r.IntN(2))] { // the first is whole
			name := names[k]
			files[name] = string(mutate(r, []byte(files[name])))
			what += " " + name
		}
		expect.OK(t, errors.Join(os.RemoveAll(dir), os.RemoveAll(dst)))
		put(t, dir, files)
		err := convertWatched(dir, dst, "icebug", what)
		expect.Ensure(t, i > 0 || err == nil, "%v", err)
		good[outcome(t, err, what)]++
	}
	t.Logf("%d mutants of seed %d: %v", draws, seed, good)
}
