package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
)

// mutant is one small change to one file.
type mutant struct {
	file     string // path
	line     int
	column   int
	operator string
	from, to int           // bytes of the file that are replaced
	text     string        // by this
	in       *ast.FuncDecl // nil where it is in no function
}

// source is a file of the package under test.
type source struct {
	path   string
	text   []byte
	files  *token.FileSet
	syntax *ast.File
}

func parse(path string) (*source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &source{path: path, text: text, files: token.NewFileSet()}
	s.syntax, err = parser.ParseFile(s.files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

// apply returns the file's text with the mutant planted.
func (s *source) apply(m *mutant) []byte {
	out := append([]byte(nil), s.text[:m.from]...)
	return append(append(out, m.text...), s.text[m.to:]...)
}

// lines returns what the mutant changes, as a line before and after.
func (s *source) lines(m *mutant) (before, after string) {
	start := strings.LastIndexByte(string(s.text[:m.from]), '\n') + 1
	end := len(s.text)
	if i := strings.IndexByte(string(s.text[m.to:]), '\n'); i >= 0 {
		end = m.to + i
	}
	one := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	return one(string(s.text[start:end])), one(string(s.text[start:m.from]) + m.text + string(s.text[m.to:end]))
}

// planter lists the mutants of a file.
type planter struct {
	*source
	list []mutant
	in   *ast.FuncDecl
}

// mutants returns all that can be planted in a file.
func mutants(s *source) []mutant {
	p := planter{source: s}
	for _, d := range s.syntax.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.CONST || d.Tok == token.VAR {
				ast.Inspect(d, p.expression)
			}
		case *ast.FuncDecl:
			if d.Body != nil {
				p.in = d
				p.function(d.Type, d.Body)
				p.in = nil
			}
		}
	}
	return p.list
}

// function visits a body; returned errors are those of its own type.
func (p *planter) function(t *ast.FuncType, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			p.function(n.Type, n.Body)
			return false
		case *ast.ReturnStmt:
			p.returned(t, n)
		}
		p.statement(n)
		return p.expression(n)
	})
}

// replace adds a mutant that puts text in the place of from .. to-1.
func (p *planter) replace(operator string, from, to token.Pos, text string) {
	at := p.files.Position(from)
	m := mutant{file: p.path, line: at.Line, column: at.Column, operator: operator, from: at.Offset,
		to: p.files.Position(to).Offset, text: text, in: p.in}
	if string(p.text[m.from:m.to]) != text {
		p.list = append(p.list, m)
	}
}

func (p *planter) of(n ast.Node) string {
	return string(p.text[p.files.Position(n.Pos()).Offset:p.files.Position(n.End()).Offset])
}

// returned drops the error that a function returns.
func (p *planter) returned(t *ast.FuncType, r *ast.ReturnStmt) {
	if t.Results == nil || len(r.Results) == 0 {
		return
	}
	last := t.Results.List[len(t.Results.List)-1]
	if id, ok := last.Type.(*ast.Ident); !ok || id.Name != "error" || len(r.Results) != t.Results.NumFields() {
		return
	}
	e := r.Results[len(r.Results)-1]
	if p.of(e) != "nil" {
		p.replace("drop error", e.Pos(), e.End(), "nil")
	}
}

// statement drops statements and changes where loops go on.
func (p *planter) statement(n ast.Node) {
	drop := func(n ast.Node) { p.replace("drop statement", n.Pos(), n.End(), "if false { "+p.of(n)+" }") }
	switch n := n.(type) {
	case *ast.BlockStmt:
		p.each(n.List, drop)
	case *ast.CaseClause:
		p.each(n.Body, drop)
	case *ast.CommClause:
		p.each(n.Body, drop)
	case *ast.IfStmt:
		p.replace("negate", n.Cond.Pos(), n.Cond.End(), "!("+p.of(n.Cond)+")")
	case *ast.ForStmt:
		if n.Cond != nil {
			p.replace("negate", n.Cond.Pos(), n.Cond.End(), "!("+p.of(n.Cond)+")")
		}
	case *ast.BranchStmt:
		if other, ok := map[token.Token]string{token.BREAK: "continue", token.CONTINUE: "break"}[n.Tok]; ok {
			p.replace("break", n.TokPos, n.TokPos+token.Pos(len(n.Tok.String())), other)
		}
	case *ast.IncDecStmt:
		p.replace("increment", n.TokPos, n.TokPos+2, map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok])
	}
}

func (p *planter) each(list []ast.Stmt, drop func(ast.Node)) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.GoStmt:
			drop(s)
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				drop(s)
			}
			if other, ok := swapped[s.Tok]; ok {
				p.replace("arithmetic", s.TokPos, s.TokPos+token.Pos(len(s.Tok.String())), other)
			}
		}
	}
}

// swapped are operators and what takes their place.
var swapped = map[token.Token]string{
	token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.REM: "*", token.SHL: ">>", token.SHR: "<<",
	token.AND: "|", token.OR: "&", token.AND_NOT: "&", token.XOR: "|", token.LAND: "||", token.LOR: "&&",
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.MUL_ASSIGN: "/=", token.QUO_ASSIGN: "*=",
	token.OR_ASSIGN: "&=", token.AND_ASSIGN: "|=", token.XOR_ASSIGN: "|=", token.AND_NOT_ASSIGN: "&=",
	token.SHL_ASSIGN: ">>=", token.SHR_ASSIGN: "<<=",
	token.EQL: "!=", token.NEQ: "==",
}

// boundary are comparisons and those that differ where both sides are equal.
var boundary = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

// expression changes operators, numbers, names and arguments.
func (p *planter) expression(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.StructType, *ast.FuncType:
		return false
	case *ast.BinaryExpr:
		end := n.OpPos + token.Pos(len(n.Op.String()))
		if other, ok := swapped[n.Op]; ok {
			p.replace("operator", n.OpPos, end, other)
		}
		if other, ok := boundary[n.Op]; ok {
			p.replace("boundary", n.OpPos, end, other)
		}
	case *ast.BasicLit:
		p.number(n)
	case *ast.Ident:
		if other, ok := map[string]string{"true": "false", "false": "true", "min": "max", "max": "min"}[n.Name]; ok {
			p.replace("name", n.Pos(), n.End(), other)
		}
	case *ast.CallExpr:
		switch p.of(n.Fun) {
		case "unsafe.Sizeof":
			return false
		case "min", "max", "sat.Add", "sat.Mul", "errors.Join": // in any order
			return true
		}
		for i := 1; i < len(n.Args); i++ {
			a, b := n.Args[i-1], n.Args[i]
			if p.of(a) != p.of(b) {
				p.replace("swap arguments", a.Pos(), b.End(), p.of(b)+", "+p.of(a))
			}
		}
	}
	return true
}

func (p *planter) number(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	v, err := strconv.ParseUint(n.Value, 0, 64)
	if err != nil || v == 1<<64-1 {
		return
	}
	p.replace("number", n.Pos(), n.End(), fmt.Sprint(v+1))
	if v > 0 {
		p.replace("number", n.Pos(), n.End(), fmt.Sprint(v-1))
	}
}
