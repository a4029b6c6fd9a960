package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestAnEmbeddingThatIsKilledGoesOn kills khop embed at drawn moments until one run has come to its end, and compares
// the column with that of a run that nobody killed. KHOP_DRAWS says how many kills are drawn.
func TestAnEmbeddingThatIsKilledGoesOn(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	dir := t.TempDir()
	data, model := filepath.Join(dir, "data"), filepath.Join(dir, "model")
	must(t, "generate", "sbm", data, "--nodes", "20000")
	must(t, "train", data, "--epochs", "1", "--checkpoint", model)
	must(t, "embed", data, "--checkpoint", model, "--out", "whole")
	draws, kills := expect.Draws(t, 4), 0
	args := []string{"embed", data, "--checkpoint", model, "--out", "killed", "--force", "--note-every", "1ns"}
	for kills < draws {
		memory := fmt.Sprintf("%dMB", []int{40, 64, 400}[r.IntN(3)])
		cmd := process(t, program(t), append(args, "--max-memory", memory)...)
		expect.OK(t, cmd.Start())
		timer := time.AfterFunc(time.Duration(r.IntN(600))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		if cmd.Wait() != nil {
			kills++
		}
		timer.Stop()
		expect.That(t, cmd.ProcessState.Exited() == (cmd.ProcessState.ExitCode() == 0), "%v", cmd.ProcessState)
	}
	must(t, args...)
	ds := expect.Must(formats.Open(data))(t)
	defer ds.Close()
	whole, _ := ds.Graph().NodeColumn(0, "whole")
	killed, _ := ds.Graph().NodeColumn(0, "killed")
	expect.That(t, string(whole.Bytes()) == string(killed.Bytes()), "the columns differ after %d kills", kills)
	must(t, "check", data)
}
