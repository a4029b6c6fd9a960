//go:build !race

package khop_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

const module = "github.com/khop-gnn/khop"

// layers orders the folders: a package may import those of lower layers and of its own folder, nothing else of ours.
var layers = map[string]int{
	"device": 0, "internal": 1, "pinned": 2, "unified": 3, "graph": 4, "formats": 5, "sampling": 5, "gather": 5,
	"sparse": 5, "internal/diskio": 6, "internal/samplers": 6, "internal/rowsample": 6,
	"internal/expect/graphs": 6, "formats/export": 6,
	"internal/renumber": 4, "internal/rowpipe": 4,
	"loader": 7, "integrations": 8, "cmd": 9, "tests": 9, "examples": 9,
}

// layerOf returns the folder that orders a package: the longest in the table that it lies in.
func layerOf(folder string) (top string, level int, known bool) {
	for top = folder; top != "."; top = path.Dir(top) {
		if level, known = layers[top]; known {
			return top, level, true
		}
	}
	return folder, 0, false
}

// source is a parsed file that is not a test.
type source struct {
	folder string // with slashes, from the root
	name   string
	syntax *ast.File
	files  *token.FileSet
}

// sources parses all files of the module that are not tests. Folders with a go.mod of their own are other modules.
func sources(t *testing.T, mode parser.Mode) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := p != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_"))
			if inner, _ := filepath.Glob(filepath.Join(p, "go.mod")); hidden || d.Name() == "testdata" || p != "." &&
				len(inner) > 0 {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, p, nil, mode)
		if err != nil {
			return err
		}
		all = append(all, source{filepath.ToSlash(filepath.Dir(p)), p, f, files})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value)
	return p
}

func TestImportsGoOneWay(t *testing.T) {
	for _, s := range sources(t, parser.ImportsOnly) {
		if s.folder == "." {
			continue
		}
		from, level, known := layerOf(s.folder)
		if !known {
			t.Errorf("%s: folder %s has no layer: add it to the table, with its place", s.name, from)
			continue
		}
		for _, spec := range s.syntax.Imports {
			ours, ok := strings.CutPrefix(importPath(spec), module+"/")
			if !ok {
				continue
			}
			if to, below, _ := layerOf(ours); to != from && below >= level {
				t.Errorf("%s imports %s: %s is not below %s", s.name, ours, to, from)
			}
		}
	}
}

// heavy are packages that nobody links who opens a folder, and loads from it or trains: clients of stores, formats of
// other files.
var heavy = []string{"net/http", "github.com/minio/", "github.com/apache/", module + "/formats/internal/ranges"}

// observers are packages that programs bring, and a loader does not: they write traces, and read meters.
var observers = []string{module + "/internal/tracefile", module + "/internal/meters"}

func TestLoadingFromAFolderLinksNoClientsOfStores(t *testing.T) {
	for _, root := range []string{"./formats", "./loader", "./integrations/gnn"} {
		linked := expect.Must(exec.CommandContext(t.Context(), "go", "list", "-deps", root).Output())(t)
		for path := range strings.Lines(string(linked)) {
			if root == "./loader" {
				expect.That(t, !slices.Contains(observers, strings.TrimSpace(path)), "%s links %s", root, path)
			}
			for _, h := range heavy {
				expect.That(t, !strings.HasPrefix(path, h), "%s links %s", root, path)
			}
		}
	}
}

// onDevices are the names of files that know of devices: the others of these folders can be read without.
var onDevices = regexp.MustCompile(`^device.*\.go$|_(device|launch)\.go$`)

func TestOnlyFilesThatSaySoKnowOfDevices(t *testing.T) {
	folders := []string{"pinned", "unified", "graph", "formats", "gather", "sampling", "sparse"}
	for _, s := range sources(t, parser.ImportsOnly) {
		if !slices.Contains(folders, s.folder) || onDevices.MatchString(filepath.Base(s.name)) {
			continue
		}
		for _, spec := range s.syntax.Imports {
			if importPath(spec) == module+"/device" {
				t.Errorf("%s imports device: name it device_*.go, or keep what it needs there in such a file", s.name)
			}
		}
	}
}

// rooms of the loader, from the bottom up: a room may import those of earlier lines, not those beside it.
var rooms = []string{
	"errs wide layout tier",
	"seedlist prepared",
	"recipe",
	"placed slots",
	"disk",
	"tiers",
	"presamplers makers",
	"plan",
	"oncpu oncuda outlook",
}

func TestRoomsOfTheLoaderGoOneWay(t *testing.T) {
	floor := map[string]int{"loader": len(rooms)}
	for i, names := range rooms {
		for _, name := range strings.Fields(names) {
			floor["loader/internal/"+name] = i
		}
	}
	floor["loader/layout"], floor["loader/tier"] = 0, 0
	floor["loader/rows"], floor["loader/outlook"], floor["loader/trace"] = len(rooms)+1, len(rooms)+1, len(rooms)+1
	floor["loader/config"] = len(rooms) + 2
	for _, s := range sources(t, parser.ImportsOnly) {
		from, known := floor[s.folder]
		if !known && strings.HasPrefix(s.folder, "loader") {
			t.Errorf("%s: folder %s has no floor: add it to the list, with its place", s.name, s.folder)
		}
		for _, spec := range s.syntax.Imports {
			to, _ := strings.CutPrefix(importPath(spec), module+"/")
			if below, ok := floor[to]; ok && known && below >= from {
				t.Errorf("%s imports %s: that is not below %s", s.name, to, s.folder)
			}
		}
	}
}

// hiddenModules are those whose types no exported signature may hold: what is internal, and what has versions of its
// own.
var hiddenModules = []string{module + "/internal", module + "/formats/internal", "github.com/apache/arrow/go",
	"gorgonia.org/cu"}

func TestNoExportedSignatureHoldsAForeignType(t *testing.T) {
	for _, s := range sources(t, parser.SkipObjectResolution) {
		names := map[string]bool{}
		for _, spec := range s.syntax.Imports {
			for _, m := range hiddenModules {
				if p := importPath(spec); strings.HasPrefix(p, m) {
					name := path.Base(p)
					if spec.Name != nil {
						name = spec.Name.Name
					}
					names[name] = true
				}
			}
		}
		if len(names) == 0 || strings.HasPrefix(s.folder, "internal/") || strings.Contains(s.folder, "/internal") {
			continue
		}
		for _, node := range exported(s.syntax) {
			ast.Inspect(node, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] {
						t.Errorf("%s: an exported signature holds %s.%s", s.files.Position(n.Pos()), x.Name,
							sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// exported returns what users of a file's package see: signatures, types, constants and variables.
func exported(f *ast.File) []ast.Node {
	var nodes []ast.Node
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				nodes = append(nodes, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						nodes = append(nodes, visibleParts(spec.Type)...)
					}
				case *ast.ValueSpec:
					if spec.Names[0].IsExported() && spec.Type != nil {
						nodes = append(nodes, spec.Type)
					}
				}
			}
		}
	}
	return nodes
}

func visibleParts(t ast.Expr) []ast.Node {
	s, ok := t.(*ast.StructType)
	if !ok {
		return []ast.Node{t}
	}
	var nodes []ast.Node
	for _, field := range s.Fields.List {
		if len(field.Names) == 0 || field.Names[0].IsExported() {
			nodes = append(nodes, field.Type)
		}
	}
	return nodes
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for _, s := range sources(t, parser.ParseComments|parser.SkipObjectResolution) {
		said[s.folder] = said[s.folder] || s.syntax.Doc != nil
	}
	for folder, ok := range said {
		if !ok {
			t.Errorf("%s: no package comment: add a doc.go", folder)
		}
	}
}
