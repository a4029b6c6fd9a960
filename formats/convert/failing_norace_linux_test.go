//go:build !race

package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// stateOf says what is at dir: the id of a dataset, or that there is none; and how many others are beside it.
func stateOf(dir string) (id string, beside int) {
	list, _ := filepath.Glob(filepath.Dir(dir) + "/*")
	d, err := formats.Open(dir)
	if errors.Is(err, formats.ErrIncomplete) || errors.Is(err, os.ErrNotExist) {
		return "none", len(list)
	}
	if err != nil {
		return err.Error(), len(list)
	}
	defer d.Close()
	return fmt.Sprintf("%x, generation %d", d.ID(), d.Manifest().Generation), len(list)
}

// TestEveryFailingSystemCallIsAnErrorAndHarmsNothing of those by which a conversion, an addition and a merge read and
// write; what a dataset's writer does is tested in its own package.
func TestEveryFailingSystemCallIsAnErrorAndHarmsNothing(t *testing.T) {
	ctx := context.Background()
	var src, features string
	run := func(opt Options) func(dir string) error {
		return func(dir string) error {
			_, err := Run(ctx, src, dir, opt)
			return err
		}
	}
	root := t.TempDir()
	src, features = filepath.Join(root, "edges.csv"), filepath.Join(root, "x.npy")
	put(t, root, map[string]string{"edges.csv": "src,dst,weight\nada,bob,1\ncal,bob,2\n",
		"x.npy": string(expect.NPY(make([]float32, 6), 3, 2))})
	database, more := shopFolder(t), rowsOf(t, "users: user,age,plan/cid,1,free", "visits: visit,user,pages/2,cid,1")
	for name, a := range map[string]expect.Attempt{
		"convert": {State: stateOf, Do: run(Options{Features: features,
			FeatureDType: []string{"int8"}, Loops: AddLoops})},
		"reorder": {State: stateOf, Do: run(Options{Reorder: BreadthFirst, Force: true})},
		"tasks": {State: stateOf, Do: func(dir string) error {
			if _, err := inTasks(ctx, src, dir, 2, Options{}); err != nil {
				return errors.Join(err, CleanTasks(context.Background(), dir))
			}
			return nil
		}},
		"add": {Before: run(Options{}), State: stateOf, Do: func(dir string) error {
			_, err := Add(ctx, dir, adds(AddOptions{}, extra{nodeColumn, "x", "", features}))
			return err
		}},
		"rows": {Before: func(dir string) error {
			_, err := Run(ctx, database, dir, Options{})
			return err
		}, State: stateOf, Do: func(dir string) error {
			_, err := Add(ctx, dir, more)
			return err
		}},
	} {
		a.Elsewhere, a.Again = true, "pread64" // a table that cannot be read past the page cache is read by way of it
		t.Run(name, func(t *testing.T) {
			expect.FailingCalls(t, root, a)
			for _, name := range []string{"whole", "old"} {
				expect.OK(t, os.RemoveAll(filepath.Join(root, name)))
			}
		})
	}
}
