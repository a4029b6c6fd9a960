package main

import (
	"cmp"
	"math"
	"strconv"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/plot"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/sparse"
)

// plotFlags are for commands that draw what they found.
type plotFlags struct {
	Plot  string `type:"path" placeholder:"FILE" help:"Draw ${plot_of}, as SVG, or as PNG if it ends in .png."`
	Force bool   `help:"Let --plot replace a file that khop has not drawn."`
}

func (f plotFlags) output(read ...string) wholefile.Output {
	return plot.File(f.Plot, f.Force, orForce, read...)
}

// openDataset opens a dataset, unless the plot of it, or another file, could not be written, which is said before long
// work.
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

// draw makes and writes the plot, where one is wanted.
func (f plotFlags) draw(env *environment, of func() *plot.Plot) error {
	if f.Plot == "" {
		return nil
	}
	return f.output().Write(env.ctx, of().Draw(f.Plot))
}

// learningCurves draws loss and accuracies by epoch.
func learningCurves(title string, points []gnn.Point) *plot.Plot {
	loss := plot.Curve{Name: "loss", Left: true}
	train, val, test := plot.Curve{Name: "training"}, plot.Curve{Name: "validation"}, plot.Curve{Name: "test"}
	for _, p := range points {
		x := float64(p.Epoch)
		loss.Add(x, p.Loss)
		train.Add(x, p.Train)
		val.Add(x, p.Val)
		test.Add(x, p.Test)
	}
	return &plot.Plot{Title: title, Bottom: "epoch", Left: "loss", Right: "accuracy",
		Curves: []plot.Curve{loss, train, val, test}}
}

// speedUps draws the speed-up over the untuned plan by width: a line without values of edges, one with them.
func speedUps(tuned []sparse.Tuned) *plot.Plot {
	without, with := plot.Curve{Name: "without values"}, plot.Curve{Name: "with values"}
	p := &plot.Plot{Title: "speed-up over the untuned kernel, by width", Bottom: "width", Right: "speed-up"}
	for _, t := range tuned {
		line, x := &without, math.Log2(float64(t.Width))
		if t.Weighted {
			line = &with
		} else {
			p.Ticks = append(p.Ticks, plot.Tick{At: x, Label: strconv.FormatInt(t.Width, 10)})
		}
		line.Add(x, speedUp(t))
	}
	p.Curves = []plot.Curve{without, with}
	return p
}
