package main

import (
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/samplers"
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
	_, stderr, code := khop(t, "sample", data, "--sampler", "ppr", "--neighbors", "3", "--sequence", "5")
	want := "--neighbors is 3: a sequence has as many"
	expect.That(t, code == exitUsage && strings.Contains(stderr, want), "%s", stderr)
	help := must(t, "sample", "--help")
	words := strings.Join(strings.Fields(help), " ")
	if !strings.Contains(words, "Sample with replacement. For neighbor, temporal, shadow.") ||
		!strings.Contains(words, "How to sample: "+strings.Join(samplers.Names(), ", ")+".") {
		t.Errorf("help does not say whose --replace is, or has not all samplers:\n%s", help)
	}
	listed := must(t, "samplers")
	for _, s := range samplers.All {
		expect.That(t, strings.Contains(listed, s.Name+": "+s.About+"; "), "%s is not described:\n%s", s.Name, listed)
	}
}
