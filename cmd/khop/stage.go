package main

import (
	"fmt"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/paths"
)

type stageCmd struct {
	Dataset string `arg:"" help:"Address: s3://BUCKET/PATH, gs://.., https://.. or hf://datasets/OWNER/NAME@REV/PATH."`

	flagsOf[noOptions] `embed:""`

	jsonFlag `embed:""`
}

// stageResult is what "khop stage --json" prints. Scripts rely on the names.
type stageResult struct {
	Dataset string  `json:"dataset"`
	ID      string  `json:"id"`
	Path    string  `json:"path"` // of the folder that has it now
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Run brings the dataset.
func (c *stageCmd) Run(env *environment) (err error) {
	ds, took, err := watched(env, func(bar *progress) (*formats.Dataset, error) {
		c.elsewhere.Progress, c.elsewhere.Verify = bar.report(), true
		return remote.Open(env.ctx, c.Dataset, c.elsewhere)
	})
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	id := ds.ID()
	r := stageResult{paths.Text(c.Dataset), fmt.Sprintf("%x", id[:]), paths.Text(ds.Path()), ds.FileBytes(),
		took.Seconds()}
	return c.answer(env, r, "%s: %s in %s, in %s\n", r.Dataset, machine.Bytes(r.Bytes), r.Path, durationText(took))
}

// openDataset opens a dataset, which is brought whole where it lies elsewhere.
func (f *tagFlags) openDataset(env *environment, dataset string) (*formats.Dataset, error) {
	return f.open(env, dataset, false)
}

// openForLoaders opens a dataset for loaders alone: features from elsewhere are brought as they are needed.
func (f *tagFlags) openForLoaders(env *environment, dataset string) (*formats.Dataset, error) {
	return f.open(env, dataset, true)
}

func (f *tagFlags) open(env *environment, dataset string, lazy bool) (*formats.Dataset, error) {
	ds, _, err := watched(env, func(bar *progress) (*formats.Dataset, error) {
		e := f.elsewhere
		e.Progress, e.Lazy = bar.report(), lazy
		return remote.Open(env.ctx, dataset, e)
	})
	return ds, err
}
