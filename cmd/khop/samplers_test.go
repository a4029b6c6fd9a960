package main

import (
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestAFlagOfAnotherSamplerIsRefused(t *testing.T) {
	data := small(t)
	for _, command := range []string{"sample", "bench", "serve --socket " + t.TempDir() + "/f/s"} {
		args := append(strings.Fields(command), data, "--sampler", "hgt", "--replace")
		_, stderr, code := khop(t, args...)
		want := "--replace is not for --sampler hgt, but for: neighbor, temporal"
		expect.That(t,
			code == exitUsage && strings.Contains(stderr, want) && strings.Contains(stderr, "hgt takes: --layer-nodes"),
			"%s: status %d, %s", command, code, stderr)
	}
	help := must(t, "sample", "--help")
	words := strings.Join(strings.Fields(help), " ")
	if !strings.Contains(words, "induced (the subgraph between the seeds)") ||
		!strings.Contains(words, "Sample with replacement. For neighbor, temporal, shadow.") {
		t.Errorf("help does not say whose --replace is:\n%s", help)
	}
}
