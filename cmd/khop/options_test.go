package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/option"
)

// ofCommands are flags of commands that load batches which say something else than what to load and how.
var ofCommands = map[string]string{
	"serve":  "config metrics parent json",
	"sample": "epoch first batches digest json jsonl",
	"bench":  "batches warmup no-features no-memcpy json",
	"plan":   "plot json",
}

// An option is a tag of one field. A flag that is written by hand, or its name in other code, would be a second place
// to change.
func TestNoOptionIsDeclaredTwice(t *testing.T) {
	var cli commands
	k := expect.Must(newParser(&cli, slices.Collect(maps.Keys(cli.tagged())), nil, nil))(t)
	made := listOptions()
	for _, command := range k.Model.Children {
		own, loads := ofCommands[command.Name]
		for _, f := range command.Flags {
			fromTags := slices.ContainsFunc(made.Options, func(o optionRecord) bool {
				return o.Name == f.Name && slices.Contains(o.Doors, command.Name) && strings.HasPrefix(f.Help, o.Help)
			})
			if loads && !fromTags && f.Name != "help" && !slices.Contains(strings.Fields(own), f.Name) {
				t.Errorf("khop %s: --%s is not made from a tag", command.Name, f.Name)
			}
		}
	}
	names, places := map[string]bool{}, map[string]string{}
	for _, o := range made.Options {
		if names[o.Name] = strings.Contains(o.Name, "-"); o.Help == "" {
			t.Errorf("--%s has no help", o.Name)
		}
	}
	for _, folder := range []string{"../../cmd/khop", "../../loader", "../../sampling", "../../integrations",
		"../../internal"} {
		expect.OK(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
				filepath.Base(path) != "train.go" { // which has the options of package gnn
				declared(t, path, names, places)
			}
			return err
		}))
	}
}

// declared goes over the tags and texts of a file.
func declared(t *testing.T, path string, names map[string]bool, places map[string]string) {
	t.Helper()
	files := token.NewFileSet()
	file := expect.Must(parser.ParseFile(files, path, nil, 0))(t)
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if n.Tag == nil || len(n.Names) != 1 {
				break
			}
			tags[n.Tag] = true
			tag := reflect.StructTag(expect.Must(strconv.Unquote(n.Tag.Value))(t))
			at, help := files.Position(n.Pos()).String(), tag.Get("help")
			if name := nameOf(tag, n.Names[0].Name); help != "" && made(tag) && names[name] {
				if places[name] != "" {
					t.Errorf("%s: --%s is declared at %s", at, name, places[name])
				}
				places[name] = at
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && !tags[n] && names[text] &&
				!strings.HasSuffix(path, "option/help.go") {
				t.Errorf("%s: %q is an option: take its name from the tag", files.Position(n.Pos()), text)
			}
		}
		return true
	})
}

// made says that a tag is one that flags are made from, and not kong's.
func made(tag reflect.StructTag) bool {
	for _, of := range []string{"placeholder", "enum", "embed", "cmd", "arg"} {
		if _, kongs := tag.Lookup(of); kongs {
			return false
		}
	}
	return true
}

func nameOf(tag reflect.StructTag, field string) string {
	if name := tag.Get("name"); name != "" {
		return name
	}
	return option.Kebab(field)
}
