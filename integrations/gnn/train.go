package gnn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/trace"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// trainer is a run of Train.
type trainer struct {
	opt    Options
	model  *network
	tape   *autodiff
	data   *data
	loader *loader.Loader
	blocks []*sparse.Matrix // the whole graph, for each layer
	// sampled are what ways to compute layers are chosen for: see sample.
	sampled  []*sparse.Matrix
	choosing time.Duration // of ways to compute layers
	spent    time.Duration
	steps    int       // that took it
	saved    time.Time // when the checkpoint was written, or training began
	place
}

// place is where training stands, beside the parameters.
type place struct {
	Epoch  int     `json:"epoch"` // in hand, from 1
	Step   uint64  `json:"step"`  // steps that were made
	Loss   float64 `json:"loss"`  // the sum over the nodes of this epoch's batches so far
	Seeds  int     `json:"seeds"` // those nodes
	Points []Point `json:"points"`
	next   uint64  // batch of this epoch
}

// Train trains a model on the splits train, val and test of a source with one type of nodes and edges, features of
// float32 or floats of 16 bits, and labels of int64. ErrOptions says what does not fit. When ctx ends, the checkpoint
// has all steps so far, and Train returns the result so far with context.Cause. On other errors the checkpoint stays as
// it was last written.
func Train(ctx context.Context, source loader.Source, opt Options) (_ *Result, err error) {
	opt = opt.withDefaults()
	t, err := prepare(ctx, source, opt)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := t.close(); err == nil {
			err = e
		}
	}()
	if t.loader != nil {
		t.tape.approximate.of(t.loader.AllBatches())
	}
	if err := t.choose(ctx); err != nil {
		return nil, err
	}
	return t.run(ctx)
}

// prepare checks options, reads the graph, makes a model, and opens a loader where there are fan-outs. The caller
// closes what it returns.
func prepare(ctx context.Context, source loader.Source, opt Options) (*trainer, error) {
	if err := option.Check(ErrOptions, opt); err != nil {
		return nil, err
	}
	if opt.Trace != "" && opt.Fanouts == nil {
		return nil, option.Errorf(ErrOptions, opt, "Trace", " is of batches: there are some with %s",
			option.NameOf(opt, "Fanouts"))
	}
	memory := &budget{limit: opt.MaxMemory}
	if err := verify(source); err != nil {
		return nil, err
	}
	d, err := read(source.Graph(), opt, memory)
	if err != nil {
		return nil, err
	}
	model, err := newNetwork(d.features, d.classes, opt, memory)
	if err != nil {
		return nil, err
	}
	t := &trainer{opt: opt, model: model, data: d, place: place{Epoch: 1}}
	whole, err := t.prepared(d.whole)
	if err != nil {
		return nil, err
	}
	t.blocks = slices.Repeat([]*sparse.Matrix{whole}, opt.Layers)
	t.tape = newAutodiff(sparse.Open(sparse.Options{Workers: opt.Workers, Tuning: opt.Tuning}))
	t.tape.Seed, t.tape.memory, t.tape.approximate = opt.Seed, memory, newApproximation(opt)
	if opt.Fanouts != nil {
		if t.loader, err = open(ctx, source, opt, memory); err != nil {
			return nil, errors.Join(err, t.close())
		}
		if opt.Opened != nil {
			opt.Opened(t.loader)
		}
	}
	return t, nil
}

func (t *trainer) close() (err error) {
	if t.loader != nil {
		err = t.loader.Close()
	}
	t.tape.pool.Close()
	return err
}

// open opens the loader, which may take half of the memory that is left.
func open(ctx context.Context, source loader.Source, opt Options, memory *budget) (*loader.Loader, error) {
	if len(opt.Fanouts) != opt.Layers {
		return nil, option.Errorf(ErrOptions, opt, "Fanouts", " are %d for %d layers: give one a layer",
			len(opt.Fanouts), opt.Layers)
	}
	o := loader.Options{Sampler: sampling.Neighbor{Fanouts: opt.Fanouts, Frontier: sampling.AllNodes},
		BatchSize: opt.BatchSize, Shuffle: true, Seed: opt.Seed, Device: loader.DeviceOptions{Name: "cpu"},
		Workers: opt.Workers,
		Columns: loader.ColumnOptions{Prepare: preparation(opt.Model)}, Tuning: loader.TuningOptions{Trace: opt.Trace},
		Hooks: loader.Hooks{Trace: trace.Open}}
	if memory.limit > 0 {
		o.MaxMemory = max((memory.limit-memory.held)/2, 1)
		memory.held += o.MaxMemory
	}
	return loader.NewContext(ctx, source, o)
}

// preparation returns what workers of the loader make of blocks for a model, while another batch is learned.
func preparation(model string) loader.Preparation {
	switch model {
	case "gcn":
		return loader.Transpose | loader.GCNNorm | loader.Loops
	case "gat":
		return loader.Transpose | loader.Loops
	}
	return loader.Transpose
}

// block returns the matrix of a layer that the model computes with, of arrays that come with the batch.
func (t *trainer) block(batch *loader.Batch, layer int) (*sparse.Matrix, error) {
	edges := t.loader.Schema().Edges[0].String()
	return sparse.Prepared(&batch.Sample.Blocks[layer][0], func(name string) unified.Tensor {
		what, part, _ := strings.Cut(name, "/")
		path := fmt.Sprintf("sample/%s/%d/%s", what, layer, edges)
		if part != "" {
			path += "/" + part
		}
		i, err := t.loader.Find(path)
		if err != nil {
			return unified.Tensor{}
		}
		return batch.Array(i)
	})
}

// prepared returns the matrix that the model computes with.
func (t *trainer) prepared(a *sparse.Matrix) (*sparse.Matrix, error) {
	if t.model.Loops() {
		return a.WithLoops()
	}
	return a, nil
}

func (t *trainer) run(ctx context.Context) (*Result, error) {
	if err := t.restore(); err != nil {
		return nil, err
	}
	if err := t.fits(); err != nil {
		return nil, err
	}
	t.saved = time.Now()
	err := t.train(ctx)
	if cause := context.Cause(ctx); err == nil || cause != nil && errors.Is(err, cause) {
		err = errors.Join(err, t.save())
	}
	return t.result(), err
}

// fits sees before the first batch that the limit has room to measure accuracy, which takes the whole graph.
func (t *trainer) fits() error {
	if t.loader == nil || t.opt.MaxMemory == 0 {
		return nil // the first step takes more
	}
	return t.evaluate(&Point{})
}

func (t *trainer) train(ctx context.Context) error {
	for t.Epoch <= t.opt.Epochs {
		start := time.Now()
		batches, err := t.epoch(ctx)
		t.spent += time.Since(start)
		if err != nil {
			return err
		}
		e := Epoch{Seconds: t.spent.Seconds(), BatchesS: float64(batches) / time.Since(start).Seconds()}
		e.Loading = t.loading()
		e.Point = Point{Epoch: t.Epoch, Loss: t.Loss / float64(max(t.Seeds, 1))}
		if err := t.evaluate(&e.Point); err != nil {
			return err
		}
		t.place = place{Epoch: t.Epoch + 1, Step: t.Step, Points: append(t.Points, e.Point)}
		if t.opt.Report != nil {
			t.opt.Report(e)
		}
		if err := t.saveInTime(); err != nil {
			return err
		}
	}
	return nil
}

// epoch trains on the whole graph once, or on all batches that this epoch still has, and returns how many.
func (t *trainer) epoch(ctx context.Context) (batches int, err error) {
	t.tape.Training = true
	defer func() { t.tape.Training = false }()
	if t.loader == nil {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		s := t.data.splits[0]
		return 1, t.learn(t.blocks, t.data.input(), s.rows, s.labels, 1)
	}
	for batch, err := range t.loader.Resume(ctx, t.loader.State(uint64(t.Epoch), t.next)) {
		if err == nil {
			err = t.batch(batch)
		}
		if err == nil {
			err = t.saveInTime()
		}
		if err != nil {
			return 0, err
		}
		batches++
	}
	return batches, nil
}

func (t *trainer) batch(batch *loader.Batch) error {
	blocks, held := make([]*sparse.Matrix, t.opt.Layers), t.tape.memory.held
	for i := range blocks {
		a, err := t.block(batch, i)
		if err == nil {
			err = t.tape.memory.take(blockBytes*(a.Rows()+a.Edges()), "the blocks")
		}
		if blocks[i] = a; err != nil {
			return err
		}
	}
	x, err := sparse.Floats(batch.X())
	if err != nil {
		return err
	}
	labels, err := unified.View[int64](batch.Y())
	if err != nil {
		return err
	}
	if t.opt.RowNormalise {
		x = slices.Clone(x)
		embed.Normalise(x, t.data.features)
	}
	in := newVariable(int(batch.X().Len()), t.data.features, x)
	rows := make([]int64, len(labels))
	for i := range rows {
		rows[i] = int64(i)
	}
	blocksHeld := t.tape.memory.held - held
	defer func() { t.tape.memory.held -= blocksHeld }()
	return t.learn(blocks, modelInput{Dense: in}, rows, labels, int(t.loader.AllBatches()))
}

// learn makes one step; steps are those of an epoch.
func (t *trainer) learn(blocks []*sparse.Matrix, in modelInput, rows, labels []int64, batches int) error {
	t.tape.Reset()
	t.tape.Step = t.Step + 1
	t.tape.approximate.begin(t.Step + 1)
	loss := 0.0
	err := t.tape.memory.within(func() error {
		scores := t.model.Forward(t.tape, blocks, in)
		loss, _ = t.tape.CrossEntropy(scores, rows, labels)
		if err := t.tape.Backward(); err != nil {
			return err
		}
		return t.tape.approximate.end()
	})
	if err == nil && !(loss < math.Inf(1)) {
		err = fmt.Errorf("the loss is %v: lower the learning rate, and see that features are finite", loss)
	}
	if err != nil {
		return fmt.Errorf("epoch %d: %w", t.Epoch, err)
	}
	if err := t.model.adam(t.tape.pool, t.Step+1, t.opt.Rate, t.opt.Decay); err != nil {
		return err
	}
	t.steps++
	t.Step, t.next, t.Seeds = t.Step+1, t.next+1, t.Seeds+len(rows)
	t.Loss += loss * float64(len(rows))
	if t.opt.Progress != nil {
		t.opt.Progress(Step{t.Epoch, int(t.next), batches, t.Loss / float64(t.Seeds)})
	}
	return nil
}

// evaluate measures accuracy on the whole graph.
func (t *trainer) evaluate(p *Point) error {
	t.tape.Reset()
	return t.tape.memory.within(func() error {
		scores := t.model.Forward(t.tape, t.blocks, t.data.input())
		scores.Grad = nil
		for i, to := range []*float64{&p.Train, &p.Val, &p.Test} {
			s := t.data.splits[i]
			_, right := t.tape.CrossEntropy(scores, s.rows, s.labels)
			*to = float64(right) / float64(max(len(s.rows), 1))
		}
		return t.tape.Err()
	})
}

// loading says what loading waited for; nil where nothing is loaded.
func (t *trainer) loading() *loader.Report {
	if t.loader == nil {
		return nil
	}
	r := t.loader.Report()
	return &r
}

// result returns what training has come to.
func (t *trainer) result() *Result {
	r := &Result{Model: t.opt.Model, Features: t.data.kind(), Epochs: len(t.Points), Seconds: t.spent.Seconds(),
		Choosing: t.choosing.Seconds(), Curve: t.Points, Approximation: t.tape.approximate.report(t.spent, t.steps),
		Loading: t.loading()}
	for _, p := range t.Points {
		if r.Best == 0 || p.Val > r.Val {
			r.Best, r.Val, r.Test = p.Epoch, p.Val, p.Test
		}
		r.Loss = p.Loss
	}
	return r
}
