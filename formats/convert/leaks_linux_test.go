package convert

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestAConversionLeavesNothingOpen of its sources: no file and no mapping, whether it ends well or not.
func TestAConversionLeavesNothingOpen(t *testing.T) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	features := npyMatrix(t, 4, 2, make([]float32, 8))
	for name, c := range map[string]struct {
		src string
		opt Options
	}{
		"text":       {write(t, "e.txt", "0 1\n1 2\n3 1\n"), Options{Features: features}},
		"names":      {write(t, "n.csv", "src,dst\na,b\nb,c\nd,a\n"), Options{Features: features}},
		"array":      {write(t, "e.npy", string(expect.NPY([]int64{0, 1, 1, 2, 3, 1}, 3, 2))), Options{}},
		"archive":    {adjacency(t, 4), Options{}},
		"folder":     {newLibrary(4).write(t), Options{}},
		"collection": {collection(t, 9), Options{}},
	} {
		for _, ctx := range []context.Context{context.Background(), stopped} {
			files := expect.OpenFiles(t)
			_, err := Run(ctx, c.src, filepath.Join(t.TempDir(), "x"), c.opt)
			expect.Is(t, err, ctx.Err(), name)
			n := expect.OpenFiles(t)
			expect.That(t, n == files, "%s: %d files are open, there were %d", name, n, files)
			maps, err := os.ReadFile("/proc/self/maps")
			expect.That(t, err == nil && !strings.Contains(string(maps), filepath.Dir(c.src)),
				"%s: the source is still mapped, or %v", name, err)
		}
	}
}

// TestALongListOfNamesIsCutShort: errors name the first eight.
func TestALongListOfNamesIsCutShort(t *testing.T) {
	names := strings.Split("a b c d e f g h i", " ")
	got := list(names[:8])
	expect.That(t, got == "a, b, c, d, e, f, g, h", "eight: %s", got)
	if got := list(names); got != "a, b, c, d, e, f, g, h, .." {
		t.Errorf("nine: %s", got)
	}
}
