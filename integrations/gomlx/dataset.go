package gomlx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/gomlx/gomlx/pkg/core/tensors"
	"github.com/gomlx/gomlx/pkg/ml/train"

	"github.com/khop-gnn/khop/loader"
)

// Sentinels for errors.Is. Errors of the loader pass through.
var (
	// ErrOptions is returned for options that are invalid, or invalid for this loader.
	ErrOptions = errors.New("invalid options of a GoMLX dataset")
	// ErrGraph is returned for a graph that a Dataset cannot feed: of several node or edge types.
	ErrGraph = errors.New("not a graph of one node type and one edge type")
	// ErrBatch is returned for a batch that cannot be fed: a sample that contradicts itself, or is in device memory.
	ErrBatch = errors.New("a batch cannot be fed to GoMLX")
	// ErrClosed is returned by Yield after Close.
	ErrClosed = errors.New("the GoMLX dataset is closed")
)

// After says what follows the end of an epoch.
type After uint8

const (
	// NextEpoch ends an epoch with io.EOF, and Reset begins the next: for train.Loop.RunEpochs.
	NextEpoch After = iota
	// SameEpoch ends an epoch with io.EOF, and Reset begins the same epoch again: for evaluation, which then has the
	// same neighbours each time.
	SameEpoch
	// Endless continues with the next epoch, without io.EOF: for train.Loop.RunSteps.
	Endless
)

// String returns the name of the constant.
func (a After) String() string {
	if names := [...]string{"NextEpoch", "SameEpoch", "Endless"}; int(a) < len(names) {
		return names[a]
	}
	return "After(" + strconv.Itoa(int(a)) + ")"
}

// Options say how a loader is fed. The zero value is the default.
type Options struct {
	// Name is the dataset's name in GoMLX's reports. Default "khop".
	Name string
	// Pad says how shapes are kept from changing. Default PowerOfTwo.
	Pad Pad
	// After says what follows the end of an epoch. Default NextEpoch.
	After After
	// Epoch is the loader's epoch to begin with.
	Epoch uint64
}

// Dataset is a loader as a GoMLX train.Dataset. Make it with New and Close it.
//
// Its methods may be called by any goroutine; calls of Yield take turns. One Dataset at a time may use a loader: a
// second one's Yield returns loader.ErrBusy while the epoch of the first is running.
type Dataset struct {
	ld     *loader.Loader
	opt    Options
	conv   *converter
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc

	mu     sync.Mutex // guards the following
	epoch  uint64
	resume *loader.State // where to begin the epoch, if not at its first batch
	asked  bool          // Yield was called in this epoch
	feed   *feed         // the epoch under way, or nil
	last   *loader.State // after the batch last yielded
	err    error         // what ended the epoch; Yield repeats it until Reset
}

var _ train.Dataset = (*Dataset)(nil)

// New makes a Dataset of a loader. The caller closes the loader, after the Dataset. When ctx ends, Yield returns its
// cause. The first Yield, not New, starts the goroutine.
//
// Errors: ErrGraph, ErrOptions.
func New(ctx context.Context, ld *loader.Loader, opt Options) (*Dataset, error) {
	if opt.Name == "" {
		opt.Name = "khop"
	}
	if opt.After > Endless || opt.Pad > Maximum {
		return nil, fmt.Errorf("%w: Pad is %v and After %v: take one of the constants", ErrOptions, opt.Pad, opt.After)
	}
	if opt.After == Endless && ld.NumBatches() == 0 {
		return nil, fmt.Errorf("%w: Endless, but an epoch has no batches: see the loader's Seeds, DropLast and "+
			"Remainder", ErrOptions)
	}
	conv, err := newConverter(ld, opt.Pad)
	if err != nil {
		return nil, err
	}
	d := &Dataset{ld: ld, opt: opt, conv: conv, epoch: opt.Epoch}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	return d, nil
}

// Name implements train.Dataset.
func (d *Dataset) Name() string { return d.opt.Name }

// Yield implements train.Dataset: it returns the next batch, padded.
//
// spec is a Spec. inputs are in the order that Unpack expects: use that to name them. labels are the first of the
// loader's seed columns, [seeds, row...], and a mask, bool [seeds], that is false for padding; none if the loader
// gathers no seed column. seeds is the batch size plus one, for the dump row. Rows are the batch's distinct seeds; a
// seed that is requested twice in a batch counts once.
//
// All tensors belong to the caller, who may finalize them at any time. The error is io.EOF at the end of an epoch (see
// After), the loader's, ErrBatch, ErrClosed, or the cause of the context's end; it is repeated until Reset.
func (d *Dataset) Yield() (spec any, inputs, labels []*tensors.Tensor, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = true
	for d.err == nil {
		item := d.next()
		if item.err == nil {
			d.last = &item.state
			return d.conv.spec, item.inputs, item.labels, nil
		}
		d.stop()
		d.err = item.err
		if item.err == io.EOF && d.opt.After == Endless {
			d.begin(d.epoch+1, nil)
			d.asked = true
		}
	}
	return nil, nil, nil, d.err
}

// next waits for the next batch of the epoch, which it starts if need be. d.mu is held.
func (d *Dataset) next() item {
	if d.ctx.Err() != nil {
		return item{err: context.Cause(d.ctx)}
	}
	if d.feed == nil {
		ctx, cancel := context.WithCancel(d.ctx)
		batches := d.ld.Epoch(ctx, d.epoch)
		if d.resume != nil {
			batches = d.ld.Resume(ctx, *d.resume)
		}
		d.feed = startFeed(ctx, cancel, batches, d.conv)
	}
	return d.feed.receive()
}

// Reset implements train.Dataset: it ends a running epoch, and begins the next or the same one again, as After says. If
// the epoch has not begun, because nothing was yielded since New, Resume or the last Reset, it does nothing: GoMLX
// resets some datasets before use and others after. It clears errors, except ErrClosed and the context's.
func (d *Dataset) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.asked:
	case d.opt.After == SameEpoch:
		d.begin(d.epoch, nil)
	default:
		d.begin(d.epoch+1, nil)
	}
}

// Resume makes the next Yield continue after the batch with state s: to the end of its epoch, and then with later
// epochs. Yield returns loader.ErrState if s is of another dataset, seed list or sampling options.
func (d *Dataset) Resume(s loader.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begin(s.Epoch, &s)
	d.last = &s
}

// begin sets the place of the next batch. d.mu is held.
func (d *Dataset) begin(epoch uint64, at *loader.State) {
	d.stop()
	d.epoch, d.resume, d.asked, d.err = epoch, at, false, nil
}

// State returns the place after the batch last yielded, to store with a checkpoint of the model and pass to Resume;
// false if no batch was yielded. Batches that were prepared ahead are not counted.
func (d *Dataset) State() (loader.State, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		return loader.State{}, false
	}
	return *d.last, true
}

// Close ends the running epoch and waits for its goroutine; a waiting Yield returns ErrClosed. It does not close the
// loader, nor finalize yielded tensors. It may be called again.
func (d *Dataset) Close() {
	d.cancel(ErrClosed)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop()
}

// stop ends the epoch's goroutine. d.mu is held.
func (d *Dataset) stop() {
	if d.feed != nil {
		d.feed.stop()
		d.feed = nil
	}
}
