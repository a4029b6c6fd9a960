package main

import (
	"cmp"

	"github.com/khop-gnn/khop/cmd/khop/internal/plot"
	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/wholefile"
)

// plotFlags are for commands that draw what they found.
type plotFlags struct {
	Plot  string `type:"path" placeholder:"FILE" help:"Draw ${plot_of}, as SVG, or PNG for .png."`
	Force bool   `help:"Let --plot replace a file that khop did not draw."`
}

func (f plotFlags) output(read ...string) wholefile.Output {
	return plot.File(f.Plot, f.Force, orForce, read...)
}

// openDataset opens a dataset, unless the plot of it, or another file, could not be written, which is reported before
// long work.
func (f plotFlags) openDataset(env *environment, from *tagFlags, dataset string, written ...string) (*formats.Dataset,
	error) {
	var err error
	for _, file := range written {
		if file != "" {
			err = cmp.Or(err, wholefile.Apart(file, dataset))
		}
	}
	if f.Plot != "" {
		err = cmp.Or(err, f.output(dataset).Check())
	}
	if err != nil {
		return nil, err
	}
	return from.openDataset(env, dataset)
}

// draw draws what is about to be printed, where a plot is wanted.
func draw[T any](env *environment, f plotFlags, title string, printed ...T) error {
	if f.Plot == "" {
		return nil
	}
	list, err := plot.Of(title, printed)
	if err != nil {
		return err
	}
	return f.output().Write(env.ctx, plot.Sheet(list).Draw(f.Plot))
}
