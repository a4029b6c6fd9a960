package gnn

import (
	"time"

	"github.com/khop-gnn/khop/sparse"
)

// Options say what to train and how. Zero values are defaults, but for Seed and Dropout, which may be 0.
type Options struct {
	Model   string  // "sage", "gcn", "gin" or "gat"
	Layers  int     // default 2
	Hidden  int     // width of hidden layers, of each head for gat; default 16, 8 for gat
	Heads   int     // of gat; default 8
	Dropout float32 // of the input, of hidden layers and of attention
	Rate    float64 // learning rate; default 0.01
	Decay   float64 // of weights, added to the gradient
	Epochs  int     // default 100
	Seed    uint64

	// RowNormalise divides each node's features by their sum, where that is not 0.
	RowNormalise bool
	// Fanouts are those of batches, hop by hop out of the seeds, one a layer; nil trains on the whole graph at once.
	Fanouts   []int
	BatchSize int // default 1024
	Workers   int // goroutines; default all processors
	// Tuning says how sparse products are computed; nil is the default. It changes no result. Fastest adds its ways.
	Tuning *sparse.Tuning

	// BackwardBudget is the share of the work for the gradients of aggregations that is done, in the first four fifths
	// of the epochs: rows are drawn, those that count most rather than others, and stand for all. 0 is all of it,
	// exactly. On the whole graph the layers share the budget, and a choice serves ten steps; with Fanouts each batch
	// and layer has its own. GAT, whose edges have trained values, is always exact.
	BackwardBudget float64
	// Fastest computes each layer in the way that is the fastest here (Explain): of those that a model of costs, fitted
	// to this machine, predicts to be near the fastest, the one that wins when they take turns. Tuning keeps the winner
	// for layers of such sizes. The result then depends on the machine, by rounding. A checkpoint keeps the ways.
	Fastest bool
	// MaxMemory bounds what training takes outside of the source, in bytes; 0 is no limit. Where it does not suffice,
	// the error is loader.ErrMemory.
	MaxMemory int64

	// Checkpoint is a file that is read before the first epoch where it is there: training goes on from it. It is
	// written after the last epoch, once in CheckpointEvery (default a minute), and when the context ends. "" is none.
	Checkpoint      string
	CheckpointEvery time.Duration
	// Report is called after each epoch, Progress after each batch.
	Report   func(Epoch)
	Progress func(Step)
}

// Step says how training stands within an epoch.
type Step struct {
	Epoch, Batch, Batches int     // from 1
	Loss                  float64 // mean over the epoch's training nodes so far, with dropout
}

// Point is what an epoch came to: a point of the learning curves.
type Point struct {
	Epoch int     `json:"epoch"` // from 1
	Loss  float64 `json:"loss"`  // mean over the training nodes, with dropout
	Train float64 `json:"train_accuracy"`
	Val   float64 `json:"val_accuracy"`
	Test  float64 `json:"test_accuracy"`
}

// Epoch says how training stands after an epoch.
type Epoch struct {
	Point
	Seconds  float64 `json:"seconds"` // of training since the start
	BatchesS float64 `json:"batches_per_second"`
}

// Result is what training came to: the accuracies of the epoch with the best one on the validation split, the first of
// several.
type Result struct {
	Model    string  `json:"model"`
	Epochs   int     `json:"epochs"`
	Best     int     `json:"best_epoch"`
	Val      float64 `json:"val_accuracy"`
	Test     float64 `json:"test_accuracy"`
	Loss     float64 `json:"loss"`
	Seconds  float64 `json:"seconds"` // of training, without measuring accuracy
	Features string  `json:"features"`
	// Choosing is the time that the choice of ways took (Options.Fastest), before training.
	Choosing float64 `json:"choosing_seconds,omitempty"`

	Approximation *Approximation `json:"approximation,omitempty"`

	Curve []Point `json:"-"` // of all epochs, those before a checkpoint among them
}

func (o Options) withDefaults() Options {
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.Layers, 2)
	set(&o.Heads, 8)
	set(&o.Epochs, 100)
	set(&o.BatchSize, 1024)
	if o.Model == "gat" {
		set(&o.Hidden, 8)
	}
	set(&o.Hidden, 16)
	if o.Rate == 0 {
		o.Rate = 0.01
	}
	if o.CheckpointEvery == 0 {
		o.CheckpointEvery = time.Minute
	}
	return o
}
