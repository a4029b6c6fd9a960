package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTrainSaysHowWellItLearns(t *testing.T) {
	data, state := small(t), filepath.Join(t.TempDir(), "model")
	args := []string{"train", data, "--model", "gcn", "--dropout", "0", "--seed", "1"}
	lines := strings.Split(strings.TrimSpace(must(t, append(args, "--epochs", "4", "--jsonl")...)), "\n")
	var last map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 5 {
		t.Fatalf("%d lines: %v", len(lines), err)
	}
	must(t, append(args, "--epochs", "2", "--checkpoint", state)...)
	resumed := object(t, append(args, "--epochs", "4", "--checkpoint", state, "--json")...)
	for _, name := range []string{"test_accuracy", "epochs", "loss"} {
		if resumed[name] == nil || resumed[name] != last[name] {
			t.Errorf("%s is %v in one go, %v after a stop", name, last[name], resumed[name])
		}
	}
	if last["seconds"].(float64) <= 0 || last["test_accuracy"].(float64) <= 0.2 {
		t.Errorf("%v", last)
	}
	if err := os.WriteFile(state, []byte("something else entirely"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := khop(t, append(args, "--checkpoint", state)...)
	if code != exitFailed || !strings.Contains(stderr, state) {
		t.Errorf("a foreign checkpoint: status %d: %s", code, stderr)
	}
	if _, stderr, code = khop(t, append(args, "--fanouts", "3")...); code != exitFailed ||
		!strings.Contains(stderr, "1 fan-outs for 2 layers") {
		t.Errorf("too few fan-outs: status %d: %s", code, stderr)
	}
}
