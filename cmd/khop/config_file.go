package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
)

// configFile is the value of --config: a document that says options, a file or "-" for standard input. Flags beside it
// win. Its keys are names of flags, with _ for -.
type configFile string

const configHelp = "Read options from a JSON object, in a file or - for standard input: {\"batch_size\": 512}. Flags " +
	"win. Errors are then a JSON object, too."

// BeforeResolve reads the document. kong calls it.
func (c configFile) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	path, _ := ctx.FlagValue(trace.Flag).(configFile)
	from := io.Reader(os.Stdin)
	if path != "-" {
		f, err := os.Open(string(path))
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	d, err := parseDocument(text)
	if err == nil {
		ctx.AddResolver(d)
	}
	return err
}

// saysConfig reports whether a command line names a configuration.
func saysConfig(args []string) bool {
	named := func(a string) bool { return a == "--config" || strings.HasPrefix(a, "--config=") }
	return slices.ContainsFunc(args, named)
}

// document is a configuration: the values of options by their flags' names, as JSON has them.
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

// take removes an option from the document, and returns its value as text; empty where there is none.
func (d document) take(flag string) (string, error) {
	value, ok := d[flag]
	delete(d, flag)
	if !ok || string(value) == "null" {
		return "", nil
	}
	text, err := plainText(value)
	if err != nil {
		return "", wrongOption(flag, ": %w", err)
	}
	return text, nil
}

// unknown refuses keys that are no flags of a command, and names the nearest flag.
func (d document) unknown(command *kong.Path) error {
	for _, key := range slices.Sorted(maps.Keys(d)) {
		near, far := "", len(key)/2+1
		for _, f := range command.Flags {
			if n := edits(key, f.Name); n < far {
				near, far = f.Name, n
			}
		}
		switch {
		case near == key:
		case near == "":
			return wrongOption(key, " is no option of khop %s", command.Node().Name)
		default:
			return wrongOption(key, " is no option of khop %s: did you mean %s?", command.Node().Name,
				option.Name{Option: near})
		}
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

// Resolve returns the value of a flag as the command line would have it; nil where the document has none. kong calls it
// for flags that are not on the command line.
func (d document) Resolve(_ *kong.Context, at *kong.Path, flag *kong.Flag) (any, error) {
	if at.Command == nil {
		return nil, nil
	}
	if err := d.unknown(at); err != nil {
		return nil, err
	}
	value, ok := d[flag.Name]
	if !ok || string(value) == "null" || string(value) == "false" && flag.IsBool() {
		return nil, nil
	}
	text, err := valueText(flag, value)
	if err == nil && text == "" && flag.Target.Kind() == reflect.Slice {
		return nil, nil
	}
	if err == nil && flag.Enum != "" && !slices.Contains(flag.EnumSlice(), text) {
		return nil, wrongOption(flag.Name, " must be one of %s but got %q", strings.Join(flag.EnumSlice(), ","), text)
	}
	if err == nil {
		err = tried(flag, text)
	}
	if err != nil {
		return nil, wrongOption(flag.Name, ": %w", err)
	}
	return text, nil
}

// tried parses a flag's text, and throws the value away.
func tried(flag *kong.Flag, text string) error {
	to := reflect.New(flag.Target.Type()).Elem()
	return flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value,
		Scan: kong.Scan().PushTyped(text, kong.FlagValueToken)}, to)
}

// valueText returns a value of JSON as the text of a flag.
func valueText(flag *kong.Flag, value json.RawMessage) (string, error) {
	if value[0] == '[' && flag.Target.Kind() == reflect.Slice && strings.HasSuffix(flag.Name, "-columns") &&
		len(bytes.TrimSpace(value[1:len(value)-1])) == 0 {
		return "none", nil
	}
	if value[0] == '{' && flag.Name == "seeds" {
		return string(value), nil
	}
	return plainText(value)
}

// plainText spells a value: lists with commas, an object as key=value;key=value, or bytes that JSON has no text for.
func plainText(value json.RawMessage) (string, error) {
	switch value[0] {
	case '"':
		var s string
		err := json.Unmarshal(value, &s)
		return s, err
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return "", err
		}
		texts := make([]string, len(list))
		for i := range list {
			var err error
			if list[i][0] == '[' || list[i][0] == '{' {
				return "", fmt.Errorf("%s: must be a list of plain values", value)
			}
			if texts[i], err = plainText(list[i]); err != nil {
				return "", err
			}
		}
		return kong.JoinEscaped(texts, ','), nil
	case '{':
		return objectText(value)
	}
	return string(value), nil
}

// objectText spells an object.
func objectText(value json.RawMessage) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(value, &object); err != nil {
		return "", err
	}
	if b, ok := object["base64"]; ok && len(object) == 1 && b[0] == '"' {
		var text []byte
		err := json.Unmarshal(b, &text)
		return string(text), err
	}
	parts := make([]string, 0, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		text, err := plainText(object[key])
		if err != nil {
			return "", err
		}
		parts = append(parts, key+"="+text)
	}
	return strings.Join(parts, ";"), nil
}

// problem is an error as values, for programs that say options by a document (docs/cli.md, "khop serve").
type problem struct {
	Usage   bool   `json:"usage"` // another configuration would not have it
	Option  string `json:"option,omitempty"`
	Key     string `json:"key,omitempty"`  // of an option that has several: a type
	Part    string `json:"part,omitempty"` // of seeds: ids, times, edges, labels
	Row     *int64 `json:"row,omitempty"`  // of that array, from 0
	Text    string `json:"text"`           // what follows the name of the option
	Message string `json:"message"`
}

// ofFlags finds names of flags in a message.
var ofFlags = regexp.MustCompile(`--([a-z]+(?:-[a-z]+)*)\b`)

// asProblem returns what is wrong, in the words of the document.
func asProblem(err error) problem {
	p := problem{Usage: isUsage(err), Message: paths.Message(errorText(err))}
	p.Text = p.Message
	of := (*option.Error)(nil)
	if !errors.As(err, &of) { // remedies of packages below, in words of the command line
		p.Message = ofFlags.ReplaceAllStringFunc(p.Message, func(flag string) string {
			return option.Key(option.Name{Option: flag[2:]})
		})
		p.Text = p.Message
		return p
	}
	p.Option, p.Key, p.Part = option.Key(option.Name{Option: of.Option}), of.Key, of.Part
	p.Text, p.Message = paths.Message(of.Said(option.Key)), paths.Message(of.In(option.Key))
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
