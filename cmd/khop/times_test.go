package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// A temporal run whose seeds reach no edge says so, with column and unit; one that reaches some does not.
func TestARunWhoseSeedsReachNoEdgeSaysSo(t *testing.T) {
	src := textFile(t, "e.csv", "src,dst,time\n0,1,2024-01-01\n1,2,2024-01-02\n2,0,2024-01-03\n")
	mapping := filepath.Join(filepath.Dir(src), "m.yaml")
	expect.OK(t, os.WriteFile(mapping, []byte("edges: {e: e.csv}\n"), 0o600))
	dataset := filepath.Join(t.TempDir(), "x.khop")
	must(t, "convert", mapping, dataset, "--ids", "numbers")
	info := must(t, "info", dataset)
	expect.That(t, strings.Contains(info, "time int64 in s"), "%s", info)
	for asOf, says := range map[string]bool{"1000": true, "1704200000": false} {
		_, notes, code := khop(t, "sample", dataset, "--sampler", "temporal", "--as-of", asOf, "--seeds", "all",
			"--fanouts", "5")
		said := strings.Contains(notes, `no seed has reached any edge`) && strings.Contains(notes, "unit: s")
		expect.That(t, code == 0 && said == says, "as of %s: status %d, %s", asOf, code, notes)
	}
}
