package khop_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
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

// untidy are folders and files that are not held to these sizes yet. The list only shrinks.
var untidy = []string{
	"cmd/khop",
	"bench/gpu",
	"gather",
	"internal/cudasim",
	"internal/drivertest",
	"loader",
	"pinned",
	"sampling",
}

// TestFilesFunctionsAndLinesAreShort looks at every Go file: tests, generated files and those of other modules too.
func TestFilesFunctionsAndLinesAreShort(t *testing.T) {
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(p, ".go"):
			long, err := tooLong(p)
			at := filepath.ToSlash(p)
			if !slices.Contains(untidy, at) {
				at = path.Dir(at)
			}
			found[at] = append(found[at], long...)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for at, long := range found {
		if len(long) > 0 && !slices.Contains(untidy, at) {
			t.Error(strings.Join(long, "\n"))
		}
	}
	for _, at := range untidy {
		if len(found[at]) == 0 {
			t.Errorf("%s is tidy: take it off the list of those that are not", at)
		}
	}
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
	for i, line := range lines {
		if n := utf8.RuneCount(line) + 3*bytes.Count(line, []byte("\t")); n > maxColumns {
			long = append(long, fmt.Sprintf("%s:%d: %d columns", name, i+1, n))
		}
	}
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
