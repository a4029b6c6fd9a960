package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A binary has many mutants: a function with mutants has a copy for each, and begins by calling the one that the
// environment names. So a hundred mutants cost one build, and those that do not compile a second one.

const chosen = "KHOP_MUTANT" // names the mutant: a number, from 1

// choosing is a file that the package gets.
const choosing = `package %s

import (
	os__ "os"
	strconv__ "strconv"
)

var mutant__ = func() int { n, _ := strconv__.Atoi(os__.Getenv("` + chosen + `")); return n }()
`

// copyable reports whether a function may have copies. Some must be alone: those that Go calls itself, that tell the
// compiler something, that have parameters without names, or that ask who has called them.
func (s *source) copyable(f *ast.FuncDecl) bool {
	if f == nil || f.Name.Name == "init" || f.Name.Name == "main" || f.Name.Name == "_" {
		return false
	}
	if f.Doc != nil {
		for _, c := range f.Doc.List {
			if strings.HasPrefix(c.Text, "//go:") {
				return false
			}
		}
	}
	named := func(list *ast.FieldList) bool {
		return list == nil || !slices.ContainsFunc(list.List, func(f *ast.Field) bool {
			return len(f.Names) == 0 || slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == "_" })
		})
	}
	if !named(f.Recv) || !named(f.Type.Params) {
		return false
	}
	asks := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		asks = asks || ok && (id.Name == "recover" || id.Name == "Caller" || id.Name == "Callers")
		return !asks
	})
	return !asks
}

// call is the statement that calls a function's copy in its place.
func (s *source) call(f *ast.FuncDecl, number int) string {
	var args []string
	for _, field := range f.Type.Params.List {
		for _, n := range field.Names {
			arg := n.Name
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	name := fmt.Sprintf("%s__%d", f.Name.Name, number)
	if f.Recv != nil {
		name = f.Recv.List[0].Names[0].Name + "." + name
	} else if f.Type.TypeParams != nil {
		var types []string
		for _, field := range f.Type.TypeParams.List {
			for _, n := range field.Names {
				types = append(types, n.Name)
			}
		}
		name += "[" + strings.Join(types, ", ") + "]"
	}
	text := name + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results != nil && len(f.Type.Results.List) > 0 {
		return "return " + text
	}
	return text + "; return"
}

// numbered is a mutant and its number in a binary.
type numbered struct {
	*planted
	shares      bool // a binary
	number      int  // there; 0 where it has none
	first, last int  // lines of its copy
}

// together returns a file's text with copies for mutants, and sets where they are. The lines of the file stay.
func (s *source) together(list []*numbered) []byte {
	at := func(n ast.Node) (from, to int) {
		return s.files.Position(n.Pos()).Offset, s.files.Position(n.End()).Offset
	}
	calls, order := map[*ast.FuncDecl]string{}, []*ast.FuncDecl{}
	for _, m := range list {
		if calls[m.in] == "" {
			order = append(order, m.in)
		}
		calls[m.in] += fmt.Sprintf(" case %d: %s;", m.number, s.call(m.in, m.number))
	}
	slices.SortFunc(order, func(a, b *ast.FuncDecl) int { return int(a.Pos() - b.Pos()) })
	var out bytes.Buffer
	done := 0
	for _, f := range order {
		brace := s.files.Position(f.Body.Lbrace).Offset + 1
		out.Write(s.text[done:brace])
		fmt.Fprintf(&out, " switch mutant__ {%s };", strings.TrimSuffix(calls[f], ";"))
		done = brace
	}
	out.Write(s.text[done:])
	line := bytes.Count(out.Bytes(), []byte("\n")) + 1
	for _, m := range list {
		from, to := at(m.in)
		_, name := at(m.in.Name)
		text := fmt.Sprintf("\n%s__%d%s%s%s\n", s.text[from:name], m.number, s.text[name:m.from], m.mutant.text,
			s.text[m.to:to])
		m.first, m.last = line+1, line+strings.Count(text, "\n")
		line += strings.Count(text, "\n")
		out.WriteString(text)
	}
	return out.Bytes()
}

var position = regexp.MustCompile(`(?m)^(?:vet: )?([^\s:]+\.go):(\d+):`)

// build builds one binary for those mutants that may share one, and returns its path. It takes the numbers from those
// that do not compile.
func (s *tester) build(list []*numbered) (string, error) {
	binary := s.folderOf() + "--" + strings.ReplaceAll(s.path, "/", "_") + ".test"
	for range 20 {
		files, err := s.overlay(list)
		if err != nil {
			return "", err
		}
		out, err := s.compile(binary, "-vet=off", "-gcflags=-e", "-overlay", files)
		if err == nil {
			return binary, nil
		}
		left := slices.DeleteFunc(slices.Clone(list), func(m *numbered) bool {
			for _, at := range position.FindAllStringSubmatch(out, -1) {
				line, _ := strconv.Atoi(at[2])
				if filepath.Base(at[1]) == filepath.Base(m.file) && m.first <= line && line <= m.last {
					m.number = 0
					return true
				}
			}
			return false
		})
		if len(left) == len(list) {
			return "", fmt.Errorf("%s: mutants do not compile together:\n%s", s.path, out)
		}
		list = left
	}
	return "", fmt.Errorf("%s: mutants do not compile together", s.path)
}

// folderOf is where the mutants of the package are written.
func (s *tester) folderOf() string {
	return filepath.Join(s.scratch, strings.ReplaceAll(s.of.path, "/", "_"))
}

// overlay writes the files of a build, and the list of them that the go tool reads.
func (s *tester) overlay(list []*numbered) (string, error) {
	files := map[string][]byte{}
	for _, src := range s.of.sources {
		var here []*numbered
		for _, m := range list {
			if m.source == src && m.number > 0 {
				here = append(here, m)
			}
		}
		if here != nil {
			files[src.path] = src.together(here)
			files[filepath.Join(s.of.folder, "mutant__.go")] = fmt.Appendf(nil, choosing, src.syntax.Name.Name)
		}
	}
	return overlay(s.folderOf(), files)
}

// overlay writes texts that the go tool reads in the place of files, and their list. The compiler may name either.
func overlay(folder string, texts map[string][]byte) (string, error) {
	replace, err := map[string]string{}, os.MkdirAll(folder, 0o700)
	for path, text := range texts {
		replace[path] = filepath.Join(folder, filepath.Base(path))
		err = errors.Join(err, os.WriteFile(replace[path], text, 0o600))
	}
	text, bad := json.Marshal(map[string]any{"Replace": replace})
	list := filepath.Join(folder, "overlay.json")
	return list, errors.Join(err, bad, os.WriteFile(list, text, 0o600))
}
