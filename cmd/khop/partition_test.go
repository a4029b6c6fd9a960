package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestAPartitionIsWrittenAndSampledFrom(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "sbm.khop")
	must(t, "generate", "sbm", data, "--nodes", "600", "--edges", "6000", "--features", "4")
	out := must(t, "partition", data, "--parts", "6")
	file := data + ".part.6"
	expect.That(t, strings.Contains(out, "6 parts of at most") && strings.HasPrefix(out, file), "it says %s", out)
	first, err := os.ReadFile(file)
	expect.Ensure(t, err == nil && strings.Count(string(first), "\n") == 600, "%d lines, %v",
		strings.Count(string(first), "\n"), err)
	lines := must(t, "sample", data, "--sampler", "cluster", "--partition", file, "--clusters", "2", "--digest")
	expect.That(t, strings.Count(lines, "\n") == 3, "an epoch has these batches:\n%s", lines)
	fails(t, exitFailed, "--force", "partition", data, "--parts", "6")
	json := must(t, "partition", data, "--parts", "6", "--force", "--json")
	if again, err := os.ReadFile(file); err != nil || string(again) != string(first) ||
		!strings.Contains(json, `"cut":`) {
		t.Errorf("the second time: %v, %s", err, json)
	}
	if left, err := filepath.Glob(file + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	for args, says := range map[string]string{"--parts 601": "--parts is 601: there are 600 nodes",
		"--parts 2 --out " + dir + "/no/way": "no such"} {
		_, stderr, code := khop(t, append([]string{"partition", data}, strings.Fields(args)...)...)
		expect.That(t, code != exitDone && strings.Contains(stderr, says), "%s: status %d, %s", args, code, stderr)
	}
	expect.OK(t, os.WriteFile(file, []byte("0\nnine\n"), 0o600))
	_, stderr, code := khop(t, "sample", data, "--sampler", "cluster", "--partition", file)
	expect.That(t, code == exitUsage && strings.Contains(stderr, "line 2") && strings.Contains(stderr, file),
		"a damaged partition: status %d, %s", code, stderr)
}
