package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestMessagesNameWhatTheUserKnows has messages that were once about something else: two lines to compare by eye, a
// sentinel without the dataset.
func TestMessagesNameWhatTheUserKnows(t *testing.T) {
	data := small(t)
	dir := t.TempDir()
	says := func(want string, args ...string) {
		t.Helper()
		out, err, _ := khop(t, args...)
		expect.That(t, strings.Contains(out+err, want), "khop %s: no %q in %s%s", strings.Join(args, " "), want, out,
			err)
	}
	checkpoint := filepath.Join(dir, "c.ck")
	says("sage, 1 epoch in ", "train", data, "--epochs", "1", "--checkpoint", checkpoint)
	says("it has other options: hidden is 16, and here 8; seed is 0, and here 4; remove it", "train", data, "--epochs",
		"2", "--checkpoint", checkpoint, "--hidden", "8", "--seed", "4")
	says("it has other options: fanouts is [], and here [5 5]; fastest is not set, and here yes", "train", data,
		"--epochs", "2", "--checkpoint", checkpoint, "--fastest", "--fanouts", "5,5")
	bare := filepath.Join(dir, "bare.khop")
	must(t, "generate", "rmat", bare, "--nodes", "50", "--edges", "100")
	says(`bare.khop: gnn: options and dataset do not fit: nodes have no column "feature"`, "train", bare)
	says("khop: --fanouts are 1 for 2 layers: give one a layer", "train", data, "--fanouts", "5")
}

func TestAnArchiveIsNamedOnce(t *testing.T) {
	edges := textFile(t, "edge_index.npy", string(expect.NPY([]int64{0, -1, 1, 2}, 2, 2)))
	_, err, code := khop(t, "convert", edges, filepath.Join(t.TempDir(), "x"))
	expect.That(t, code == exitFailed && strings.Count(err, "edge_index.npy: edge") <= 1 &&
		strings.HasSuffix(err, "edge 1: source -1 is negative\n") &&
		!strings.Contains(err, edges+": "+edges), "%s", err)
}
