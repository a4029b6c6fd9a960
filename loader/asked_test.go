package loader_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// What a loader decides is its answer: the options stay as they were given, with their defaults.
func TestOptionsStayAsTheyWereGiven(t *testing.T) {
	g, walks := graphs.Plain(t, 60, 4), sampling.Saint{Kind: sampling.SaintNodes, Budget: 30}
	loader.GroupRoom(t, 1<<30)
	for _, opt := range []loader.Options{{Sampler: neighbor}, {Sampler: neighbor, Residence: loader.Auto},
		{Sampler: neighbor, MaxMemory: 1 << 40, Workers: 9}, {Sampler: walks, Seeds: loader.SeedSource{}},
		{Sampler: neighbor, Seeds: loader.OnRequest(), Residence: loader.Auto}} {
		opt.Device.Name = "cpu"
		l := open(t, g, opt)
		want := *opt.EnsureDefaults()
		expect.That(t, reflect.DeepEqual(l.Options(), want), "%v became %v", want, l.Options())
		a := l.Answer()
		expect.That(t, a.Workers > 0 && a.Prefetch > 0 && a.Device == "cpu" && a.Residence == loader.Mapped &&
			a.MaxMemory == min(opt.MaxMemory, 1<<30) && (a.BatchSize == 1024) == (opt.Sampler != walks), "%+v", a)
	}
}

// Nothing but EnsureDefaults writes to options where others have them, too.
func TestOptionsAreWrittenOnlyByTheirDefaults(t *testing.T) {
	files := token.NewFileSet()
	for _, entry := range expect.Must(os.ReadDir("."))(t) {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		for _, d := range expect.Must(parser.ParseFile(files, entry.Name(), nil, 0))(t).Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && f.Name.Name != "EnsureDefaults" {
				for _, at := range writesToOptions(f) {
					t.Errorf("%s: %s writes to options; what it decides belongs to its result", files.Position(at),
						f.Name.Name)
				}
			}
		}
	}
}

// writesToOptions returns where a function writes to fields of options that a pointer leads to.
func writesToOptions(f *ast.FuncDecl) (at []token.Pos) {
	var shared []string // names of such pointers
	for _, list := range []*ast.FieldList{f.Recv, f.Type.Params} {
		if list == nil {
			continue
		}
		for _, p := range list.List {
			pointer, ok := p.Type.(*ast.StarExpr)
			if !ok {
				continue
			}
			of, _ := pointer.X.(*ast.Ident)
			if of != nil && (of.Name == "asked" || of.Name == "Hooks" || strings.HasSuffix(of.Name, "Options")) {
				for _, n := range p.Names {
					shared = append(shared, n.Name)
				}
			}
		}
	}
	written := func(x ast.Expr) {
		for depth := 0; ; depth++ {
			switch e := x.(type) {
			case *ast.SelectorExpr:
				if e.Sel.Name == "asked" && depth > 0 {
					at = append(at, x.Pos())
				}
				x = e.X
			case *ast.IndexExpr:
				x = e.X
			case *ast.StarExpr:
				x = e.X
			case *ast.Ident:
				if depth > 0 && slices.Contains(shared, e.Name) {
					at = append(at, x.Pos())
				}
				return
			default:
				return
			}
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.AssignStmt:
			for _, x := range s.Lhs {
				written(x)
			}
		case *ast.IncDecStmt:
			written(s.X)
		case *ast.UnaryExpr: // a pointer to a field lets others write to it
			if s.Op == token.AND {
				written(s.X)
			}
		}
		return true
	})
	return at
}
