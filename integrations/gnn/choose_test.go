//go:build !race

package gnn

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/sparse"
)

// TestTheWayOfALayerIsChosenOnceForItsSizes: the choice is kept with those of kernels, and taken from there.
func TestTheWayOfALayerIsChosenOnceForItsSizes(t *testing.T) {
	g, tuning := communities(t, 200, false), sparse.NewTuning()
	opt := Options{Model: "gcn", Tuning: tuning, Fastest: true, Epochs: 1}
	r, err := Train(t.Context(), g, opt)
	expect.Ensure(t, err == nil && r.Choosing > 0, "%+v, %v", r, err)
	path := filepath.Join(t.TempDir(), "tune.json")
	expect.OK(t, tuning.Save(path))
	opt.Tuning, _ = sparse.LoadTuning(path)
	tr, err := prepare(t.Context(), g, opt.withDefaults())
	if err == nil {
		err = tr.sample(t.Context())
	}
	expect.OK(t, err)
	defer tr.close()
	for i := range tr.model.layers {
		key, ways := tr.wayKey(i), tr.ways(i)
		kept := opt.Tuning.Way(key)
		if !slices.ContainsFunc(ways, func(p *product) bool { return p.name == kept }) {
			t.Fatalf("layer %d has %q under %q", i+1, kept, key)
		}
		for _, other := range ways { // a kept choice is taken, whatever it is, and nothing is measured
			opt.Tuning.KeepWay(key, other.name)
			way, took, err := tr.fastest(t.Context(), i)
			expect.That(t, err == nil && way.name == other.name && took == 0,
				"layer %d: %s is kept, and %v was chosen in %v: %v", i+1, other.name, way, took, err)
		}
		opt.Tuning.KeepWay(key, "(Z W)") // of another version
		if way, took, err := tr.fastest(t.Context(), i); err != nil || took == 0 || opt.Tuning.Way(key) != way.name {
			t.Errorf("layer %d: %v was chosen in %v, %q kept: %v", i+1, way, took, opt.Tuning.Way(key), err)
		}
	}
}

// TestAWayThatIsClearlySlowLeavesTheContest, and the best one stays.
func TestAWayThatIsClearlySlowLeavesTheContest(t *testing.T) {
	out := make([]bool, 3)
	for _, c := range []struct {
		seconds [][]float64
		want    []bool
	}{{[][]float64{{2, 2.2, 2.1}, {1, 1, 9}, {1.05, 1.3, 1.3}}, []bool{true, false, false}},
		{[][]float64{{2, 2.2}, {1, 1}, {3, 1.2}}, []bool{true, false, true}}} {
		decided := choosing.decided(c.seconds, out)
		expect.That(t, decided == c.want[2] && slices.Equal(out, c.want), "%v: decided %v, out are %v", c.seconds,
			decided, out)
	}
	expect.That(t, !explaining.decided([][]float64{{2}, {1}}, make([]bool, 2)), "a way was left out of the table")
}

// TestTheContestLeavesTheModelAsItWas: what it computed is no part of the first step.
func TestTheContestLeavesTheModelAsItWas(t *testing.T) {
	for _, model := range models {
		tr, err := prepare(t.Context(), communities(t, 60, false), Options{Model: model}.withDefaults())
		if err == nil {
			err = tr.sample(t.Context())
		}
		expect.OK(t, err)
		defer tr.close()
		before := tr.arrays()
		for i := range before {
			before[i] = slices.Clone(before[i])
		}
		for i := range tr.model.layers {
			expect.Must(tr.race(t.Context(), i, tr.ways(i), choosing))(t)
		}
		for i, b := range tr.arrays() {
			expect.That(t, slices.Equal(b, before[i]), "%s: numbers %d have changed", model, i)
		}
		for _, p := range tr.model.params {
			if slices.ContainsFunc(p.Grad, func(v float32) bool { return v != 0 }) {
				t.Errorf("%s: %s has a gradient before training", model, p.Name)
			}
		}
	}
}
