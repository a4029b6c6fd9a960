package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// textFile writes a file of a test's own.
func textFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConvertLeavesOutAsManyBadLinesAsItMay(t *testing.T) {
	src := textFile(t, "edges.txt", "0 1\n1 2\nx 2\n2 0\n2\n0 2\n")
	out := filepath.Join(t.TempDir(), "out.khop")
	_, err, code := khop(t, "convert", src, out, "--skip-bad", "1", "--ids", "numbers")
	if code != exitFailed || !strings.Contains(err, "edges.txt: row 5") ||
		!strings.Contains(err, "that were skipped: 1") {
		t.Errorf("one may be bad: status %d, %s", code, err)
	}
	res := object(t, "convert", src, out, "--skip-bad", "2", "--ids", "numbers", "--json")
	notes := expectStrings(t, res["notes"])
	if res["edges"] != 4.0 || res["skipped"] != 2.0 || !strings.Contains(notes, `row 3: id "x" is not a number`) ||
		!strings.Contains(notes, "row 5: the line has 1 fields, not 2") {
		t.Errorf("two may be bad: %v", res)
	}
	must(t, "check", out)
}

// expectStrings joins a list of strings.
func expectStrings(t *testing.T, v any) string {
	t.Helper()
	var all []string
	for _, s := range v.([]any) {
		all = append(all, s.(string))
	}
	return strings.Join(all, "\n")
}
