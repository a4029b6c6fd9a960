package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader/config"
)

// configFile is the value of --config: a document that says options, a file or "-" for standard input. Flags beside it
// win. Its keys are names of flags, with _ for -.
type configFile string

const configHelp = "Read options from a JSON object, in a file or - for standard input. Flags win; errors are JSON, " +
	"too."

// mostConfig is how many bytes a configuration has at most.
const mostConfig = 4 << 20

// read reads the document, until a context ends.
func (c configFile) read(ctx *kong.Context, trace *kong.Path, until context.Context) error {
	path, _ := ctx.FlagValue(trace.Flag).(configFile)
	text, err := wholefile.Input(until, string(path), mostConfig)
	if err != nil {
		return err
	}
	d, err := config.ParseDocument(text)
	if err == nil {
		ctx.AddResolver(&resolver{document: d})
	}
	return err
}

// saysConfig reports whether a command line names a configuration.
func saysConfig(args []string) bool {
	named := func(a string) bool { return a == "--config" || strings.HasPrefix(a, "--config=") }
	return slices.ContainsFunc(args, named)
}

// wrongOption returns an error of exit status 2 that says what is wrong with an option.
func wrongOption(name, format string, args ...any) error {
	return &usage{option.Wrong(name, format, args...)}
}

// unknown refuses keys that are no flags of a command, and names the nearest flag.
func unknown(d map[string]json.RawMessage, command string, flags []string) error {
	for _, key := range slices.Sorted(maps.Keys(d)) {
		if slices.Contains(flags, key) {
			continue
		}
		near, far := "", len(key)/2+1
		for _, flag := range flags {
			if n := edits(key, flag); n < far {
				near, far = flag, n
			}
		}
		if near == "" {
			return wrongOption(key, " is no option of khop %s", command)
		}
		return wrongOption(key, " is no option of khop %s: did you mean %s?", command, option.Name{Option: near})
	}
	return nil
}

// inDocument returns the value of a document for an option, whose values may be only some; nil where nothing is given.
func inDocument(name string, value json.RawMessage, isBool bool, choices []string) (any, error) {
	if value == nil || string(value) == "null" {
		return nil, nil
	}
	said := given.Values{name: given.Say(value)}
	text := said.Text(name)
	if choices != nil && !slices.Contains(choices, text) {
		return nil, wrongOption(name, " must be one of %s but got %q", strings.Join(choices, ","), text)
	}
	if isBool && text == "false" {
		return nil, nil
	}
	return said[name], nil
}

// edits returns how many bytes must be put in, taken out or changed to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			n := before
			if a[i] != b[j] {
				n = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], n
		}
	}
	return row[len(b)]
}

// resolver tells kong what a document says.
type resolver struct {
	document map[string]json.RawMessage

	checked *kong.Command // whose flags the document's keys are
}

// Validate has nothing to refuse in general. kong calls it where the application is checked.
func (r *resolver) Validate(*kong.Application) error { return nil }

// Resolve returns what the document says of a flag: nil where that is nothing. kong calls it for flags that are not on
// the command line.
func (r *resolver) Resolve(_ *kong.Context, at *kong.Path, flag *kong.Flag) (any, error) {
	if at.Command == nil {
		return nil, nil
	}
	if r.checked != at.Command {
		var flags []string
		for _, f := range at.Flags {
			flags = append(flags, f.Name)
		}
		if err := unknown(r.document, at.Node().Name, flags); err != nil {
			return nil, err
		}
		r.checked = at.Command
	}
	var choices []string
	if flag.Enum != "" {
		choices = flag.EnumSlice()
	}
	value, err := inDocument(flag.Name, r.document[flag.Name], flag.IsBool(), choices)
	if _, made := flag.Mapper.(spoken); made || value == nil || err != nil {
		return value, err
	}
	text := given.Values{flag.Name: value}.Text(flag.Name)
	return text, fits(flag, value, text)
}

// fits returns an error that names a flag which takes no such value. kong's own names none.
func fits(flag *kong.Flag, said any, text string) error {
	if _, ok := said.(string); !ok && flag.Target.Kind() == reflect.String {
		return wrongOption(flag.Name, ": %s: must be a text", text)
	}
	line := &kong.DecodeContext{Value: flag.Value, Scan: kong.Scan().PushTyped(text, kong.FlagValueToken)}
	if err := flag.Mapper.Decode(line, reflect.New(flag.Target.Type()).Elem()); err != nil {
		return wrongOption(flag.Name, ": %w", err)
	}
	return nil
}

// problem is an error as values, for programs that say options by a document (docs/json.md, "A configuration").
type problem struct {
	Usage   bool   `json:"usage"` // another configuration would not have it
	Option  string `json:"option,omitempty"`
	Key     string `json:"key,omitempty"`  // of an option that has several: a type
	Part    string `json:"part,omitempty"` // of seeds: ids, times, edges, labels
	Row     *int64 `json:"row,omitempty"`  // of that array, from 0
	Text    string `json:"text"`           // what follows the name of the option
	Message string `json:"message"`
}

// asProblem returns what is wrong, in the words of the document.
func asProblem(err error) problem {
	p := problem{Usage: isUsage(err), Message: paths.Message(errorText(err, option.Key))}
	p.Text = p.Message
	of := (*option.Error)(nil)
	if !errors.As(err, &of) {
		return p
	}
	p.Option, p.Key, p.Part = option.Key(option.Name{Option: of.Option}), of.Key, of.Part
	p.Text = paths.Message(of.Said(option.Key))
	if of.Row >= 0 {
		p.Row = &of.Row
	}
	return p
}

// line returns the problem as a line of JSON that is shorter than room.
func (p problem) line(room int) string {
	for {
		text, err := json.Marshal(p)
		if err != nil {
			return fmt.Sprintf(`{"text": %q, "message": %[1]q}`, "an error that has no text")
		}
		if len(text) < room || len(p.Message) == 0 {
			return string(text)
		}
		p.Text, p.Message = p.Text[:len(p.Text)/2], p.Message[:len(p.Message)/2]
	}
}
