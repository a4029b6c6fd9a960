package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// parse reads a command line. It does what kong's own Parse does, but finds what is to be called by interfaces: kong
// asks by name, and a program that may ask for any method by name contains all methods of all its packages. The line is
// returned with an error, too.
func parse(parser *kong.Kong, args []string, until context.Context) (*kong.Context, error) {
	line, err := kong.Trace(parser, args)
	if err != nil {
		return line, err
	}
	if err := line.Error; err != nil {
		return line, err
	}
	for _, at := range line.Path {
		if at.Flag == nil {
			continue
		}
		if help, ok := at.Flag.Target.Interface().(interface{ BeforeReset(*kong.Context) error }); ok {
			if err := help.BeforeReset(line); err != nil {
				return line, err
			}
		}
	}
	if err := line.Reset(); err != nil {
		return line, err
	}
	for _, at := range line.Path {
		if at.Flag == nil {
			continue
		}
		if file, ok := at.Flag.Target.Interface().(configFile); ok {
			if err := file.read(line, at, until); err != nil {
				return line, err
			}
		}
	}
	if err := line.Resolve(); err != nil {
		return line, err
	}
	if _, err := line.Apply(); err != nil {
		return line, err
	}
	if err := line.Validate(); err != nil {
		return line, err
	}
	if command, ok := selected(line).(interface{ take(*kong.Context) error }); ok {
		return line, command.take(line)
	}
	return line, nil
}

// selected returns the command that a line names.
func selected(line *kong.Context) any {
	if node := line.Selected(); node != nil {
		return node.Target.Addr().Interface()
	}
	return nil
}

// execute runs the command that a line names.
func execute(line *kong.Context, env *environment) error {
	command, ok := selected(line).(interface{ Run(*environment) error })
	if !ok {
		return fmt.Errorf("%s runs nothing", line.Command())
	}
	return command.Run(env)
}

// complete returns the words that may end a line of a shell: commands, flags, values of either.
func complete(parser *kong.Kong, line string) (words []string) {
	all := strings.Fields(line)
	if line == "" || strings.HasSuffix(line, " ") {
		all = append(all, "")
	}
	node, valued, place := parser.Model.Node, (*kong.Value)(nil), 0
	begun := all[len(all)-1]
	for _, word := range all[min(1, len(all)-1) : len(all)-1] {
		switch child := childOf(node, word); {
		case valued != nil:
			valued = nil
		case strings.HasPrefix(word, "-"):
			if f := flagNamed(node, word); f != nil && !f.IsBool() {
				valued = f.Value
			}
		case child != nil:
			node = child
		default:
			place++
		}
	}
	switch {
	case valued != nil:
		words = values(valued)
	case strings.HasPrefix(begun, "-"):
		for _, f := range flagsAt(node) {
			words = append(words, "--"+f.Name)
		}
	default:
		for _, child := range node.Children {
			words = append(words, child.Name)
		}
		if place < len(node.Positional) {
			words = append(words, values(node.Positional[place])...)
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, begun) })
	slices.Sort(words)
	return words
}

// values returns what a flag or an argument may be: nothing where that is anything.
func values(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return slices.Clone(v.EnumSlice())
}

func childOf(node *kong.Node, name string) *kong.Node {
	i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}

// flagsAt returns the flags that a command takes.
func flagsAt(node *kong.Node) (all []*kong.Flag) {
	for _, group := range node.AllFlags(true) {
		all = append(all, group...)
	}
	return all
}

func flagNamed(node *kong.Node, word string) *kong.Flag {
	all := flagsAt(node)
	i := slices.IndexFunc(all, func(f *kong.Flag) bool {
		return word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)
	})
	if i < 0 {
		return nil
	}
	return all[i]
}
