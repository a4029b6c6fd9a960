package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatOtherSystemsCannotCompileIsFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/x\n\ngo 1.25\n",
		"x.go":             "package x\n\nimport \"os\"\n\nvar Name = os.Args[0] + suffix\n",
		"x_linux.go":       "package x\n\nconst suffix = \"l\"\n",
		"x_windows.go":     "package x\n\nconst suffix = 1\n",
		"x_darwin_test.go": "package x\n\nvar _ int = Name\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "-mod=mod")
	for target, want := range map[string]string{
		"linux/arm64": "", "windows/amd64": "x.go:5", "darwin/arm64": "suffix",
	} {
		n, problems := check(dir, target)
		got := strings.Join(problems, "; ")
		if n == 0 || (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %d packages, %q, want %q", target, n, got, want)
		}
	}
}
