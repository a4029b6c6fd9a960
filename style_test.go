//go:build !race

package khop_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
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
