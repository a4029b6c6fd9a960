package main

import (
	"strings"
	"testing"

	"github.com/khop-gnn/khop/sampling"
)

func TestAFlagOfAnotherSamplerIsRefused(t *testing.T) {
	defer func(was []samplerRow) { samplers = was }(samplers)
	plain := func(f *samplerFlags) sampling.Sampler { return sampling.Neighbor{Fanouts: f.Fanouts.all} }
	samplers = append(samplers[:len(samplers):len(samplers)], samplerRow{"plain", "one option", "fanouts", plain})
	data := small(t)
	for _, command := range []string{"sample", "bench", "serve --socket " + t.TempDir() + "/f/s"} {
		args := append(strings.Fields(command), data, "--sampler", "plain", "--replace")
		_, stderr, code := khop(t, args...)
		want := "--replace is not for --sampler plain, but for: neighbor, temporal"
		if code != exitUsage || !strings.Contains(stderr, want) || !strings.Contains(stderr, "plain takes: --fanouts") {
			t.Errorf("%s: status %d, %s", command, code, stderr)
		}
	}
	must(t, "sample", data, "--sampler", "plain", "--fanouts", "3")
	help := must(t, "sample", "--help")
	words := strings.Join(strings.Fields(help), " ")
	if !strings.Contains(words, "plain (one option)") ||
		!strings.Contains(words, "Sample with replacement. For neighbor, temporal, shadow.") {
		t.Errorf("help does not say whose --replace is:\n%s", help)
	}
}
