//go:build !race

package source

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestLimitsOfAnArchiveAreKeptToTheOne: depth of folders, and what it says.
func TestLimitsOfAnArchiveAreKeptToTheOne(t *testing.T) {
	for depth, good := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		name := strings.Repeat("d/", depth) + "x"
		path := tarball(t, "x.tar", [2]string{name, "1"})
		x, err := OpenTree(path, &Budget{Dir: t.TempDir()})
		expect.That(t, (!good || err == nil && len(x.Files()) == 1) && (good || err != nil &&
			err.Error() == path+": the member "+strconv.Quote(name)+" lies in 17 folders, where 16 are the most"+
				"; unpack the archive, and name the folder that holds the graph"), "%d folders: %v", depth, err)
		dir := t.TempDir()
		expect.OK(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", depth)), 0o700))
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("1"), 0o600))
		if x, err = OpenTree(dir, nil); err != nil || (len(x.Files()) == 1) != good || x.Has(name) != good {
			t.Errorf("a folder of depth %d: %v, %v", depth, x.Files(), err)
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range maxFiles + 1 {
		expect.OK(t, w.WriteHeader(&tar.Header{Name: fmt.Sprint("f", i), Mode: 0o600, Typeflag: tar.TypeReg}))
	}
	expect.OK(t, w.Close())
	path := filepath.Join(t.TempDir(), "x.tar")
	for n, says := range map[int]string{maxFiles: "", maxFiles + 1: fmt.Sprintf("%s/f%d: the archive has more than %d "+
		"members", path, maxFiles, maxFiles)} {
		expect.OK(t, os.WriteFile(path, append(bytes.Clone(b.Bytes()[:512*n]), make([]byte, 1024)...), 0o600))
		x, err := OpenTree(path, &Budget{Dir: t.TempDir()})
		expect.That(t, (says != "" || err == nil && len(x.Files()) == n) && (says == "" || err != nil &&
			err.Error() == says), "%d files: %v", n, err)
	}
}
