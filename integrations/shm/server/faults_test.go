//go:build linux

package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/sampling"
)

// failing fails at one batch.
type failing struct {
	sampling.Neighbor
	at uint64
}

type failingWorker struct {
	sampling.Worker
	seed int64
}

func (f failing) Open(env sampling.Env) (sampling.Worker, error) {
	w, err := f.Neighbor.Open(env)
	return failingWorker{w, int64(f.at)}, err
}

var errBroken = errors.New("the disk is on fire")

func (w failingWorker) Sample(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	if slices.Contains(req.Seeds[0], w.seed) {
		return errBroken
	}
	return w.Worker.Sample(ctx, req, out)
}

func TestWhatFailsInTheLoaderComesInItsPlace(t *testing.T) {
	g := plainGraph(t, 500)
	opt := usual()
	opt.Shuffle = false
	good := want(t, g, opt, 0)
	opt.Sampler = failing{usual().Sampler.(sampling.Neighbor), 5*32 + 1}
	s := serve(t, g, Options{Loader: opt})
	c := connect(t, s, consumer.Options{})
	for range 2 {
		var got []string
		var failure error
		for b, err := range c.Epoch(t.Context(), 0) {
			if err != nil {
				failure = err
				break
			}
			got = append(got, lineOf(b))
		}
		if code(failure) != wire.CodeLoad || !strings.Contains(failure.Error(), errBroken.Error()) ||
			!strings.Contains(failure.Error(), "batch 5") {
			t.Errorf("%v, want the loader's error", failure)
		}
		expect.That(t, slices.Equal(got, good[:5]), "got %q", got)
	}
	expect.Same(t, lines(t, c.Resume(t.Context(), stateAt(s, 0, 6))), good[6:], "after the batch that failed")
}

// slow waits at every batch for its context's end.
type slow struct{ sampling.Neighbor }

type slowWorker struct{ sampling.Worker }

func (f slow) Open(env sampling.Env) (sampling.Worker, error) {
	w, err := f.Neighbor.Open(env)
	return slowWorker{w}, err
}

func (w slowWorker) Sample(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	if ctx.Value(isProbe{}) == nil {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return w.Worker.Sample(ctx, req, out)
}

// isProbe marks the context of New, in which the loader learns how large batches are.
type isProbe struct{}

func TestABatchThatDoesNotComeIsAnErrorThatSaysWhy(t *testing.T) {
	opt := usual()
	opt.Sampler = slow{usual().Sampler.(sampling.Neighbor)}
	s := expect.Must(New(context.WithValue(t.Context(), isProbe{}, 1), plainGraph(t, 100),
		Options{Path: socketPath(t), Loader: opt}))(t)
	defer s.Close()
	done := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.Serve(ctx) }()
	// A busy machine may not come to an answer, or to waiting for the loader, within the first.
	for timeout := 100 * time.Millisecond; ; timeout *= 2 {
		c, err := consumer.Dial(t.Context(), s.Options().Path, consumer.Options{Timeout: timeout})
		if err == nil {
			err = errors.Join(last(c.Epoch(t.Context(), 0)), c.Close())
		}
		expect.Ensure(t, errors.Is(err, shm.ErrTimeout), "%v, want ErrTimeout", err)
		if strings.Contains(err.Error(), "loader") {
			break
		}
		expect.Ensure(t, timeout <= patience, "%v, want what the server waits for", err)
	}
	cancel()
	<-done
}
