package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
)

func TestTrainSaysHowWellItLearns(t *testing.T) {
	data, state := small(t), filepath.Join(t.TempDir(), "model")
	args := []string{"train", data, "--model", "gcn", "--dropout", "0", "--seed", "1"}
	lines := strings.Split(strings.TrimSpace(must(t, append(args, "--epochs", "4", "--jsonl")...)), "\n")
	var last map[string]any
	err := json.Unmarshal([]byte(lines[len(lines)-1]), &last)
	expect.Ensure(t, err == nil && len(lines) == 5, "%d lines: %v", len(lines), err)
	must(t, append(args, "--epochs", "2", "--checkpoint", state)...)
	resumed := object(t, append(args, "--epochs", "4", "--checkpoint", state, "--json")...)
	for _, name := range []string{"test_accuracy", "epochs", "loss"} {
		if resumed[name] == nil || resumed[name] != last[name] {
			t.Errorf("%s is %v in one go, %v after a stop", name, last[name], resumed[name])
		}
	}
	expect.That(t, last["seconds"].(float64) > 0 && last["test_accuracy"].(float64) > 0.2, "%v", last)
	expect.OK(t, os.WriteFile(state, []byte("something else entirely"), 0o600))
	fails(t, exitFailed, state, append(args, "--checkpoint", state)...)
	fails(t, exitFailed, "allow more", append(args, "--max-memory", fmt.Sprint(machine.Own+1000))...)
	fails(t, exitFailed, "--fanouts are 1 for 2 layers", append(args, "--fanouts", "3")...)
}

func TestTrainExplainsHowLayersAreComputed(t *testing.T) {
	data := small(t)
	for _, place := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} { // of the choices
		t.Setenv(place, t.TempDir())
	}
	args := []string{"train", data, "--explain", "--model"}
	for _, kept := range []bool{false, true} { // the second time both choices come from the file
		all, took := object(t, append(args, "gcn", "--json")...)["compositions"].([]any), 0.0
		for _, way := range all {
			took += way.(map[string]any)["choosing_seconds"].(float64)
		}
		expect.That(t, len(all) == 12 && kept != (took > 0), "kept %v: chosen in %g s: %v", kept, took, all)
	}
	if out := must(t, append(args, "sage")...); !strings.Contains(out, "(M (X W))") ||
		!strings.Contains(out, "chosen") || !strings.Contains(out, "usual") {
		t.Errorf("no table: %s", out)
	}
	out := must(t, append(args, "gat", "--fanouts", "3,3")...)
	expect.That(t, strings.Contains(out, "((S X) W)"), "no ways of batches: %s", out)
	must(t, "train", data, "--fastest", "--epochs", "1")
}

// TestTrainingThatIsInterruptedGoesOn: Ctrl-C keeps what was learned, draws it, and says so.
func TestTrainingThatIsInterruptedGoesOn(t *testing.T) {
	dir := t.TempDir()
	data, curves := filepath.Join(dir, "a<b&.khop"), filepath.Join(dir, "curves.svg")
	state := filepath.Join(dir, "model")
	expect.OK(t, os.Rename(small(t), data))
	args := []string{"train", data, "--fanouts", "3,3", "--batch-size", "200", "--epochs", "6", "--seed", "2"}
	whole := object(t, append(args, "--json")...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out lines
	out.see = func(line string) {
		if strings.Contains(line, `"epoch":2`) {
			cancel()
		}
	}
	var stderr strings.Builder
	args = append(args, "--checkpoint", state, "--plot", curves)
	if code := run(ctx, append(args, "--jsonl"), &out, &stderr, true); code != exitInterrupted ||
		!strings.Contains(stderr.String(), "of 6 epochs") || !strings.Contains(stderr.String(), "batches/s") {
		t.Errorf("status %d: %s", code, stderr.String())
	}
	picture(t, curves, "a&lt;b&amp;", "loss", "validation", "epoch")
	resumed := object(t, append(args, "--json")...)
	for _, name := range []string{"test_accuracy", "epochs", "loss"} {
		if resumed[name] != whole[name] {
			t.Errorf("%s is %v in one go, %v after a stop", name, whole[name], resumed[name])
		}
	}
	drawn, err := os.ReadFile(curves)
	expect.That(t, err == nil && strings.Count(string(drawn), "<path") >= 4, "no four curves: %v", err)
}

// lines sees each line that is written.
type lines struct {
	part string
	see  func(line string)
}

func (l *lines) Write(p []byte) (int, error) {
	l.part += string(p)
	for {
		line, rest, ok := strings.Cut(l.part, "\n")
		if !ok {
			return len(p), nil
		}
		l.part = rest
		l.see(line)
	}
}

// What a layer is measured by is counted: two matrices of 4,000 rows of 1,000 numbers.
func TestExplainingIsRefusedWhereItsOperandsDoNotFit(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	must(t, "generate", "sbm", data, "--nodes", "4000")
	fails(t, exitFailed, "operands that are measured of training take 32.0 MB", "train", data, "--model", "gcn",
		"--hidden", "1000", "--explain", "--max-memory", "60MB")
}
