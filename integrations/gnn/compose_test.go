//go:build !race

package gnn

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestPrunedWaysAreNeverFastest: for machines and sizes that are drawn, one of the candidates is as fast as the best of
// all ways.
func TestPrunedWaysAreNeverFastest(t *testing.T) {
	draw := rand.New(rand.NewPCG(expect.Seed(t), 0))
	number := func() float64 { return math.Exp(10*draw.Float64() - 5) }
	for _, model := range models {
		all, some := enumerate(factorsOf(model)), candidates(model, false)
		if model == "gcn" && (len(all) != 12 || len(some) != 6) || model != "gcn" && len(some) != 2 {
			t.Errorf("%s: %d candidates of %d ways", model, len(some), len(all))
		}
		for range 2000 {
			found := map[measured]float64{}
			r := prices(func(what primitive, columns, other int) float64 {
				key := measured{what, columns, other}
				if found[key] == 0 {
					found[key] = number()
				}
				return found[key]
			})
			s := sizes{columns: [2]int{1 + draw.IntN(3), 4 + draw.IntN(3)}, inGrad: draw.IntN(2) == 0}
			if model == "gat" {
				s.heads = 1 + draw.IntN(4)
			}
			least := func(ways []*product) float64 {
				best := math.Inf(1)
				for _, p := range ways {
					best = min(best, r.seconds(p, s))
				}
				return best
			}
			if best, have := least(all), least(some); have > best*(1+1e-9) {
				t.Fatalf("%s: the candidates take %g, the best of all %g: %+v, %+v", model, have, best, found, s)
			}
		}
	}
}

// TestAllWaysToComputeALayerGiveTheSame, forward and backward, but for rounding.
func TestAllWaysToComputeALayerGiveTheSame(t *testing.T) {
	g := communities(t, 60, true)
	for _, model := range models {
		opt := Options{Model: model, Hidden: 7, Layers: 3, Heads: 2, Seed: 1}
		tr := expect.Must(prepare(t.Context(), g, opt.withDefaults()))(t)
		defer tr.close()
		var want []float32
		for i := range tr.model.layers {
			for n, way := range tr.ways(i) {
				tr.model.ways = []*product{tr.model.way(0, true), tr.model.way(1, false), tr.model.way(2, false)}
				tr.model.ways[i] = way
				tr.tape.Reset()
				scores := tr.model.Forward(tr.tape, tr.blocks, tr.data.input())
				tr.tape.CrossEntropy(scores, tr.data.splits[0].rows, tr.data.splits[0].labels)
				expect.OK(t, tr.tape.Backward())
				got := slices.Clone(scores.Data)
				for _, p := range tr.model.params {
					got = append(got, p.Grad...)
					clear(p.Grad)
				}
				if n == 0 {
					want = got
				}
				for k, v := range got {
					if math.Abs(float64(v-want[k])) > 1e-5*(1+math.Abs(float64(want[k]))) {
						t.Fatalf("%s, layer %d: %s gives %g, %s %g", model, i+1, way.name, v, tr.ways(i)[0].name,
							want[k])
					}
				}
			}
			tr.model.ways = nil
		}
	}
}

func TestExplainMeasuresEveryCandidate(t *testing.T) {
	g := communities(t, 200, false)
	for model, want := range map[string]int{"gcn": 12, "sage": 4, "gin": 4, "gat": 4} {
		opt := Options{Model: model}
		if model != "sage" { // over the blocks of a batch
			opt.Fanouts, opt.BatchSize = []int{4, 3}, 40
		}
		all, err := Explain(t.Context(), g, opt)
		expect.Ensure(t, err == nil && len(all) == want, "%s: %d ways, %v", model, len(all), err)
		usual, fastest, best := 0, 0, 0
		for _, c := range all {
			expect.That(t,
				c.Predicted > 0 && c.Measured > 0 && c.Regret >= 0 && len(c.Rounds) >= explaining.least &&
					strings.Contains(c.Product, "W"), "%s: %+v", model, c)
			for n, is := range map[*int]bool{&usual: c.Usual, &fastest: c.Fastest, &best: c.Regret == 0} {
				if is {
					*n++
				}
			}
		}
		if layers := min(want, 2); usual != layers || fastest != layers || best < layers {
			t.Errorf("%s: of 2 layers %d usual ways, %d fastest, %d best", model, usual, fastest, best)
		}
	}
}

// TestTheFastestWaysLearnOnBatches, whose input is dense where that of the whole graph is sparse.
func TestTheFastestWaysLearnOnBatches(t *testing.T) {
	for _, mostlyZero := range []bool{false, true} {
		g := communities(t, 180, mostlyZero)
		for _, model := range []string{"gcn", "gat"} {
			r, err := Train(t.Context(), g, Options{Model: model, Epochs: 20, Fanouts: []int{8, 8}, BatchSize: 50,
				Rate: 0.02, Seed: 3, RowNormalise: mostlyZero, Fastest: true})
			expect.That(t, err == nil && r.Test >= 0.65, "%s, mostly zero %v: %+v, %v", model, mostlyZero, r, err)
		}
	}
}

// TestACheckpointKeepsTheWaysOfTheFastest, though another process may measure other times.
func TestACheckpointKeepsTheWaysOfTheFastest(t *testing.T) {
	g, path := communities(t, 60, false), filepath.Join(t.TempDir(), "checkpoint")
	opt := Options{Model: "gcn", Epochs: 4, Fastest: true, Checkpoint: path}
	lost := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	opt.Progress = func(Step) { cancel(lost) }
	_, err := Train(ctx, g, opt)
	expect.Ensure(t, errors.Is(err, lost), "%v", err)
	opt.Progress = nil
	text := contents(t, path)
	tr := expect.Must(prepare(t.Context(), g, opt.withDefaults()))(t)
	defer tr.close()
	all := tr.ways(0)
	tr.model.ways = []*product{all[0], all[1]} // what this process would take
	expect.OK(t, tr.restore())
	if err := tr.save(); err != nil || !bytes.Equal(text, contents(t, path)) {
		t.Errorf("the ways are %s and %s, and were others (%v)", tr.model.ways[0].name, tr.model.ways[1].name, err)
	}
	opt.Fastest = false
	expect.Is(t, expect.Err(Train(t.Context(), g, opt)), ErrCheckpoint, "the usual ways")
}
