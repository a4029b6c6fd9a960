//go:build cuda

package gather

import (
	"bytes"
	"crypto/sha1"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/unified"
)

var writeLines = flag.Bool("write-lines", false, "write docs/results/lines.md in place of comparing with it")

const linesPage = "../docs/results/lines.md"

// linesRead counts, for each method, the 128-byte lines of the column that it reads for a row on average over random
// rows, and the least that any method could read. The column begins shift bytes after a line.
func (r *rig) linesRead(rnd *rand.Rand, dtype unified.DType, width, shift int, methods []Method) (least float64,
	read []float64) {
	r.t.Helper()
	const n, m = 500, 32
	rowBytes := width * int(dtype.Size())
	src := r.host(random(rnd, n*rowBytes), shift)
	s := r.store(dtype, src, n, int64(width))
	list, lines := make([]int64, m), 0
	for i := range list {
		list[i] = rnd.Int64N(n)
		first := (shift + int(list[i])*rowBytes) / 128
		last := (shift + int(list[i]+1)*rowBytes - 1) / 128
		lines += last - first + 1
	}
	ids := r.idsOnDevice(unified.Int64, list)
	want := make([]byte, m*rowBytes)
	copyPlain(want, src, list, rowBytes)
	for _, s.Method = range methods {
		before := cudatest.LinesAt(addressOf(src))
		if got := r.gather(s, ids, 0); !bytes.Equal(got, want) {
			r.t.Fatalf("%v: differs from copy()", s.Method)
		}
		read = append(read, float64(cudatest.LinesAt(addressOf(src))[3]-before[3])/m)
	}
	return float64(lines) / m, read
}

// TestDefaultGatherReadsFewestLines: within 2 % of the minimum at every alignment of the column. It also keeps
// docs/results/lines.md true; -write-lines makes that page.
func TestDefaultGatherReadsFewestLines(t *testing.T) {
	const seed = 31
	cudatest.Checks(t, "lines")
	methods := []Method{Naive, Shift, PerRow}
	var page strings.Builder
	page.WriteString(linesHead)
	for _, rowBytes := range []int{132, 400, 516, 2052, 4100} {
		r, rnd := newRig(t), rand.New(rand.NewPCG(seed, uint64(rowBytes)))
		var leastSum float64
		sums, worst := make([]float64, len(methods)), make([]float64, len(methods))
		shifts := 0
		for shift := 0; shift < 128; shift += 4 {
			least, read := r.linesRead(rnd, unified.Float32, rowBytes/4, shift, methods)
			if read[2] > 1.02*least {
				t.Errorf("rows of %d bytes, column at %d: %.3f lines a row, %.3f would do; seed %d", rowBytes, shift,
					read[2], least, seed)
			}
			leastSum += least
			for i := range read {
				sums[i] += read[i]
				worst[i] = max(worst[i], read[i]/least)
			}
			shifts++
		}
		fmt.Fprintf(&page, "| %d | %.2f |", rowBytes, leastSum/float64(shifts))
		for i := range methods {
			fmt.Fprintf(&page, " %.2f (%+.1f %%) |", sums[i]/float64(shifts), 100*(worst[i]-1))
		}
		page.WriteString("\n")
	}
	page.WriteString(linesFoot)
	for _, kernels := range []string{"rows.cu", "elements.cu", "rows.cuh"} {
		fmt.Fprintf(&page, "- gather/%s, git blob %s\n", kernels, blob(t, kernels))
	}
	if *writeLines {
		if err := os.WriteFile(filepath.FromSlash(linesPage), []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if had, err := os.ReadFile(filepath.FromSlash(linesPage)); err != nil || string(had) != page.String() {
		t.Errorf("%s is not what was counted (%v): run the command that it names", linesPage, err)
	}
}

const linesHead = `# Lines that a gather reads over the bus

A device reads host memory in requests of one line, 128 bytes, at most. A warp's load costs one for each line that its lanes touch,
so the number of lines that a gather touches is what a bus carries, and a method that touches a line twice pays for it twice.

The figures are the lines of the column that a row costs, as the simulated device counts them warp instruction by warp instruction (no
hardware was measured, and no cache is modelled, which may merge two requests that follow each other closely): 32 random rows of
a float32 column, at each of the 32 places, 0, 4, ..., 124 bytes after a line, where such a column may begin; the mean of all,
and in brackets how far the worst place is above its minimum. *Least* is what any method has to read. *Naive* gives each element of the
result to a thread. *Shift* is PyTorch-Direct's circular shift, computed from addresses. *Per row* is khop's default.

| bytes a row | least | naive | shift | per row |
|---:|---:|---:|---:|---:|
`

const linesFoot = `
Made by

` + "```sh" + `
make cudasim && eval "$(tools/cuda-env.sh)"
KHOP_CUDA_DRIVER=$PWD/dist/libcudasim.so go test -tags cuda -run TestDefaultGatherReadsFewestLines ./gather -args -write-lines
` + "```" + `

Every test run with -tags cuda compares with this table. Rows that begin and end anywhere, of elements of 1, 2, 4 and 8 bytes, are tested
too. All are figures of these kernels and of no other state of them, whatever machine counts;
"git log --find-object" with a blob's name finds the commits that brought and replaced it:

`

// blob returns git's name of a file's content.
func blob(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content)))
}

// TestFewestLinesWithElementsOfEverySize: also where rows begin and end between words, and where several fit in a warp.
func TestFewestLinesWithElementsOfEverySize(t *testing.T) {
	const seed = 32
	cudatest.Checks(t, "lines")
	for _, dtype := range sizedTypes {
		r, rnd := newRig(t), rand.New(rand.NewPCG(seed, 0))
		size := int(dtype.Size())
		for _, rowBytes := range []int{8, 40, 64, 104, 128, 136, 520, 1000} {
			for _, width := range []int{rowBytes / size, rowBytes/size + 1} {
				shift := size * rnd.IntN(128/size)
				least, read := r.linesRead(rnd, dtype, width, shift, []Method{PerRow})
				if read[0] > 1.02*least+0.1 { // words at the edges of the column are read in bytes
					t.Errorf("%v[%d] at %d: %.3f lines a row, %.3f would do; seed %d", dtype, width, shift, read[0],
						least, seed)
				}
			}
		}
	}
}
