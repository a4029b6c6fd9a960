//go:build cuda

package gpu

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

func measure(t *testing.T, args ...string) any {
	t.Helper()
	result := expect.Must(Run(t.Context(), args))(t)
	cudatest.Report(t)
	return result
}

// generated is a small dataset.
func generated(t *testing.T, kind string, opt synthetic.Options) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "g.khop")
	expect.Must(synthetic.Generate(t.Context(), kind, path, opt))(t)
	return path
}

// TestRowsAreMeasuredAndCompared: every cell has a rate, and the model's sectors and lines are those of its rows.
func TestRowsAreMeasuredAndCompared(t *testing.T) {
	for _, memory := range [][]string{{"-pages=small"}, {"-pages=huge"},
		{"-file=" + filepath.Join(t.TempDir(), "rows")}, {"-copy", "-file=" + filepath.Join(t.TempDir(), "rows")}} {
		args := append([]string{"rows", "-bytes=300K", "-widths=4,7,128,132", "-offsets=0,4", "-reads=16K", "-reps=1"},
			memory...)
		r := measure(t, args...).(*rowsResult)
		if r.Bus.InOrderGBPerS <= 0 || r.Bus.CopyGBPerS <= 0 || len(r.Cells) != 3*2*4+2*2 {
			t.Fatalf("%v: %d cells, bus %+v", memory, len(r.Cells), r.Bus)
		}
		if copied := r.Memory.Rung == pinned.RungCopy.String(); copied != (memory[0] == "-copy") {
			t.Errorf("%v: %+v", memory, r.Memory)
		}
		for _, c := range r.Cells {
			if c.GBPerS <= 0 || c.OfModel <= 0 {
				t.Errorf("%v: %+v has no rate", memory, c)
			}
			if c.RowBytes == 128 {
				want := map[int64][2]float64{0: {4, 1}, 4: {5, 2}}[c.Offset]
				expect.Same(t, [2]float64{c.SectorsPerRow, c.LinesPerRow}, want, "sectors and lines of 128 bytes")
			}
		}
	}
}

func TestRandomReadsAreMeasured(t *testing.T) {
	cudatest.ResetStats(t)
	r := measure(t, "random", "-bytes=64K", "-reads=2K", "-reps=1").(*randomResult)
	if r.MReadsPerS <= 0 || r.Reads != 2<<10 {
		t.Errorf("%+v", r)
	}
	if n := cudatest.Launches("read_at_random"); n < int64(2*len(inOrder)) {
		t.Errorf("the kernel was launched %d times", n)
	}
}

// TestWaysOfTransferBringTheSameRows: Run itself compares them.
func TestWaysOfTransferBringTheSameRows(t *testing.T) {
	dataset := generated(t, "products", synthetic.Options{Nodes: 3000, Features: 20})
	r := measure(t, "transfer", "-dataset", dataset, "-fanouts=3,2", "-batch-size=16", "-batches=3", "-threads=3",
		"-rounds=1").(*transferResult)
	names := ""
	for _, w := range r.Ways {
		names += w.Way + "; "
		if w.MsPerBatch <= 0 || w.GBPerS <= 0 {
			t.Errorf("%+v has no rate", w)
		}
		if cached := w.Way == "bus, cached"; cached != (w.HitShare > 0.2) {
			t.Errorf("%s: %v of the rows are found in the cache", w.Way, w.HitShare)
		}
	}
	if want := "cpu, unpipelined; cpu, pipelined; bus; bus, cached; "; names != want {
		t.Errorf("ways are %s", names)
	}
}

// TestProductsAreMeasuredOnGraphAndBlock: Run itself compares them with the CPU's.
func TestProductsAreMeasuredOnGraphAndBlock(t *testing.T) {
	dataset := generated(t, "sbm", synthetic.Options{Nodes: 60, Features: 1})
	r := measure(t, "products", "-dataset", dataset, "-fanouts=3,2", "-batch-size=8", "-widths=5,17",
		"-reps=1").(*productsResult)
	cells := map[string]int{}
	for _, c := range r.Cells {
		cells[fmt.Sprintf("%s %s", c.Graph, c.Operation)]++
		if q := c.Seconds; !(0 < q[0] && q[0] <= q[1] && q[1] <= q[2]) || c.NoReuse < c.AtLeast {
			t.Errorf("%+v", c)
		}
	}
	want := map[string]int{}
	for _, graph := range []string{"whole", "block"} {
		for operation, n := range map[string]int{"sum": 2, "weighted sum": 2, "mean": 2, "dot": 2, "softmax": 1} {
			want[graph+" "+operation] = n
		}
	}
	expect.Same(t, cells, want, "cells of each operation")
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{}, {"dance"}, {"rows"}, {"rows", "-widths=-6"}, {"rows", "-widths=4", "-bytes=100"},
		{"rows", "-widths=4", "-pages=tiny"},
		{"rows", "-widths=4", "-bytes=1X"}, {"transfer"}, {"transfer", "-batches=0"}, {"random", "-reps=0"},
		{"products", "-widths=0"}, {"products", "-widths=8", "-dataset=/nonexistent"},
	} {
		if r, err := Run(t.Context(), args); err == nil {
			t.Errorf("%v gives %v", args, fmt.Sprint(r))
		}
	}
	cudatest.Report(t)
}
