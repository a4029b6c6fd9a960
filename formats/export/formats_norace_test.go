//go:build !race

package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestEveryFormatIsWrittenAndReadAgain compares files, notes and what readers read of them with testdata/exports.txt.
func TestEveryFormatIsWrittenAndReadAgain(t *testing.T) {
	var all strings.Builder
	for _, c := range []struct {
		name         string
		nodes, edges int64
		typed        bool
	}{{"plain", 5, 6, false}, {"types", 6, 12, true}, {"large of types", 20_000, 40_000, true}} {
		ds := dataset(t, c.nodes, c.edges, c.typed)
		for _, format := range Formats {
			target, stages := filepath.Join(t.TempDir(), "out"), ""
			if ext := map[string]string{"npz": ".npz", "pyg": ".pt"}[format[0]]; ext != "" {
				target += ext
			}
			res := expect.Must(Run(context.Background(), ds, target, Options{To: format[0],
				Progress: func(stage string, done, total int64) {
					stages = fmt.Sprintf("%s %d, all %t", stage, done, total == ds.FileBytes())
				}}))(t)
			text := contents(t, target, format[0])
			if format[0] == "parquet" || format[0] == "graphar" {
				res.Bytes, stages = 0, ""
			}
			fmt.Fprintf(&all, "# %s as %s: %+v, %s\n%s", c.name, format[0], *res, stages, text)
			if c.edges == 6 || c.edges == 12 {
				again(t, ds, target, format[0], text)
			}
		}
	}
	expect.Golden(t, "testdata/exports.txt", all.String())
}

// again exports where an export lies already: refused, replaced by force, and left as it is where the context ends.
func again(t *testing.T, ds *formats.Dataset, target, format, before string) {
	t.Helper()
	if _, err := Run(context.Background(), ds, target, Options{To: format}); !errors.Is(err, formats.ErrExist) ||
		err.Error() != target+": "+formats.ErrExist.Error()+"; choose another target, or replace it (Force)" {
		t.Errorf("%s: a second export: %v", format, err)
	}
	for looks := int64(0); ; looks += 1 + looks {
		_, err := Run(expect.EndsAfter(context.Background(), looks), ds, target, Options{To: format, Force: true})
		left, _ := os.ReadDir(filepath.Dir(target))
		expect.Ensure(t, len(left) == 1, "%s: left behind: %v", format, left)
		after := contents(t, target, format)
		expect.Ensure(t, after == before, "%s: after %v it is\n%s\nand was\n%s", format, err, after, before)
		if err == nil {
			return
		}
		expect.Ensure(t, errors.Is(err, context.Canceled), "%s: the context ends at look %d: %v", format, looks, err)
	}
}
