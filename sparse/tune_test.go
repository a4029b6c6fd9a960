package sparse

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestATunedPoolFindsItsChoiceAndGivesTheSameBits(t *testing.T) {
	p := drawn(rand.New(rand.NewPCG(12, 12)), 200, 90, 40)
	a, tuning := p.matrix(t, false, false), NewTuning()
	pool := Open(Options{Workers: 2, Tuning: tuning})
	defer pool.Close()
	y, x, values := matrixOf(t, make([]float32, 200*40), 200, 40), matrixOf(t, p.x, 90, 40), unified.FromSlice(p.values)
	found, err := pool.Tune(tuning, y, a, values, x, 1)
	expect.Ensure(t, err == nil && found.Best <= found.Default && found.Width == 40 && found.Weighted, "%+v, %v", found,
		err)
	odd := choice{Kernel: "plain", Ahead: 3, Part: 7, Group: 5}
	path := filepath.Join(t.TempDir(), "deep", "tune.json")
	key := keyOf(2, a, values, x)
	tuning.choices[key] = odd
	expect.OK(t, tuning.Save(path))
	again, err := LoadTuning(path)
	expect.Ensure(t, err == nil && again.choices[key] == odd, "%+v, %v", again.choices, err)
	clear(floats(y))
	err = pool.SpMM(y, Sum, a, values, x)
	by := pool.spmm.strategy
	expect.That(t, err == nil && by.variant == plain && by.part == 7, "the pool computed by %+v, %v", by, err)
	expect.OK(t, sameBits(floats(y), p.want(Sum, true)))
}

func TestChoicesOfOthersAreIgnoredWithANote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tune.json")
	if tuning, err := LoadTuning(path); err != nil || len(tuning.choices) != 0 {
		t.Errorf("no file: %v", err)
	}
	tuning := NewTuning()
	tuning.choices[tuneKey{Workers: 1, Width: 3}] = choice{Kernel: "plain", Part: 1, Group: 1}
	expect.OK(t, tuning.Save(path))
	good := expect.Must(os.ReadFile(path))(t)
	for what, text := range map[string]string{
		"cut":       string(good[:len(good)-3]),
		"empty":     "",
		"foreign":   "[1, 2]",
		"version":   strings.Replace(string(good), tuneFormat, "khop-tune 9", 1),
		"processor": strings.Replace(string(good), `"processor": "`, `"processor": "other `, 1),
		"kernel":    strings.Replace(string(good), `"kernel": "plain"`, `"kernel": "sse9"`, 1),
		"range":     strings.Replace(string(good), `"part": 1`, `"part": 0`, 1),
	} {
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		tuning, err := LoadTuning(path)
		expect.That(t, errors.Is(err, ErrTuning) && strings.Contains(err.Error(), path) && len(tuning.choices) == 0,
			"%s: %d choices, %v", what, len(tuning.choices), err)
	}
	if slices.Contains([]string{"avx512", "avx2"}, Kernel()) { // a choice for wider vectors than there are
		c := choice{Kernel: Kernel(), Tile: 1000, Part: 1, Group: 1}
		_, err := c.strategy()
		expect.That(t, err != nil, "tiles of 1000 vectors were taken")
	}
}

// TestTwoProcessesKeepTheirChoicesInOneFile: what is saved last leaves the other keys, and wins for its own.
func TestTwoProcessesKeepTheirChoicesInOneFile(t *testing.T) {
	path, mine, theirs := filepath.Join(t.TempDir(), "tune.json"), NewTuning(), NewTuning()
	old, won := choice{Kernel: "plain", Part: 1, Group: 1}, choice{Kernel: "plain", Part: 9, Group: 1}
	for width, c := range map[int64]choice{3: old, 5: old} {
		theirs.choices[tuneKey{Workers: 1, Width: width}] = c
	}
	mine.choices[tuneKey{Workers: 1, Width: 3}] = won
	theirs.KeepWay("a layer", "(A (X W))")
	mine.KeepWay("another", "((A X) W)")
	expect.OK(t, errors.Join(theirs.Save(path), mine.Save(path)))
	both, err := LoadTuning(path)
	expect.That(t,
		err == nil && both.Way("a layer") == "(A (X W))" && both.Way("another") == "((A X) W)" &&
			both.Way("none") == "", "ways: %v, %v", both.ways, err)
	c := both.choices
	expect.That(t, len(c) == 2 && c[tuneKey{Workers: 1, Width: 3}] == won, "choices: %v", c)
	var none *Tuning
	none.KeepWay("a layer", "X")
	expect.That(t, none.Way("a layer") == "", "no Tuning has a way")
}

// BenchmarkBackward measures the gradient of a mean over a matrix that keeps its transpose, and over one that is new
// each time.
func BenchmarkBackward(b *testing.B) {
	const rows, degree, width = 50000, 10, 64
	r := rand.New(rand.NewPCG(1, 1))
	indptr, indices := make([]int64, rows+1), make([]int32, rows*degree)
	for i := range rows {
		indptr[i+1] = indptr[i] + degree
	}
	for e := range indices {
		indices[e] = r.Int32N(rows)
	}
	matrix := func() *Matrix {
		return expect.Must(New(rows, unified.FromSlice(indptr), unified.FromSlice(indices)))(b)
	}
	dy, dx := matrixOf(b, numbers(r, rows*width), rows, width), matrixOf(b, make([]float32, rows*width), rows, width)
	pool := open(b, 1)
	for _, kept := range []bool{true, false} {
		b.Run(map[bool]string{true: "kept", false: "rebuilt"}[kept], func(b *testing.B) {
			a := matrix()
			a.Transpose()
			a.TransposedMeans()
			for b.Loop() {
				if !kept {
					a = matrix()
				}
				expect.OK(b, pool.SpMMBackward(dx, Mean, a, unified.Tensor{}, dy, unified.Tensor{}))
			}
		})
	}
}
