package expect

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false,
	"write golden files again, where what they hold is meant to change; with go test -p 1")

// Rewriting reports whether golden files are to be written again.
func Rewriting() bool { return *rewrite }

// Brief puts a digest in the place of what a long line has beyond its beginning.
func Brief(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if len(line) >= 240 {
			sum := sha256.Sum256([]byte(line))
			lines[i] = fmt.Sprintf("%.100s... sha256 %x", line, sum[:8])
		}
	}
	return strings.Join(lines, "\n")
}

// Golden compares a text, long lines of it by digests (Brief), with a golden file, and names the lines that differ.
func Golden(t testing.TB, path, got string) {
	t.Helper()
	got = Brief(got)
	if *rewrite {
		OK(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want := string(Must(os.ReadFile(path))(t))
	if want == got {
		return
	}
	was, is := strings.Split(want, "\n"), strings.Split(got, "\n")
	lost, came := without(was, is), without(is, was)
	if len(lost)+len(came) == 0 {
		t.Errorf("%s: the same lines in another order", path)
	}
	for _, line := range lost[:min(len(lost), 12)] {
		t.Errorf("%s: - %.600s", path, line)
	}
	for _, line := range came[:min(len(came), 12)] {
		t.Errorf("%s: + %.600s", path, line)
	}
	t.Errorf("%s: %d lines went, %d came; if that is meant: go test -run %s -rewrite", path, len(lost), len(came),
		t.Name())
}

// unset is an option without a value.
var unset = regexp.MustCompile(` [a-z-]+=(?:0|false|\[\])?( |$)`)

// Short leaves options out of a fingerprint that have no value: 0, false, [] or nothing.
func Short(fingerprint string) string {
	for was := ""; was != fingerprint; {
		was, fingerprint = fingerprint, unset.ReplaceAllString(fingerprint, "$1")
	}
	return fingerprint
}

// without returns the lines that others lack, as often as they lack them.
func without(lines, others []string) (left []string) {
	count := map[string]int{}
	for _, line := range others {
		count[line]++
	}
	for _, line := range lines {
		if count[line]--; count[line] < 0 {
			left = append(left, line)
		}
	}
	return left
}
