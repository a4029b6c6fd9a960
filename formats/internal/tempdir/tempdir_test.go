//go:build linux || darwin

package tempdir_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/tempdir"
	"github.com/khop-gnn/khop/internal/expect"
)

func TestMain(m *testing.M) {
	if parent := os.Getenv("TEMPDIR_TEST"); parent != "" {
		d, err := tempdir.Make(parent, "khop-")
		if err == nil {
			_ = os.WriteFile(filepath.Join(d.Path, "large"), nil, 0o600)
			_, _ = os.Stdout.WriteString(d.Path + "\n")
		}
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until it is killed
		return
	}
	os.Exit(m.Run())
}

// TestAFolderOfAKilledProcessGoesWithTheNext, and none that a process holds, nor one of another prefix.
func TestAFolderOfAKilledProcessGoesWithTheNext(t *testing.T) {
	parent := t.TempDir()
	other := filepath.Join(parent, "other-1")
	expect.OK(t, os.Mkdir(other, 0o700))
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "TEMPDIR_TEST="+parent)
	in, out := expect.Must(child.StdinPipe())(t), expect.Must(child.StdoutPipe())(t)
	expect.OK(t, child.Start())
	dead := strings.TrimSpace(expect.Must(bufio.NewReader(out).ReadString('\n'))(t))
	first := expect.Must(tempdir.Make(parent, "khop-"))(t)
	there := func(path string) bool { _, err := os.Stat(path); return err == nil }
	expect.That(t, there(dead), "a folder of a process that lives was removed")
	expect.OK(t, child.Process.Kill())
	_ = child.Wait()
	_ = in.Close()
	second := expect.Must(tempdir.Make(parent, "khop-"))(t)
	expect.That(t, !there(dead) && there(first.Path) && there(second.Path) && there(other), "%v %v %v %v", there(dead),
		there(first.Path), there(second.Path), there(other))
	expect.OK(t, first.Remove(), second.Remove())
	left := expect.Must(os.ReadDir(parent))(t)
	expect.That(t, len(left) == 1, "left: %v", left)
}

// TestFoldersThatAreMadeAtTheSameTimeAreAllThere, though each looks for those that nobody holds.
func TestFoldersThatAreMadeAtTheSameTimeAreAllThere(t *testing.T) {
	parent := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				d, err := tempdir.Make(parent, "khop-")
				if err == nil {
					err = os.WriteFile(filepath.Join(d.Path, "x"), nil, 0o600)
				}
				expect.That(t, err == nil, "%v", err)
				if err == nil {
					expect.OK(t, d.Remove())
				}
			}
		})
	}
	all.Wait()
}
