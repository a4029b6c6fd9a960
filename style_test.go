//go:build !race

package khop_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/khop-gnn/khop/internal/expect"
)

const (
	maxColumns  = 120 // a tab counts four
	maxFunction = 60  // lines
	maxFile     = 600 // lines
)

// others are the endings of other files whose lines are short: Python, C, C++, CUDA and assembly.
var others = []string{".py", ".c", ".h", ".cc", ".cu", ".cuh", ".s", ".S"}

// TestFilesFunctionsAndLinesAreShort looks at every Go file, tests, generated files and those of other modules too, and
// at the lines of other sources, but for C in bench.
func TestFilesFunctionsAndLinesAreShort(t *testing.T) {
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || p == "dist"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(p, ".go"):
			long, err := tooLong(p)
			for _, what := range long {
				t.Error(what)
			}
			return err
		case !d.IsDir() && slices.Contains(others, filepath.Ext(p)) &&
			(filepath.Ext(p) == ".py" || !strings.HasPrefix(p, "bench")):
			text, err := os.ReadFile(p)
			for _, what := range longLines(p, text) {
				t.Error(what)
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoProgramIsCommitted: go build writes one beside the main package of a module, and git add takes it along.
func TestNoProgramIsCommitted(t *testing.T) {
	listed, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z").Output()
	if err != nil {
		t.Logf("these files are no clone: %v", err)
		return
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed, and that is not committed yet
		}
		expect.OK(t, err)
		head := make([]byte, 4)
		n, _ := io.ReadFull(file, head)
		expect.OK(t, file.Close())
		for _, magic := range []string{"\x7fELF", "MZ", "\xcf\xfa\xed\xfe"} {
			expect.That(t, !strings.HasPrefix(string(head[:n]), magic), "%s is a program", name)
		}
	}
}

// longLines says which lines of a file are too long.
func longLines(name string, text []byte) (long []string) {
	for i, line := range bytes.Split(text, []byte("\n")) {
		if n := utf8.RuneCount(line) + 3*bytes.Count(line, []byte("\t")); n > maxColumns {
			long = append(long, fmt.Sprintf("%s:%d: %d columns", name, i+1, n))
		}
	}
	return long
}

// tooLong says which lines and functions of a file are too long, and whether the file is.
func tooLong(name string) (long []string, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	long = longLines(name, text)
	for _, decl := range syntax.Decls {
		from, to := files.Position(decl.Pos()).Line, files.Position(decl.End()).Line
		if f, ok := decl.(*ast.FuncDecl); ok && to-from >= maxFunction {
			long = append(long, fmt.Sprintf("%s:%d: %s has %d lines", name, from, f.Name.Name, to-from+1))
		}
	}
	if len(lines) > maxFile {
		long = append(long, fmt.Sprintf("%s: %d lines", name, len(lines)))
	}
	return long, nil
}
