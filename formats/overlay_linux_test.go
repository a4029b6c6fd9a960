package formats

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestADatasetOfALowerLayerIsReplaced: the kernel renames no directory of an overlay's lower layer (EXDEV).
func TestADatasetOfALowerLayerIsReplaced(t *testing.T) {
	dir := write(t, typedArrays(t), WriterOptions{})
	root := scratchDir(t)
	at := func(name string) string { return filepath.Join(root, name) }
	for _, name := range []string{"upper", "work", "merged"} {
		expect.OK(t, os.Mkdir(at(name), 0o700))
	}
	options := "lowerdir=" + filepath.Dir(dir) + ",upperdir=" + at("upper") + ",workdir=" + at("work")
	if err := unix.Mount("overlay", at("merged"), "overlay", 0, options); err != nil {
		t.Skip("this user or this system mounts no overlay: ", err)
	}
	t.Cleanup(func() { expect.OK(t, unix.Unmount(at("merged"), unix.MNT_DETACH)) })
	before := expect.Files(t, filepath.Dir(dir))
	seen := filepath.Join(at("merged"), filepath.Base(dir))
	if err := os.Rename(seen, seen+".other"); err == nil {
		t.Skip("this system renames directories of a lower layer")
	}
	g := newGraph(t, plainArrays(t))
	for range 2 { // the second time it is of the upper layer
		expect.OK(t, WriteGraph(context.Background(), seen, g, WriterOptions{Force: true}))
		requireEqualGraphs(t, g, open(t, seen).Graph())
		requireEqualNames(t, at("merged"), filepath.Dir(write(t, plainArrays(t), WriterOptions{})))
	}
	requireEqualFiles(t, before, expect.Files(t, filepath.Dir(dir)))
}
