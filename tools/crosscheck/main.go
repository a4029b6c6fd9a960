// Command crosscheck type-checks all packages of the module in a folder, tests included, as other systems would compile
// them: "go vet" for each of them compiles everything that they import first, which takes minutes.
//
// Usage: crosscheck FOLDER OS/ARCH...
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: crosscheck FOLDER OS/ARCH...")
		os.Exit(2)
	}
	folder, err := filepath.Abs(os.Args[1])
	failed := err != nil
	for _, target := range os.Args[2:] {
		n, problems := check(folder, target)
		for _, p := range problems {
			fmt.Fprintf(os.Stderr, "%s: %s\n", target, p)
		}
		failed = failed || len(problems) > 0
		fmt.Printf("%s: %d packages\n", target, n)
	}
	if failed {
		os.Exit(1)
	}
}

// check type-checks for a system, without cgo. It returns how many packages and tests it has looked at.
func check(folder, target string) (n int, problems []string) {
	system, arch, _ := strings.Cut(target, "/")
	config := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo |
			packages.NeedTypesSizes,
		Dir: folder, Tests: true,
		Env: append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch),
		ParseFile: func(set *token.FileSet, name string, src []byte) (*ast.File, error) {
			return parse(set, folder, name, src)
		},
	}
	list, err := packages.Load(config, "./...")
	if err != nil {
		return 0, []string{err.Error()}
	}
	if len(list) == 0 {
		return 0, []string{"there are no packages in " + folder}
	}
	for _, p := range list {
		if strings.HasSuffix(p.ID, ".test") { // the program that go test writes
			continue
		}
		n++
		for _, e := range p.Errors {
			problems = append(problems, e.Error())
		}
	}
	return n, problems
}

// parse reads a file. Of those outside of the folder the bodies of functions are left out: they are others' to check.
func parse(set *token.FileSet, folder, name string, src []byte) (*ast.File, error) {
	f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution|parser.ParseComments)
	if f == nil || strings.HasPrefix(name, folder+string(filepath.Separator)) {
		return f, err
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			fn.Body = nil
		}
	}
	return f, err
}
