package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestTuneKeepsItsChoicesAndDrawsThem(t *testing.T) {
	data, dir := small(t), t.TempDir()
	file, plot := filepath.Join(dir, "choices.json"), filepath.Join(dir, "tune.svg")
	args := []string{"tune", data, "--widths", "4..16", "--rounds", "1", "--file", file, "--plot", plot}
	tuned := object(t, append(args, "--json")...)["tuned"].([]any)
	expect.That(t, len(tuned) == 6 && tuned[5].(map[string]any)["width"] == 16.0, "%v", tuned)
	out, _, _ := khop(t, args...)
	expect.That(t, strings.Contains(out, "at a mean degree of ") && strings.Contains(out, " columns"), "%s", out)
	picture(t, plot, "with values", "without values", ">16<", "speed-up")
	expect.OK(t, os.WriteFile(file, []byte("{"), 0o600))
	fails(t, exitDone, file, args...)
	out, stderr, _ := khop(t, args...)
	expect.That(t, stderr == "" && strings.Contains(out, "speed-up"), "it was not written anew: %s%s", stderr, out)
}

func TestTuneSaysWhereSampledGradientsPay(t *testing.T) {
	sparse := sampledTime{Degree: 20, Features: 100, Width: 128, Exact: 8e6, Sampled: 12e6}
	dense := sampledTime{Degree: 800, Features: 128, Width: 128, Exact: 30e6, Sampled: 5e6}
	for _, c := range []struct {
		of   sampledTime
		want string
	}{
		{sparse, "sampled gradients (khop train --backward-budget 0.1) do not pay here: at a mean degree of 20.0 a " +
			"backward product of 128 columns, nearest to the 100 of the features, takes 8ms exact and 12ms sampled"},
		{dense, "sampled gradients (khop train --backward-budget 0.1) pay here: at a mean degree of 800.0 a backward " +
			"product of 128 columns takes 30ms exact and 5ms sampled"},
	} {
		expect.That(t, c.of.String() == c.want, "%s", c.of)
	}
}

// picture sees that a file is an SVG with such texts.
func picture(t *testing.T, path string, texts ...string) {
	t.Helper()
	drawn := expect.Must(os.ReadFile(path))(t)
	expect.Is(t, xml.Unmarshal(drawn, new(struct{})), nil, "%s is not XML", path)
	for _, text := range texts {
		expect.That(t, strings.Contains(string(drawn), text), "%s does not show %q", path, text)
	}
}

func TestWidthsAreReadAsRangesAndLists(t *testing.T) {
	for text, want := range map[string]widths{"16..100": {16, 32, 64}, "47, 3": {47, 3}, "5": {5}, "7..7": {7},
		"0": nil, "9..3": nil, "": nil, "1,2..8": nil, "70000": nil, "4..x": nil} {
		var w widths
		if err := w.UnmarshalText([]byte(text)); (err == nil) != (want != nil) || err == nil && !slices.Equal(w, want) {
			t.Errorf("%q: %v, %v", text, w, err)
		}
	}
}
