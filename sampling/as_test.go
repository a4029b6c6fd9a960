package sampling_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/sampling"
)

// wrapped adds nothing to a sampler.
type wrapped struct{ sampling.Sampler }

func (w wrapped) Unwrap() sampling.Sampler { return w.Sampler }

// narrowed changes which columns are read.
type narrowed struct{ wrapped }

func (narrowed) EdgeColumns() []string { return nil }

func TestAWrapperHasWhatItDoesNotChange(t *testing.T) {
	n := sampling.Neighbor{Fanouts: []int{2}, Weight: "w", Frontier: sampling.NewNodes}
	twice := wrapped{wrapped{n}}
	c, ok := sampling.As[sampling.ColumnSampler](twice)
	expect.That(t, ok && slices.Equal(c.EdgeColumns(), []string{"w"}), "columns: %v %v", c, ok)
	if f, ok := sampling.As[sampling.FrontierSampler](twice); !ok || f.Expands() != sampling.NewNodes {
		t.Errorf("frontier: %v %v", f, ok)
	}
	if x, ok := sampling.As[sampling.Excluder](twice); !ok || !x.CanExclude() {
		t.Errorf("exclusion: %v %v", x, ok)
	}
	if _, ok := sampling.As[sampling.ItemSampler](twice); ok {
		t.Error("Neighbor has items of its own")
	}
	clusters := wrapped{sampling.Cluster{PerBatch: 3}}
	if i, ok := sampling.As[sampling.ItemSampler](clusters); !ok ||
		i.Items(&graph.Schema{Nodes: []graph.NodeType{{Count: 5}}}).PerBatch != 3 {
		t.Errorf("items: %v %v", i, ok)
	}
	if c, ok := sampling.As[sampling.ColumnSampler](narrowed{twice}); !ok || c.EdgeColumns() != nil {
		t.Errorf("columns of what changes them: %v %v", c, ok)
	}
}

// opening are the interfaces that a Wrapper must not pass on.
var opening = []string{"PreparedSampler", "DeviceSampler", "PartlyOnDevice", "Wrapper"}

// TestOptionalInterfacesAreAskedForByAs keeps everybody from asking a sampler itself, past which a Wrapper hides what
// it wraps.
func TestOptionalInterfacesAreAskedForByAs(t *testing.T) {
	names := optional(t)
	expect.Ensure(t, len(names) >= 5, "found only %v", names)
	asked := regexp.MustCompile(`\.\((?:sampling\.)?(?:` + strings.Join(names, "|") + `)\)`)
	expect.OK(t, fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "dist") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join("..", path))
		at := asked.Find(text)
		expect.That(t, at == nil, "%s: %s: call sampling.As", path, at)
		return err
	}))
}

// optional returns the interfaces of this package that say what a Sampler is or reads.
func optional(t *testing.T) (names []string) {
	files := expect.Must(filepath.Glob("*.go"))(t)
	for _, file := range files {
		f := expect.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok && embedsSampler(s.Type) && !slices.Contains(opening, s.Name.Name) {
				names = append(names, s.Name.Name)
			}
			return true
		})
	}
	return names
}

func embedsSampler(of ast.Expr) bool {
	i, ok := of.(*ast.InterfaceType)
	return ok && slices.ContainsFunc(i.Methods.List, func(m *ast.Field) bool {
		name, ok := m.Type.(*ast.Ident)
		return ok && len(m.Names) == 0 && name.Name == "Sampler"
	})
}
