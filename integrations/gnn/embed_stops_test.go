package gnn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestAnEmbeddingGoesOnWhereItWasStopped stops runs at a drawn range of a drawn step, with what the disk has then, and
// goes on in another way: the bytes are those of a run in one go, and no range that was noted is computed again but
// those whose bytes have changed. KHOP_DRAWS says how many are drawn.
func TestAnEmbeddingGoesOnWhereItWasStopped(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	g := onDisk(t, communities(t, 2500, false))
	for n := range expect.Draws(t, 16) {
		m := expect.Must(newNetwork(40, 4, Options{Model: models[n%len(models)], Hidden: 20, Heads: 2, Layers: 2,
			Seed: 4}.withDefaults(), &budget{}))(t)
		program := func() (*embed.Program, *embed.Table) {
			all := stepsOf(t, g, m)
			return &embed.Program{Graph: g, Steps: all, Name: m.kind}, all[len(all)-1].To[0]
		}
		p, _ := program()
		opt := func() embed.Options {
			o := ways[r.IntN(len(ways))]
			o.Files, o.SaveEvery = true, 1
			return o
		}
		before, stop := opt(), errors.New("stop")
		before.Folder = filepath.Join(t.TempDir(), "work")
		left := r.IntN(1 + len(p.Steps)*2)
		ctx, cancel := context.WithCancelCause(t.Context())
		before.Progress = func(string, int64, int64) {
			if left--; left < 0 {
				cancel(stop)
			}
		}
		_, err := embed.Run(ctx, p, before)
		expect.That(t, err == nil || errors.Is(err, stop), "%v", err)
		noted, hurt := finishedBytes(t, before.Folder, p), r.IntN(3) == 0
		if hurt {
			hurtFiles(t, r, before.Folder)
		}
		after := opt()
		after.Folder = before.Folder
		p, out := program()
		report := expect.Must(embed.Run(t.Context(), p, after))(t)
		all, wrote := int64(0), int64(0)
		for _, s := range report.Steps {
			all, wrote = all+s.Plan.Written-s.Plan.Scratch, wrote+s.Did.Written-s.Did.Scratch
		}
		expect.That(t, hurt || wrote == all-noted, "draw %d: wrote %d of %d bytes, of which %d were noted", n, wrote,
			all, noted)
		got := expect.Must(os.ReadFile(filepath.Join(after.Folder, out.Name)))(t)
		whole := embedded(t, g, m, nil, ways[0])
		want := make([]byte, len(got))
		unified.Float32.PutFloats(want, whole)
		expect.Same(t, string(got), string(want), "rows of "+m.kind)
	}
}

// finishedBytes returns the bytes of the rows that a journal notes.
func finishedBytes(t testing.TB, folder string, p *embed.Program) (bytesOf int64) {
	t.Helper()
	text := expect.Must(os.ReadFile(filepath.Join(folder, "journal")))(t)
	for _, line := range bytes.Split(text, []byte("\n"))[1:] {
		var one struct {
			Step   int
			Lo, Hi int64
		}
		if len(line) > 0 {
			expect.OK(t, json.Unmarshal(line, &one))
			for _, to := range p.Steps[one.Step].To {
				bytesOf += (one.Hi - one.Lo) * int64(to.Width) * 4
			}
		}
	}
	return bytesOf
}

// hurtFiles changes a byte of a file of a run that was stopped, or cuts its journal.
func hurtFiles(t testing.TB, r *rand.Rand, folder string) {
	t.Helper()
	list := expect.Must(os.ReadDir(folder))(t)
	path := filepath.Join(folder, list[r.IntN(len(list))].Name())
	text := expect.Must(os.ReadFile(path))(t)
	if filepath.Base(path) == "journal" {
		text = text[:r.IntN(len(text))]
	} else {
		text[r.IntN(len(text))] ^= 1
	}
	expect.OK(t, os.WriteFile(path, text, 0o600))
}
