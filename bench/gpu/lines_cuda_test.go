//go:build cuda

package gpu

import (
	"context"
	"crypto/sha1"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

const (
	linesPage    = "../../docs/results/gpu.md"
	linesHeading = "## Lines that a gather reads over the bus\n"
)

// linesRead counts, for naive, shift and per row, the 128-byte lines of a float32 column that a gather reads for a row
// on average over random rows, and the least that any method could read. The column begins shift bytes after a line.
func (r *rig) linesRead(rnd *rand.Rand, rowBytes, shift int) (least float64, read [3]float64, err error) {
	const n, m = 500, 32
	host, err := pinned.Allocate(int64(shift+n*rowBytes), pinned.Options{Device: r.dev, Place: pinned.Pinned})
	if err != nil {
		return 0, read, err
	}
	defer host.Close()
	src := host.Bytes()[shift:]
	for i := range src {
		src[i] = byte(rnd.Uint32())
	}
	column, err := unified.NewPlaced(pinned.Pinned, unified.Float32, src, n, int64(rowBytes/4))
	if err != nil {
		return 0, read, err
	}
	at := host.Address() + device.Address(shift)
	store, err := cuda.NewStore(r.dev, column, at)
	if err != nil {
		return 0, read, err
	}
	defer store.Close()
	list := make([]int64, m)
	for i := range list {
		list[i] = rnd.Int64N(n)
	}
	_, least = touched(list, uint64(shift), uint64(rowBytes))
	var u undo
	defer func() { err = u.run(err) }()
	ids, err := r.put(&u, unified.FromSlice(list))
	if err != nil {
		return 0, read, err
	}
	out, err := r.place(&u, unified.Float32, m, int64(rowBytes/4))
	for i, method := range []string{"naive", "shift", "per-row"} {
		before := cudatest.LinesAt(at)[3]
		if err == nil {
			err = r.gather(method, store, at, out, ids, 0)
		}
		if err == nil {
			err = r.compare(column, out, list)
		}
		read[i] = float64(cudatest.LinesAt(at)[3]-before) / m
	}
	return least, read, err
}

// TestLinesOfEveryMethod keeps a section of docs/results/gpu.md true, which -rewrite makes. The product's gather stays
// within 2 % of the minimum at every alignment of the column.
func TestLinesOfEveryMethod(t *testing.T) {
	const seed = 31
	cudatest.NeedSimulator(t)
	cudatest.Checks(t, "lines")
	var page strings.Builder
	page.WriteString(linesHead)
	r := &rig{ctx: context.Background(), reps: 1}
	expect.OK(t, r.open())
	defer r.close()
	for _, rowBytes := range []int{132, 400, 516, 2052, 4100} {
		rnd := rand.New(rand.NewPCG(seed, uint64(rowBytes)))
		var leastSum float64
		var sums, worst [3]float64
		const shifts = 32
		for shift := 0; shift < 4*shifts; shift += 4 {
			least, read, err := r.linesRead(rnd, rowBytes, shift)
			cudatest.Report(t)
			expect.OK(t, err)
			expect.That(t, read[2] <= 1.02*least, "rows of %d bytes, column at %d: %.3f lines a row, %.3f would do; "+
				"seed %d", rowBytes, shift, read[2], least, seed)
			leastSum += least
			for i := range read {
				sums[i] += read[i]
				worst[i] = max(worst[i], read[i]/least)
			}
		}
		fmt.Fprintf(&page, "| %d | %.2f |", rowBytes, leastSum/shifts)
		for i := range sums {
			fmt.Fprintf(&page, " %.2f (%+.1f %%) |", sums[i]/shifts, 100*(worst[i]-1))
		}
		page.WriteString("\n")
	}
	page.WriteString(linesFoot)
	for _, kernels := range []string{"gather/cuda/rows.cu", "gather/cuda/rows.cuh", "bench/gpu/elements.cu"} {
		fmt.Fprintf(&page, "- %s, git blob %s\n", kernels, blob(t, "../../"+kernels))
	}
	before, rest, found := strings.Cut(string(expect.Must(os.ReadFile(linesPage))(t)), linesHeading)
	expect.Ensure(t, found, "%s has no section of lines", linesPage)
	section, after, _ := strings.Cut(rest, "\n## ")
	if expect.Rewriting() {
		whole := before + linesHeading + page.String() + "\n## " + after
		expect.OK(t, os.WriteFile(linesPage, []byte(whole), 0o644))
		return
	}
	expect.That(t, section == page.String(), "%s is not what was counted: run the command that it names", linesPage)
}

const linesHead = `
A device reads host memory in requests of one line, 128 bytes, at most. A warp's load costs one for each line that its
lanes touch, so a method that touches a line twice pays for it twice. The figures are lines of the column for a row, as
the simulated device counts them (no hardware was measured, and no cache is modelled): 32 random rows of a float32
column that begins at each of the 32 places after a line, 0, 4, ..., 124 bytes; the mean of all, and in brackets how far
the worst place is above its minimum. *Least* is what any method has to read. *Naive* gives each element of the result
to a thread. *Shift* is PyTorch-Direct's circular shift, computed from addresses. *Per row* is khop's.

| bytes a row | least | naive | shift | per row |
|---:|---:|---:|---:|---:|
`

const linesFoot = `
Every test run with -tags cuda compares with this table, which is made by

` + "```sh title=\"needs a checkout of khop\"" + `
make cudasim && eval "$(tools/cuda-env.sh)"
export KHOP_CUDA_DRIVER=$PWD/dist/libcudasim.so
go test -C bench -tags cuda -run TestLinesOfEveryMethod ./gpu -args -rewrite
` + "```" + `

of these states of the kernels; "git log --find-object" with a blob's name finds their commits:

`

// blob returns git's name of a file's content.
func blob(t *testing.T, path string) string {
	t.Helper()
	content := expect.Must(os.ReadFile(path))(t)
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content)))
}
