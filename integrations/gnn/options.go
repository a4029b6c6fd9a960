package gnn

import (
	"cmp"
	"time"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sparse"
)

// Options say what to train and how. Zero values are defaults, except for Seed, Dropout and Decay, which may be 0.
// Package internal/option reads the tags.
type Options struct {
	Model  string `choices:"sage,gcn,gin,gat" default:"sage" help:"Model to train:"`
	Epochs int    `default:"100" range:"1,2147483647" help:"Number of epochs, including those of the checkpoint."`
	Layers int    `default:"2" range:"1,2147483647" help:"Number of layers."`
	// For gat, Hidden is the width of each head.
	Hidden int `default:"0" range:"0,2147483647" help:"Width of hidden layers, for gat of each head; 0: 16, for gat 8."`
	Heads  int `default:"8" range:"1,2147483647" help:"Heads of hidden layers of gat; the last layer has one."`
	// Dropout, below 1, applies to the input, to hidden layers and to attention.
	Dropout float32 `default:"0.5" zero:"0" range:"0,1" help:"..."`
	Rate    float64 `default:"0.01" range:"0,1e300" help:"Learning rate of Adam."`
	Decay   float64 `default:"0.0005" zero:"0" range:"0,1e300" help:"Weight decay, added to the gradient."`
	// RowNormalise does not change rows whose sum is 0.
	RowNormalise bool `help:"Divide each node's features by their sum."`
	// Fanouts are one for each hop, beginning at the seeds; nil trains on the whole graph.
	Fanouts   []int `value:"N,..." help:"...gnn-fanouts"`
	BatchSize int   `same:"batch-size"`
	// BackwardBudget is the share of the work for the gradients of aggregations to do, in the first four fifths of the
	// epochs: rows are drawn, preferably those that count most, and represent all rows. 0 means all of the work,
	// exactly. On the whole graph the layers share the budget, and a choice of rows is used for ten steps; with Fanouts
	// each batch and layer has its own. GAT, whose edges have trained values, is always exact.
	BackwardBudget float64 `default:"0" range:"0,1" help:"..."`
	// Fastest chooses the order of operations of each layer (Explain). A model of costs, fitted to this machine,
	// predicts which orders are near the fastest; these run alternately, and the fastest wins. Tuning keeps the winner
	// for layers of such sizes. The result then depends on the machine, by rounding. A checkpoint keeps the orders.
	Fastest bool   `help:"Compute each layer the fastest way here; rounding then depends on the machine."`
	Seed    uint64 `same:"seed"`
	Workers int    `default:"0" range:"0,32767" help:"Goroutines; 0: one per core. They change no result."`
	// MaxMemory is the most memory, in bytes, without the source. If it does not suffice, the error is
	// loader.ErrMemory.
	MaxMemory int64 `same:"max-memory" kind:"size"`
	// Trace is a trace of loading batches (loader.TuningOptions).
	Trace string `same:"trace"`
	// Checkpoint is read before the first epoch; training continues from it. It is written after the last epoch, once
	// in CheckpointEvery, and when the context ends.
	Checkpoint      string        `kind:"path" value:"FILE" help:"..."`
	CheckpointEvery time.Duration `name:"save-every" default:"1m" help:"Write the checkpoint at least this often."`

	// Tuning says how sparse products are computed; nil is the default. It changes no result. Fastest adds its orders.
	Tuning *sparse.Tuning
	// Report is called after each epoch, Progress after each batch.
	Report   func(Epoch)
	Progress func(Step)
	// Opened is called with the loader of batches, which exists until Train returns; not without Fanouts.
	Opened func(*loader.Loader)
}

// Step is the state of training within an epoch.
type Step struct {
	Epoch, Batch, Batches int     // from 1
	Loss                  float64 // mean over the epoch's training nodes so far, with dropout
}

// Point is the result of an epoch: a point of the learning curves.
type Point struct {
	Epoch int     `json:"epoch"` // from 1
	Loss  float64 `json:"loss"`  // mean over the training nodes, with dropout
	Train float64 `json:"train_accuracy"`
	Val   float64 `json:"val_accuracy"`
	Test  float64 `json:"test_accuracy"`
}

// Epoch is the state of training after an epoch.
type Epoch struct {
	Point
	Seconds  float64 `json:"seconds"` // of training since the start
	BatchesS float64 `json:"batches_per_second"`
	// Loading is the report of loading its batches; nil without Options.Fanouts.
	Loading *loader.Report `json:"loading,omitempty"`
}

// Result is the result of training. Its accuracies are those of the epoch with the best accuracy on the validation
// split; the first one if there are several.
type Result struct {
	Model    string  `json:"model"`
	Epochs   int     `json:"epochs"`
	Best     int     `json:"best_epoch"`
	Val      float64 `json:"val_accuracy"`
	Test     float64 `json:"test_accuracy"`
	Loss     float64 `json:"loss"`
	Seconds  float64 `json:"seconds"` // of training, without measuring accuracy
	Features string  `json:"features"`
	// Choosing is the time to choose the orders of operations (Options.Fastest), before training.
	Choosing float64 `json:"choosing_seconds,omitempty"`

	Approximation *Approximation `json:"approximation,omitempty"`

	// Loading is the report of the last epoch's loading; nil without Options.Fanouts.
	Loading *loader.Report `json:"loading,omitempty"`

	Curve []Point `json:"-"` // of all epochs, including those before a checkpoint
}

func (o Options) withDefaults() Options {
	option.Fill(&o)
	o.BatchSize = cmp.Or(o.BatchSize, option.Default(loader.Options{}, "BatchSize"))
	if o.Hidden == 0 {
		o.Hidden = map[bool]int{false: 16, true: 8}[o.Model == "gat"]
	}
	return o
}
