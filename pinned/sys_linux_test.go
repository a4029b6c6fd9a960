package pinned

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"golang.org/x/sys/unix"
)

func TestMemoryPrefersANode(t *testing.T) {
	r := expect.Must(Allocate(1<<20, Options{}))(t)
	defer r.Close()
	if err := preferNode(r.Bytes(), 0); err != nil {
		t.Skipf("a kernel without NUMA: %v", err)
	}
	maps, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		t.Skip(err)
	}
	want := fmt.Sprintf("%x prefer", addressOf(r.Bytes()))
	expect.That(t, strings.Contains(string(maps), want), "no %q in:\n%s", want, maps)
	for _, bad := range []int{-1, 1024, 1 << 30} {
		err := preferNode(r.Bytes(), bad)
		expect.That(t, err == unix.EINVAL, "node %d: %v", bad, err)
	}
}
