package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/samplers"
)

// TestEveryDefaultThatHelpPrintsCanBeTyped types all defaults of a command that its help shows, and of each sampler,
// and "none" for each column and time of seeds that is not named.
func TestEveryDefaultThatHelpPrintsCanBeTyped(t *testing.T) {
	var none commands
	for door, command := range none.tagged() {
		args := append([]string{door}, positionals[door]...)
		all := command.declare(door)
		typed := slices.Clone(args)
		for i := range all {
			if all[i].For == nil {
				typed = append(typed, typedDefault(&all[i])...)
			}
		}
		same(t, door, args, typed)
	}
	for _, s := range samplers.All {
		args := []string{"sample", "a", "--sampler", s.Name}
		typed := slices.Clone(args)
		for _, o := range s.Options() {
			if o.Is(s.Name) {
				typed = append(typed, typedDefault(&o)...)
			}
		}
		same(t, "sample", args, typed)
	}
	fails(t, exitUsage, "--workers is -1: must be 0 (the default) or 1 to 4096", "sample", "a", "--workers", "-1")
	fails(t, exitUsage, "--workers is -1: must be 0 to 32767", "train", "a", "--workers", "-1")
}

// same sees that two command lines have the same options.
func same(t *testing.T, door string, args, typed []string) {
	t.Helper()
	of := func(args []string) string {
		var cli commands
		parser := expect.Must(newParser(&cli, []string{door}, nil, nil))(t)
		_, err := parse(parser, args, t.Context())
		expect.Ensure(t, err == nil, "khop %s: %v", strings.Join(args, " "), err)
		v := reflect.ValueOf(cli.tagged()[door]).Elem()
		text := ""
		for _, name := range []string{"opt", "chosen", "loader", "sampler", "server"} {
			if field := v.FieldByName(name); field.IsValid() {
				text += fmt.Sprintf("%+v\n", field)
			}
		}
		return text
	}
	if without, with := of(args), of(typed); without != with || without == "" {
		t.Errorf("khop %s:\n%v\nwithout defaults:\n%v", strings.Join(typed, " "), with, without)
	}
}

// positionals are arguments that a command wants.
var positionals = map[string][]string{"convert": {"a", "b"}, "export": {"a", "b", "--to", "npz"}, "task": {"a"},
	"generate": {"sbm", "a"}, "serve": {"a", "--socket", "s"}, "demo": {}, "add": {"a"}, "embed": {"a"}, "bench": {"a"},
	"check": {"a"}, "info": {"a"}, "partition": {"a"}, "stage": {"a"}, "plan": {"a"}, "sample": {"a"},
	"split": {"a"}, "train": {"a"}, "tune": {"a"}}

// typedDefault types the default of an option, as its help shows it.
func typedDefault(o *option.Option) []string {
	value := o.Default
	_, words, ok := strings.Cut(o.Help, "default: ")
	if words = strings.TrimSuffix(words, "."); value == "" && ok && !strings.ContainsAny(words, " ") {
		value = words
	}
	if value == "" && (o.Value == "COLUMN" || o.Value == "TIME") && !o.IsList() {
		value = "none"
	}
	if value == "" || o.Kind == "bool" {
		return nil
	}
	return []string{"--" + o.Name + "=" + value}
}
