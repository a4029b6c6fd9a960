package option

import (
	"fmt"
	"strings"
)

// Error is an option that is not taken. Every door prints it with its own names of options.
type Error struct {
	Option string // its name on the command line
	Field  string // its field in Go; "" where it has none
	Key    string // of seeds and fan-outs: the type
	Part   string // of seeds: ids, times, edges or labels
	Row    int64  // of seeds: the element, from 0; -1 where none is meant
	Text   string // what is wrong: " is 7: must be ..."
	Err    error  // what it wraps; nil for none

	args []any // of Text, if there are any: names of other options
}

// Name is an option that the text of an Error names beside its own.
type Name struct {
	Option, Field string
	On            bool // whether the text says to switch it on
}

// ofField returns the option of a field, named as in Go.
func ofField(options any, field string) Option {
	for _, o := range Of(options) {
		if o.Path == field {
			return o
		}
	}
	return Option{Name: Kebab(field[strings.LastIndexByte(field, '.')+1:]), Path: field}
}

// Named names an option by its field, for the text of a package below the one whose struct has it.
func Named(field string) Name { return Name{Option: Kebab(field), Field: field} }

// On names an option by its field, for a text that says to switch it on: --force, force=True.
func On(field string) Name { return Name{Option: Kebab(field), Field: field, On: true} }

// NameOf names an option of a struct by its field, for the text of an Error.
func NameOf(options any, field string) Name {
	o := ofField(options, field)
	return Name{Option: o.Name, Field: o.Path}
}

// Errorf returns an Error of a field, which wraps invalid. The text follows the name of the option: " is 7: ...".
// Arguments may be a Name, or an error for %w.
func Errorf(invalid error, options any, field, format string, args ...any) error {
	o := ofField(options, field)
	return o.Errorf(invalid, format, args...)
}

// Errorf returns an Error of the option.
func (o *Option) Errorf(invalid error, format string, args ...any) *Error {
	return &Error{Option: o.Name, Field: o.Path, Row: -1, Text: format, Err: invalid, args: args}
}

// Wrong returns an Error of an option that is known by its name alone.
func Wrong(name, format string, args ...any) *Error {
	o := Option{Name: name}
	return o.Errorf(nil, format, args...)
}

// Error says what is wrong with the name in Go.
func (e *Error) Error() string {
	text := e.In(inGo)
	if e.Err != nil {
		return e.Err.Error() + ": " + text
	}
	return text
}

// In says what is wrong with a door's names of options.
func (e *Error) In(spell func(Name) string) string {
	return spell(Name{Option: e.Option, Field: e.Field}) + e.place() + e.Said(spell)
}

// place says which element of an option that is a list, or has arrays, is meant: ["paper"].times[1].
func (e *Error) place() (at string) {
	if e.Key != "" {
		at = fmt.Sprintf("[%q]", e.Key)
	}
	if e.Part != "" && e.Part != "ids" && e.Part != "edges" { // these are what seeds are
		at += "." + e.Part
	}
	if e.Row >= 0 {
		at += fmt.Sprintf("[%d]", e.Row)
	}
	return at
}

// Said is In without the option's own name.
func (e *Error) Said(spell func(Name) string) string {
	if len(e.args) == 0 {
		return e.Text
	}
	return said(e.Text, e.args, spell)
}

// Unwrap returns what the error wraps.
func (e *Error) Unwrap() []error {
	if e.Err != nil {
		return append([]error{e.Err}, errorsOf(e.args)...)
	}
	return errorsOf(e.args)
}

// Flag spells an option as the command line does: --half-life.
func Flag(n Name) string { return "--" + n.Option }

// Key spells an option as JSON and Python do: half_life. One to switch on is spelled as in Python: force=True.
func Key(n Name) string {
	key := strings.ReplaceAll(n.Option, "-", "_")
	if n.On {
		return key + "=True"
	}
	return key
}
