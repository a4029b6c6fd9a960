package source

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
)

// tarball writes a tar archive of files, compressed if its name says so.
func tarball(t *testing.T, name string, files ...[2]string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o600, Size: int64(len(f[1])), Typeflag: tar.TypeReg})
		if _, werr := w.Write([]byte(f[1])); errors.Join(err, werr) != nil {
			t.Fatal(err, werr)
		}
	}
	expect.OK(t, w.Close())
	path := filepath.Join(t.TempDir(), name)
	if strings.HasSuffix(name, "gz") {
		var z bytes.Buffer
		g := gzip.NewWriter(&z)
		_, err := g.Write(b.Bytes())
		expect.Ensure(t, err == nil && g.Close() == nil, "%v", err)
		b = z
	}
	expect.OK(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

func zipped(t *testing.T, files ...[2]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.zip")
	f := expect.Must(os.Create(path))(t)
	defer f.Close()
	z := zip.NewWriter(f)
	for _, m := range files {
		w, err := z.Create(m[0])
		if err == nil {
			_, err = io.WriteString(w, m[1])
		}
		expect.OK(t, err)
	}
	expect.OK(t, z.Close())
	return path
}

func TestATreeIsAFolderOrAnArchive(t *testing.T) {
	files := [][2]string{{"a/train.txt", "0 1\n"}, {"b.csv", "1,2\n"}, {"a/.hidden", "x"}}
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f[0])
		expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(f[1]), 0o600)))
	}
	for _, path := range []string{dir, tarball(t, "x.tar", files...), tarball(t, "x.tar.gz", files...), zipped(t,
		files...)} {
		budget := &Budget{Dir: t.TempDir()}
		x := expect.Must(OpenTree(path, budget))(t)
		got := fmt.Sprint(x.Files(), x.Single())
		expect.That(t, got == "[a/train.txt b.csv] false", "%s: %s", path, got)
		for _, f := range files[:2] {
			at := x.At(f[0])
			if r, err := at.Open(); err != nil {
				t.Error(err)
			} else if text, err := io.ReadAll(r); string(text) != f[1] || errors.Join(err, r.Close()) != nil {
				t.Errorf("%s: %q, %v", at.Path(), text, err)
			}
		}
		found := x.Archives()
		expect.That(t, found == nil, "archives in %s: %v", path, found)
		expect.That(t, x.At("a").In("train.txt").Beside("../b.csv").Name == "b.csv" &&
			strings.HasPrefix(x.At("b.csv").Path(), path), "places: %v", x.At("b.csv").Path())
		expect.OK(t, x.Close())
		left, _ := os.ReadDir(budget.Dir)
		expect.That(t, len(left) == 0, "left behind: %v", left)
	}
}

func TestAnArchiveIsNotBelieved(t *testing.T) {
	out := [2]string{"../../out.txt", "x"}
	for name, path := range map[string]string{
		"leads out of":       tarball(t, "x.tar", out),
		"leads out":          tarball(t, "x.tar.gz", [2]string{"/etc/passwd", "x"}),
		"out of the archive": zipped(t, out),
		"lies in 61 folders, where 16 are the most": tarball(t, "x.tar",
			[2]string{strings.Repeat("d/", 61) + "x.csv", "0 1\n"}),
		"member twice": tarball(t, "x.tar", [2]string{"a", "1"}, [2]string{"./a", "2"}),
	} {
		x, err := OpenTree(path, &Budget{Dir: t.TempDir()})
		expect.That(t, err != nil && strings.Contains(err.Error(), name) && strings.Count(err.Error(), path) == 1,
			"%s: %v, %v", path, x, err)
	}
	bomb := tarball(t, "bomb.tar.gz", [2]string{"zeros", string(make([]byte, 12<<20))})
	expect.Is(t, expect.Err(OpenTree(bomb, &Budget{Dir: t.TempDir(), Memory: limited(1 << 20), Disk: 8 << 20})),
		formats.ErrSpace, "an archive of 12 MB where 8 MB are left")
	text := expect.Must(os.ReadFile(tarball(t, "x.tar", [2]string{"a", strings.Repeat("0 1\n", 1000)})))(t)
	cut := filepath.Join(t.TempDir(), "cut.tar")
	expect.OK(t, os.WriteFile(cut, text[:2000], 0o600))
	_, err := OpenTree(cut, nil)
	expect.That(t, err != nil && strings.Contains(err.Error(), "cut.tar"), "an archive that is cut short: %v", err)
}

// What many small members take does not grow with what a large file would be read by.
func TestLookingAtManySmallMembersTakesLittle(t *testing.T) {
	const members = 2000
	var files [][2]string
	for i := range members {
		files = append(files, [2]string{fmt.Sprintf("%d/%d.csv", i%7, i), "0 1\n"[:i%2*4]})
	}
	path := zipped(t, files...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x := expect.Must(OpenTree(path, &Budget{Dir: t.TempDir()}))(t)
	empty := x.Beginning(func(head []byte) bool { return len(head) == 0 })
	runtime.ReadMemStats(&after)
	expect.OK(t, x.Close())
	expect.That(t, len(empty) == members/2, "%d are empty", len(empty))
	each := (after.TotalAlloc - before.TotalAlloc) / members
	expect.That(t, each < 8<<10 || invariants.Enabled, "%d bytes for each member", each) // -race takes more
}

func TestArchivesInAFolderAreFound(t *testing.T) {
	dir := t.TempDir()
	want := []string{filepath.Join(dir, "a.zip"), filepath.Join(dir, "b.tar")}
	for i, archive := range []string{zipped(t, [2]string{"x", "1"}), tarball(t, "x.tar", [2]string{"x", "1"})} {
		text, err := os.ReadFile(archive)
		expect.OK(t, errors.Join(err, os.WriteFile(want[i], text, 0o600)))
	}
	expect.OK(t, os.WriteFile(filepath.Join(dir, "c.txt"), []byte("0 1\n"), 0o600))
	for path, want := range map[string][]string{dir: want, want[0]: nil, filepath.Join(dir, "c.txt"): nil} {
		x := expect.Must(OpenTree(path, &Budget{Dir: t.TempDir()}))(t)
		got := x.Archives()
		expect.That(t, slices.Equal(got, want), "%s: %v, want %v", path, got, want)
		expect.OK(t, x.Close())
	}
}

// TestFilesAreFoundBesideFoldersOfLikeNames: "a-b" stands before "a/b" in order, and a walk has it behind.
func TestFilesAreFoundBesideFoldersOfLikeNames(t *testing.T) {
	dir := t.TempDir()
	names := []string{"a-b/x", "a/b/y", "a/x", "a/y", "a.c"}
	for _, name := range names {
		expect.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700),
			os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	folder := expect.Must(OpenTree(dir, nil))(t)
	for _, name := range names {
		expect.That(t, folder.Has(name), "there is no %s in %v", name, folder.Files())
	}
	for _, tree := range []*Tree{folder, Local(filepath.Join(dir, "a.c")).Tree} {
		got := tree.Within("a")
		expect.That(t, slices.Equal(got, []string{"a/x", "a/y"}), "%v", got)
	}
}
