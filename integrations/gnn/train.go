package gnn

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
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
	// Tuning says how sparse products are computed; nil is the default. It changes no result.
	Tuning *sparse.Tuning

	// Checkpoint is a file that is written after the last epoch, and read before the first where it is there: training
	// goes on from it. "" is none.
	Checkpoint string
	// Report is called after each epoch.
	Report func(Epoch)
}

// Epoch says how training stands after an epoch.
type Epoch struct {
	Epoch    int     `json:"epoch"` // from 1
	Loss     float64 `json:"loss"`  // mean over the training nodes, with dropout
	Train    float64 `json:"train_accuracy"`
	Val      float64 `json:"val_accuracy"`
	Test     float64 `json:"test_accuracy"`
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
	return o
}

// trainer is a run of Train.
type trainer struct {
	opt    Options
	model  *Model
	tape   *Tape
	data   *data
	loader *loader.Loader
	blocks []*sparse.Matrix // the whole graph, for each layer
	step   uint64
	spent  time.Duration
	result Result
}

// Train trains a model on the splits train, val and test of a source with one type of nodes and edges, features float32
// and labels int64. ErrOptions says what does not fit. On an error the checkpoint is as it was.
func Train(ctx context.Context, source loader.Source, opt Options) (*Result, error) {
	opt = opt.withDefaults()
	if !(opt.Rate > 0 && opt.Decay >= 0) || math.IsInf(opt.Rate+opt.Decay, 0) {
		return nil, fmt.Errorf("%w: a learning rate of %g with weight decay of %g", ErrOptions, opt.Rate, opt.Decay)
	}
	d, err := read(source.Graph(), opt)
	if err != nil {
		return nil, err
	}
	model, err := NewModel(d.features, d.classes, opt)
	if err != nil {
		return nil, err
	}
	pool := sparse.Open(sparse.Options{Workers: opt.Workers, Tuning: opt.Tuning})
	defer pool.Close()
	t := &trainer{opt: opt, model: model, tape: NewTape(pool), data: d}
	t.tape.Seed = opt.Seed
	t.result = Result{Model: opt.Model, Features: d.kind()}
	whole, err := t.prepared(d.whole)
	if err != nil {
		return nil, err
	}
	t.blocks = slices.Repeat([]*sparse.Matrix{whole}, opt.Layers)
	if opt.Fanouts != nil {
		if t.loader, err = open(source, opt); err != nil {
			return nil, err
		}
		defer t.loader.Close()
	}
	return t.run(ctx)
}

func open(source loader.Source, opt Options) (*loader.Loader, error) {
	if len(opt.Fanouts) != opt.Layers {
		return nil, fmt.Errorf("%w: %d fan-outs for %d layers", ErrOptions, len(opt.Fanouts), opt.Layers)
	}
	return loader.New(source, loader.Options{Sampler: sampling.Neighbor{Fanouts: opt.Fanouts}, BatchSize: opt.BatchSize,
		Shuffle: true, Seed: opt.Seed, Device: "cpu", Workers: opt.Workers})
}

// prepared returns the matrix that the model computes with.
func (t *trainer) prepared(a *sparse.Matrix) (*sparse.Matrix, error) {
	if t.model.Loops() {
		return a.WithLoops()
	}
	return a, nil
}

func (t *trainer) run(ctx context.Context) (*Result, error) {
	done, err := t.restore()
	if err != nil {
		return nil, err
	}
	for epoch := done + 1; epoch <= t.opt.Epochs; epoch++ {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		start := time.Now()
		loss, batches, err := t.epoch(ctx, epoch)
		if err == nil && !(loss < math.Inf(1)) {
			err = fmt.Errorf("the loss is %v: lower the learning rate, and see that features are finite", loss)
		}
		if err != nil {
			return nil, fmt.Errorf("epoch %d: %w", epoch, err)
		}
		took := time.Since(start)
		t.spent += took
		e := Epoch{Epoch: epoch, Loss: loss, Seconds: t.spent.Seconds(), BatchesS: float64(batches) / took.Seconds()}
		if err := t.evaluate(&e); err != nil {
			return nil, err
		}
		if r := &t.result; epoch == 1 || e.Val > r.Val {
			r.Best, r.Val, r.Test = epoch, e.Val, e.Test
		}
		t.result.Epochs, t.result.Loss, t.result.Seconds = epoch, loss, t.spent.Seconds()
		if t.opt.Report != nil {
			t.opt.Report(e)
		}
	}
	return &t.result, t.save()
}

// epoch trains on the whole graph once, or on all batches.
func (t *trainer) epoch(ctx context.Context, epoch int) (loss float64, batches int, err error) {
	t.tape.Training = true
	defer func() { t.tape.Training = false }()
	train := t.data.splits[0]
	if t.loader == nil {
		loss, err = t.learn(t.blocks, t.data.input(), train.rows, train.labels)
		return loss, 1, err
	}
	seeds := 0
	for batch, err := range t.loader.Epoch(ctx, uint64(epoch)) {
		if err != nil {
			return 0, 0, err
		}
		blocks := make([]*sparse.Matrix, t.opt.Layers)
		for i := range blocks {
			a, err := sparse.Block(&batch.Sample.Blocks[i][0])
			if err == nil {
				blocks[i], err = t.prepared(a)
			}
			if err != nil {
				return 0, 0, err
			}
		}
		x, err := unified.View[float32](batch.X())
		if err != nil {
			return 0, 0, err
		}
		labels, err := unified.View[int64](batch.Y())
		if err != nil {
			return 0, 0, err
		}
		in := NewValue(int(batch.X().Len()), t.data.features, t.data.normalised(x, t.opt.RowNormalise))
		rows := make([]int64, len(labels))
		for i := range rows {
			rows[i] = int64(i)
		}
		one, err := t.learn(blocks, Input{Dense: in}, rows, labels)
		if err != nil {
			return 0, 0, err
		}
		loss += one * float64(len(rows))
		seeds, batches = seeds+len(rows), batches+1
	}
	return loss / float64(max(seeds, 1)), batches, nil
}

// learn makes one step.
func (t *trainer) learn(blocks []*sparse.Matrix, in Input, rows, labels []int64) (float64, error) {
	t.step++
	t.tape.Reset()
	t.tape.Step = t.step
	scores := t.model.Forward(t.tape, blocks, in)
	loss, _ := t.tape.CrossEntropy(scores, rows, labels)
	if err := t.tape.Backward(); err != nil {
		return 0, err
	}
	t.model.adam(t.step, t.opt.Rate, t.opt.Decay)
	return loss, nil
}

// evaluate measures accuracy on the whole graph.
func (t *trainer) evaluate(e *Epoch) error {
	t.tape.Reset()
	scores := t.model.Forward(t.tape, t.blocks, t.data.input())
	scores.Grad = nil
	for i, to := range []*float64{&e.Train, &e.Val, &e.Test} {
		s := t.data.splits[i]
		_, right := t.tape.CrossEntropy(scores, s.rows, s.labels)
		*to = float64(right) / float64(max(len(s.rows), 1))
	}
	return t.tape.Err()
}

// data is what training reads of a graph.
type data struct {
	whole             *sparse.Matrix
	features, classes int
	dense             []float32
	sparse            *Sparse
	splits            [3]split
}

type split struct{ rows, labels []int64 }

func read(g *graph.Graph, opt Options) (*data, error) {
	if s := g.Schema(); len(s.Nodes) != 1 || len(s.Edges) != 1 {
		return nil, fmt.Errorf("%w: the graph has %d types of nodes and %d of edges; a model here takes one each",
			ErrOptions, len(s.Nodes), len(s.Edges))
	}
	column, _ := g.NodeColumn(0, "feature")
	x, err := unified.View[float32](column)
	if err != nil {
		return nil, fmt.Errorf("%w: features must be float32, and are %v", ErrOptions, column)
	}
	column2, _ := g.NodeColumn(0, "label")
	labels, err := unified.View[int64](column2)
	if err != nil || column2.Width() != 1 {
		return nil, fmt.Errorf("%w: labels must be int64, one a node, and are %v", ErrOptions, column2)
	}
	d := &data{features: int(column.Width())}
	if d.whole, err = sparse.Whole(g); err != nil {
		return nil, err
	}
	for i, name := range []string{"train", "val", "test"} {
		if err := d.split(g, i, name, labels); err != nil {
			return nil, err
		}
	}
	d.dense = d.normalised(x, opt.RowNormalise)
	if d.sparse, err = sparsely(d.dense, d.features); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *data) split(g *graph.Graph, i int, name string, labels []int64) error {
	seeds, err := g.Split(name, 0)
	if err != nil {
		return err
	}
	if len(seeds.Edges) > 0 {
		return fmt.Errorf("%w: split %s has edges, not nodes", ErrOptions, name)
	}
	s := &d.splits[i]
	for k := range seeds.Len() {
		_, v := seeds.At(k)
		if labels[v] < 0 || labels[v] > maxClasses {
			return fmt.Errorf("%w: split %s: node %d has label %d", ErrOptions, name, v, labels[v])
		}
		s.rows, s.labels = append(s.rows, v), append(s.labels, labels[v])
		d.classes = max(d.classes, int(labels[v])+1)
	}
	return nil
}

// maxClasses bounds what a wrong label takes of memory.
const maxClasses = 1 << 20

// normalised returns rows that sum to 1, or the same.
func (d *data) normalised(x []float32, wanted bool) []float32 {
	if !wanted {
		return x
	}
	to := make([]float32, len(x))
	for i := 0; i < len(x); i += d.features {
		sum := float32(0)
		for _, v := range x[i : i+d.features] {
			sum += v
		}
		if sum == 0 {
			sum = 1
		}
		for k, v := range x[i : i+d.features] {
			to[i+k] = v / sum
		}
	}
	return to
}

// sparsely returns the features as a sparse matrix where less than a tenth of them is not 0.
func sparsely(x []float32, width int) (*Sparse, error) {
	n := 0
	for _, v := range x {
		if v != 0 {
			n++
		}
	}
	if 10*n >= len(x) {
		return nil, nil
	}
	s := &Sparse{Values: make([]float32, 0, n)}
	indptr, indices := []int64{0}, make([]int32, 0, n)
	for i, v := range x {
		if v != 0 {
			s.Values, indices = append(s.Values, v), append(indices, int32(i%width))
		}
		if i%width == width-1 {
			indptr = append(indptr, int64(len(indices)))
		}
	}
	var err error
	s.Matrix, err = sparse.New(int64(width), unified.FromSlice(indptr), unified.FromSlice(indices))
	return s, err
}

func (d *data) kind() string {
	if d.sparse != nil {
		return "sparse"
	}
	return "dense"
}

func (d *data) input() Input {
	return Input{Dense: NewValue(int(d.whole.Rows()), d.features, d.dense), Sparse: d.sparse}
}
