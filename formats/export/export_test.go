package export

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestReplacingAnExportNeverLosesIt stops a replacement at each step.
func TestReplacingAnExportNeverLosesIt(t *testing.T) {
	for _, c := range []struct{ name, there, after string }{
		{"first", "root:new", "target:new"},
		{"replaced", "root:new target:old", "target:new"},
		{"what a killed run left", "root:new target.khop-before:old", "target:new"},
		{"two of them", "root:new target:old target.khop-before:older", "target:new"},
		{"nothing to move", "target:old", "target:old"},
		{"nothing to move after a kill", "target.khop-before:old", "target:old"},
		{"nothing to move after a kill amid moving", "target: target.khop-before:old", "target:old"},
		{"killed amid moving", "root:new target: target.khop-before:old", "target:new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range strings.Fields(c.there) {
				name, text, _ := strings.Cut(f, ":")
				expect.OK(t, os.Mkdir(filepath.Join(dir, name), 0o700))
				if text != "" {
					expect.OK(t, os.WriteFile(filepath.Join(dir, name, "a"), []byte(text), 0o600))
				}
			}
			err := transaction.Put(filepath.Join(dir, "root"), filepath.Join(dir, "target"), "a")
			expect.That(t, (err == nil) == strings.Contains(c.there, "root"), "%v", err)
			var got []string
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				text, _ := os.ReadFile(filepath.Join(dir, e.Name(), "a"))
				got = append(got, e.Name()+":"+string(text))
			}
			expect.That(t, strings.Join(got, " ") == c.after, "%v, want %s", got, c.after)
		})
	}
}

// TestAnExportIsThereAtAnyMoment replaces a folder again and again, while another goroutine reads it.
func TestAnExportIsThereAtAnyMoment(t *testing.T) {
	dir := t.TempDir()
	folder := func(name string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.Mkdir(path, 0o700))
		return path
	}
	target := folder("target")
	if err := transaction.Exchange(target, folder("other")); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the system cannot exchange names in one step")
	}
	stop, missing := make(chan bool), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				missing <- n
				return
			default:
				if _, err := os.Lstat(target); err != nil {
					n++
				}
			}
		}
	}()
	for range 1000 {
		expect.OK(t, transaction.Put(folder("root"), target, ""))
	}
	close(stop)
	n := <-missing
	expect.That(t, n <= 0, "it was not there %d times", n)
}

// TestADamagedDatasetIsNotExported: a flipped bit of any file is named, unless the format has nothing of that file.
func TestADamagedDatasetIsNotExported(t *testing.T) {
	ctx := context.Background()
	for _, format := range Formats {
		sound := dataset(t, 6, 12, format[0] == "npz" || format[0] == "pyg") // one file: others would be many
		m, dir := sound.Manifest(), sound.Path()
		var parts []formats.Part
		for _, c := range m.Columns {
			parts = append(parts, c.Parts...)
		}
		for _, s := range m.Splits {
			for _, set := range s.Sets {
				parts = append(parts, set.Parts...)
			}
		}
		export := func(ds *formats.Dataset) (string, error) {
			target := filepath.Join(t.TempDir(), "out")
			_, err := Run(ctx, ds, target, Options{To: format[0]})
			if err != nil {
				left, _ := os.ReadDir(filepath.Dir(target))
				expect.That(t, len(left) == 0, "%s: left behind: %v", format[0], left)
				return "", err
			}
			return contents(t, target, format[0]), nil
		}
		want := expect.Must(export(sound))(t)
		for _, p := range parts {
			path := filepath.Join(dir, p.Path)
			if p.Bytes == 0 || strings.HasSuffix(path, "indptr.arrow") { // a bit of it is found by opening, too
				continue
			}
			flip(t, path, p.BodyOffset+p.Bytes/2)
			ds := expect.Must(formats.Open(dir))(t)
			got, err := export(ds)
			if err == nil {
				lacks := format[0] != "numpy" && format[0] != "npz" // links and names of nodes
				expect.That(t, lacks && got == want, "%s: damage of %s is exported", format[0], p.Path)
			} else {
				expect.That(t, errors.Is(err, formats.ErrCorrupt) && strings.Contains(err.Error(), path+": ") &&
					strings.Contains(err.Error(), "(chunk 1 of 1)"), "%s: damage of %s: %v", format[0], p.Path, err)
			}
			expect.OK(t, ds.Close())
			flip(t, path, p.BodyOffset+p.Bytes/2)
		}
	}
}

// flip flips a bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f := expect.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	var b [1]byte
	_, err := f.ReadAt(b[:], at)
	expect.OK(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b[:], at)
	expect.OK(t, err, f.Close())
}
