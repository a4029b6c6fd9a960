//go:build !race

package gnn

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func TestSampledGradientsTrainAsWell(t *testing.T) {
	g := communities(t, 300, true)
	for _, model := range []string{"gcn", "sage", "gin"} {
		train := func(budget float64) *Result {
			return expect.Must(Train(t.Context(), g, Options{Model: model, Layers: 3, Epochs: 40, Rate: 0.02, Seed: 3,
				BackwardBudget: budget, RowNormalise: true}))(t)
		}
		exact, all, some, few := train(0), train(1), train(0.5), train(0.1)
		expect.That(t, slices.Equal(exact.Curve, all.Curve),
			"%s: a budget of all gives another curve than exact gradients", model)
		expect.That(t, exact.Approximation == nil && all.Approximation.Error == 0 && all.Approximation.Kept == 1,
			"%s: %+v and %+v", model, exact.Approximation, all.Approximation)
		if s, f := some.Approximation, few.Approximation; s.Kept > 0.5 || s.Kept < 0.4 || f.Kept > 0.1 ||
			!(0 < s.Error && s.Error < f.Error) || f.Backward <= 0 || f.Sampled <= 0 {
			t.Errorf("%s: %+v, %+v", model, *s, *f)
		}
		expect.That(t, !slices.Equal(exact.Curve, few.Curve) && some.Test >= exact.Test-0.06 && few.Test >= 0.7,
			"%s: test accuracy is %v with few gradients, %v with half, %v with all", model, few.Test, some.Test,
			exact.Test)
	}
}

// TestSampledGradientsReachTheLossOfExactOnes, before they become exact, on a dense graph where a tenth of the labels
// is wrong. Those nodes have the greatest gradients, so that a choice of the greatest learns from little else.
func TestSampledGradientsReachTheLossOfExactOnes(t *testing.T) {
	g := crowded(t, 300, 200, false)
	column, _ := g.NodeColumn(0, "label")
	labels := expect.Must(unified.View[int64](column))(t)
	for i := 0; i < len(labels); i += 10 {
		labels[i] = (labels[i] + 1) % 4
	}
	losses := map[float64]float64{}
	for _, budget := range []float64{0, 0.1} {
		for seed := range uint64(3) {
			r := expect.Must(Train(t.Context(), g, Options{Model: "gcn", Layers: 3, Epochs: 50, Rate: 0.02, Seed: seed,
				Dropout: 0.2, Hidden: 16, BackwardBudget: budget}))(t)
			losses[budget] += r.Curve[39].Loss // before gradients are exact again
		}
	}
	expect.That(t, losses[0.1] <= 1.15*losses[0], "the losses are %v in all, by budget", losses)
}

func TestSampledGradientsGoOnAfterAStop(t *testing.T) {
	g := communities(t, 120, true)
	opt := Options{Model: "gcn", Epochs: 30, Seed: 9, Hidden: 3, BackwardBudget: 0.3,
		Checkpoint: filepath.Join(t.TempDir(), "whole")}
	expect.Must(Train(t.Context(), g, opt))(t)
	text := contents(t, opt.Checkpoint)
	opt.Checkpoint = filepath.Join(t.TempDir(), "stopped")
	lost := errors.New("stopped")
	for _, at := range []int{1, 5, 10, 11, 23, 24, 25, 0} {
		ctx, cancel := context.WithCancelCause(t.Context())
		opt.Progress = func(s Step) {
			if s.Epoch == at {
				cancel(lost)
			}
		}
		_, err := Train(ctx, g, opt)
		expect.Ensure(t, err == nil || errors.Is(err, lost), "%v", err)
		cancel(nil)
	}
	expect.That(t, bytes.Equal(text, contents(t, opt.Checkpoint)), "training that was stopped gives other bytes")
	opt.Progress, opt.Epochs = nil, 60
	expect.Is(t, expect.Err(Train(t.Context(), g, opt)), ErrCheckpoint, "other epochs, which end sampling elsewhere")
	opt.BackwardBudget = 1.1
	expect.Is(t, expect.Err(Train(t.Context(), g, opt)), ErrOptions, "more than all")
}

// TestSampledGradientsOfBatchesTrainAsWell: rows are chosen in each batch anew, so that training goes on to the byte
// from any of them.
func TestSampledGradientsOfBatchesTrainAsWell(t *testing.T) {
	g := communities(t, 300, false)
	opt := Options{Model: "sage", Epochs: 12, Rate: 0.02, Seed: 3, Fanouts: []int{6, 6}, BatchSize: 20}
	train := func(budget float64) (*Result, []byte) {
		opt.BackwardBudget, opt.Checkpoint = budget, filepath.Join(t.TempDir(), "checkpoint")
		r := expect.Must(Train(t.Context(), g, opt))(t)
		return r, contents(t, opt.Checkpoint)
	}
	exact, _ := train(0)
	all, _ := train(1)
	few, text := train(0.3)
	expect.That(t, slices.Equal(exact.Curve, all.Curve) && all.Approximation.Error == 0,
		"a budget of all gives another curve, or errs: %+v", all.Approximation)
	if a := few.Approximation; a.Kept > 0.3 || a.Kept < 0.2 || a.Error <= 0 || a.Sampled <= 0 ||
		few.Test < 0.7 || slices.Equal(exact.Curve, few.Curve) {
		t.Errorf("%+v, test accuracy %v, exact %v", a, few.Test, exact.Test)
	}
	opt.Checkpoint = filepath.Join(t.TempDir(), "stopped")
	lost := errors.New("stopped")
	for _, at := range []int{2, 7} {
		ctx, cancel := context.WithCancelCause(t.Context())
		opt.Progress = func(s Step) {
			if s.Epoch == at && s.Batch == 3 {
				cancel(lost)
			}
		}
		_, err := Train(ctx, g, opt)
		expect.Ensure(t, errors.Is(err, lost), "%v", err)
		cancel(nil)
	}
	opt.Progress = nil
	if _, err := Train(t.Context(), g, opt); err != nil || !bytes.Equal(text, contents(t, opt.Checkpoint)) {
		t.Errorf("training that was stopped gives other bytes (%v)", err)
	}
}
