package export

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

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
