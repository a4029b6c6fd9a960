package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestTooLittleMemoryNamesWhatWasGivenAndWhatWouldDo: in the figures of --max-memory, and the second one does.
func TestTooLittleMemoryNamesWhatWasGivenAndWhatWouldDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g")
	must(t, "generate", "rmat", path, "--nodes", "20000", "--edges", "200000", "--features", "256", "--seed", "1")
	for _, line := range [][]string{
		{"sample", path, "--batch-size", "1024", "--fanouts", "15,10", "--digest", "--batches", "1"},
		{"sample", path, "--batch-size", "20000", "--fanouts", "3", "--digest", "--batches", "1"},
	} {
		_, said, code := khop(t, append(line, "--max-memory", "45MB")...)
		_, enough, ok := strings.Cut(strings.TrimSpace(said), "allow at least ")
		expect.Ensure(t, ok && code == exitFailed && strings.Contains(said,
			"--max-memory is 45.0 MB (42.9 MiB), of which the program itself takes up to 33.6 MB (32.0 MiB)"),
			"%s", said)
		enough, _, _ = strings.Cut(enough, " (")
		must(t, append(line, "--max-memory", strings.ReplaceAll(enough, " ", ""))...)
	}
}
