package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// linkFile writes a file of edges and returns the value of --seeds for it.
func linkFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edges")
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return "edges@" + path
}

func TestAFileOfEdgesIsLoadedInItsOrder(t *testing.T) {
	typed := filepath.Join(t.TempDir(), "typed.khop")
	must(t, "generate", "typed", typed, "--nodes", "300", "--edges", "2000")
	file := linkFile(t, "# source target label time\nwrites 5 7 1 10\n\npaper:cites:paper 3 4 2 20 # a comment\n"+
		"writes 1 1 1 30\n")
	o := object(t, "sample", typed, "--fanouts", "2", "--batch-size", "2", "--json", "--seeds", file, "--negatives",
		"uniform", "--corrupt", "either", "--times", "ignore")
	var seeds []float64
	for _, b := range o["batches"].([]any) {
		seeds = append(seeds, b.(map[string]any)["seeds"].(float64))
	}
	expect.Same(t, seeds, []float64{2, 1})
}

func TestWhatIsWrongWithEdgesIsNamed(t *testing.T) {
	data := small(t)
	for _, c := range []struct{ file, args, want string }{
		{"1 2\n3\n", "", "line 2: not a list of seeds: 1 numbers"},
		{"1 2\n3 4 1\n", "", "line 2: not a list of seeds: 3 numbers"},
		{"1 2 3 4 5 6\n", "", "line 1: not a list of seeds: 6 numbers"},
		{"1 2 0.5\n", "", `line 1: not a list of seeds: "0.5" is not a whole number`},
		{"1 2000\n", "", "line 1: seed out of range: node 2000 is not in 0 .. 1,999"},
		{"-1 2\n", "", "line 1: seed out of range: node -1"},
		{"likes 1 2\n", "", `line 1: not a list of seeds: a line is source and target, or an edge type before them`},
		{"# nothing\n", "", "no edge in it"},
		{"1 2\n", "--negatives uniform --negative-ratio -1", "negatives: ratio -1"},
		{"1 2\n", "--negatives uniform --negative-ratio 0", "must be above 0"},
		{"1 2\n", "--negatives uniform --negative-tries 0", "must be above 0"},
		{"1 2\n", "--negatives degree --negative-alpha 0", "must be above 0"},
		{"1 2\n", "--negatives degree --negative-alpha 1.5", "at most 1"},
		{"1 2\n", "--negatives historical", "needs them"},
		{"1 2\n", "--negatives uniform --negative-fill", "belongs to law historical"},
		{"1 2\n", "--strict", "is for --negatives, which is none"},
		{"1 2\n", "--negative-ratio 5", "is for --negatives, which is none"},
		{"1 2\n", "--negative-tries 3", "is for --negatives, which is none"},
		{"1 2\n", "--negatives weight", "weights belong to law weight"},
		{"1 2\n", "--negatives uniform --negative-time label", "have no times"},
		{"1 2\n", "--sampler induced --exclude-seeds seeds", "cannot leave edges out"},
		{"", "--seeds all-edges:likes", `no edge type "likes"`},
		{"", "--seeds all --negatives uniform", "are for seeds that are edges"},
		{"", "--seeds all-edges --link-label lable", `no column "lable"`},
		{"", "--seeds edges@" + filepath.Join(t.TempDir(), "none"), "no such file"},
	} {
		args := append([]string{"sample", data, "--device", "cpu"}, strings.Fields(c.args)...)
		if c.file != "" {
			args = append(args, "--seeds", linkFile(t, c.file))
		}
		if _, stderr, code := khop(t, args...); code == exitDone || !strings.Contains(stderr, c.want) {
			t.Errorf("%q %s: status %d: %s; want %q", c.file, c.args, code, stderr, c.want)
		}
	}
}
