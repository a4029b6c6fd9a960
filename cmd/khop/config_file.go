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
	d, err := parseDocument(text)
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

// document is a configuration: the values of options, as JSON values, by their flags' names.
type document map[string]json.RawMessage

// parseDocument reads a configuration, an object of JSON.
func parseDocument(text []byte) (document, error) {
	var keys document
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("the configuration is no JSON object: %w", err)
	}
	d := document{}
	for key, value := range keys {
		d[strings.ReplaceAll(key, "_", "-")] = value
	}
	return d, nil
}

// wrongOption returns an error of exit status 2 that says what is wrong with an option.
func wrongOption(name, format string, args ...any) error {
	return &usage{option.Wrong(name, format, args...)}
}

// Validate refuses keys that are no options. kong calls it where the application is checked.
func (d document) Validate(*kong.Application) error { return nil }

// unknown refuses keys that are no flags of a command, and names the nearest flag.
func (d document) unknown(command *kong.Path) error {
	for _, key := range slices.Sorted(maps.Keys(d)) {
		if slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == key }) {
			continue
		}
		near, far := "", len(key)/2+1
		for _, f := range command.Flags {
			if n := edits(key, f.Name); n < far {
				near, far = f.Name, n
			}
		}
		if near == "" {
			return wrongOption(key, " is no option of khop %s", command.Node().Name)
		}
		return wrongOption(key, " is no option of khop %s: did you mean %s?", command.Node().Name,
			option.Name{Option: near})
	}
	return nil
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
	document

	checked *kong.Command // whose flags the document's keys are
}

// Resolve returns what the document says of a flag: nil where that is nothing. kong calls it for flags that are not on
// the command line.
func (r *resolver) Resolve(_ *kong.Context, at *kong.Path, flag *kong.Flag) (any, error) {
	if at.Command == nil {
		return nil, nil
	}
	if r.checked != at.Command {
		if err := r.unknown(at); err != nil {
			return nil, err
		}
		r.checked = at.Command
	}
	value, ok := r.document[flag.Name]
	if !ok || string(value) == "null" {
		return nil, nil
	}
	said := given.Values{flag.Name: given.Say(value)}
	text := said.Text(flag.Name)
	if flag.Enum != "" && !slices.Contains(flag.EnumSlice(), text) {
		return nil, wrongOption(flag.Name, " must be one of %s but got %q", strings.Join(flag.EnumSlice(), ","), text)
	}
	switch _, made := flag.Mapper.(spoken); {
	case flag.IsBool() && text == "false":
		return nil, nil
	case made:
		return said[flag.Name], nil
	}
	return text, fits(flag, said[flag.Name], text)
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
