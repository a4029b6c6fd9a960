package gnn

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// TestBytesAreThoseThatWerePlanned carries out programs in several memories, and compares what was read and written.
func TestBytesAreThoseThatWerePlanned(t *testing.T) {
	g := onDisk(t, communities(t, 3000, false))
	for _, model := range models {
		opt := Options{Model: model, Hidden: 30, Layers: 2, Heads: 2, Seed: 4}.withDefaults()
		m := expect.Must(newNetwork(40, 4, opt, &budget{}))(t)
		for _, way := range ways {
			p := &embed.Program{Graph: g, Steps: stepsOf(t, g, m), Name: model}
			way.Folder = filepath.Join(t.TempDir(), "work")
			report := expect.Must(embed.Run(t.Context(), p, way))(t)
			for _, s := range report.Steps {
				near := func(did, planned int64) bool { return 20*did >= 19*planned && 20*did <= 21*planned }
				expect.That(t, near(s.Did.Read, s.Plan.Read) && near(s.Did.Written, s.Plan.Written),
					"%s, %s of %d bytes: %+v", model, way.Way, way.Memory, s)
			}
		}
	}
}

// TestAPlanSaysWhatMoreMemoryBuys until all has room, and makes nothing. In one way more memory never reads more; of
// several the planner takes a faster one.
func TestAPlanSaysWhatMoreMemoryBuys(t *testing.T) {
	g := onDisk(t, communities(t, 3000, false))
	m := expect.Must(newNetwork(40, 4, Options{Layers: 2, Hidden: 64, Model: "sage"}.withDefaults(), &budget{}))(t)
	p := &embed.Program{Graph: g, Steps: stepsOf(t, g, m)}
	folder := filepath.Join(t.TempDir(), "work")
	for _, way := range []string{"", embed.Sweeps} {
		opt := embed.Options{Folder: folder, Memory: 8 << 20, Way: way}
		plan := expect.Must(embed.Plan(t.Context(), p, opt))(t)
		n := len(plan.Choices)
		expect.Ensure(t, n > 2 && (way != "" || plan.Choices[n-1].Memory < 1<<30), "%q: %+v", way, plan.Choices)
		for i := 1; i < n; i++ {
			before, c := plan.Choices[i-1], plan.Choices[i]
			expect.That(t, c.Memory == 2*before.Memory && (way == "" || c.Read <= before.Read), "%q: %+v after %+v",
				way, c, before)
		}
	}
	found := expect.Must(filepath.Glob(filepath.Join(filepath.Dir(folder), "*")))(t)
	expect.That(t, len(found) == 0, "it made %v", found)
	_, err := embed.Plan(t.Context(), p, embed.Options{Folder: folder, Memory: 1 << 10})
	expect.That(t, errors.Is(err, pinned.ErrLimit), "in a kilobyte: %v", err)
}
