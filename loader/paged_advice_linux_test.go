package loader_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
)

// atRandom reports whether the system was advised that a file is read at random, where it is mapped.
func atRandom(t *testing.T, path string) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("this system does not say what it was told: ", err)
	}
	_, of, found := strings.Cut(string(maps), path+"\n")
	_, flags, told := strings.Cut(of, "VmFlags:")
	if flags, _, _ = strings.Cut(flags, "\n"); !found || !told {
		t.Skip("this system does not say what it was told of ", path)
	}
	return strings.Contains(flags+" ", " rr ")
}

// A topology on disk is read at random while a loader has it, and columns that a sampler reads are part of it.
func TestATopologyOnDiskIsReadAtRandom(t *testing.T) {
	needDisk(t)
	g, folder := inFiles(t, graphs.Plain(t, 2000, 6), true)
	opt := pagedOptions
	opt.Disk.CacheBytes, opt.BatchSize = 1, 100
	opt.Sampler = weighing{neighbor, "weight", func(*graph.Graph) {}}
	for range 2 {
		l := expect.Must(loader.New(g, opt))(t)
		bytes := l.Stats().TopologyOnDisk.Bytes
		expect.That(t, bytes == 2001*8+12_000*4+12_000*4, "%d bytes are on disk", bytes)
		for _, name := range []string{"indptr", "indices", "edgeweight"} {
			expect.That(t, atRandom(t, filepath.Join(folder, name)), "%s is not read at random", name)
		}
		expect.OK(t, l.Close())
		expect.That(t, !atRandom(t, filepath.Join(folder, "indptr")), "the topology is read at random without a loader")
	}
}
