package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader"
)

// tagFlags are flags that are made from the tags of structs of options, each by the name that it has there. kong takes
// them as fields of a struct that reflect makes, and has no say in the structs of options themselves: samplers share
// options, which kong would not allow, and an option that was not given must differ from one that was given its
// default.
type tagFlags struct {
	kong.Plugins

	flags     []option.Option
	own       int            // of flags: those behind are of elsewhere
	elsewhere remote.Options // as said; of commands that read datasets or sources
}

// flagsOf are flags of the options of a struct. When a command runs, opt has them as given.
type flagsOf[T any] struct {
	tagFlags

	opt T
}

// declare makes the flags of a command, and returns their options.
func (f *flagsOf[T]) declare(door string) []option.Option {
	return f.make(door, func() []option.Option {
		return given.Complete(given.Of(f.opt), given.Of(loader.Options{}))
	})
}

// take sets the options as given.
func (f *flagsOf[T]) take(line *kong.Context) error {
	said := saidOn(line)
	if err := f.setElsewhere(said); err != nil {
		return err
	}
	return given.Apply(&f.opt, f.flags[:f.own], said)
}

// setElsewhere sets where datasets from elsewhere are kept.
func (f *tagFlags) setElsewhere(said given.Values) error {
	return given.Apply(&f.elsewhere, given.Of(f.elsewhere), said)
}

// noOptions are those of a command that has no others than where datasets are kept.
type noOptions struct{}

// tagged is a command whose flags are made from tags.
type tagged interface {
	declare(door string) []option.Option
}

// tagged returns those commands by name.
func (c *commands) tagged() map[string]tagged {
	return map[string]tagged{
		"add": &c.Add, "bench": &c.Bench, "check": &c.Check, "convert": &c.Convert, "demo": &c.Demo,
		"embed": &c.Embed, "export": &c.Export, "generate": &c.Generate, "info": &c.Info,
		"partition": &c.Partition, "plan": &c.Plan, "sample": &c.Sample, "serve": &c.Serve, "split": &c.Split,
		"stage": &c.Stage, "task": &c.Task, "train": &c.Train, "tune": &c.Tune,
	}
}

// madeFlags are the flags of a command, as kong takes them: pointers to structs of this type.
type madeFlags struct {
	options []option.Option
	own     int
	fields  reflect.Type
}

// flagsMade has the madeFlags of commands that were declared, by name: reflect.StructOf takes longer than the rest of a
// loader's opening in a process that opens many.
var flagsMade sync.Map

// make makes the flags of a command's options, and returns these. Callers do not write to them.
func (f *tagFlags) make(door string, options func() []option.Option) []option.Option {
	of, ok := flagsMade.Load(door)
	if !ok {
		all := options()
		own := len(all)
		if !slices.Contains([]string{"demo", "embed", "generate", "split"}, door) {
			all = append(slices.Clip(all), given.Of(f.elsewhere)...)
		}
		of, _ = flagsMade.LoadOrStore(door, madeFlags{all, own, flagStruct(door, all)})
	}
	flags := of.(madeFlags)
	f.flags, f.own = flags.options, flags.own
	f.Plugins = kong.Plugins{reflect.New(flags.fields).Interface()}
	return f.flags
}

// flagStruct returns a struct whose fields are the flags of a command's options.
func flagStruct(door string, all []option.Option) reflect.Type {
	var fields []reflect.StructField
	for i := range all {
		o := &all[i]
		group := heading(door, o)
		fields = append(fields, flagField(o, group))
		if o.Short != "" {
			fields = append(fields, flagOf(o.Short, "type", string(spokenBool), "help", shortHelp(o), "group", group))
		}
	}
	for i := range fields {
		fields[i].Name = fmt.Sprintf("Flag%d", i)
	}
	return reflect.StructOf(fields)
}

// shortHelp is help for the switch that stands for a value of an option.
func shortHelp(o *option.Option) string { return "The same as --" + o.Name + " " + o.Short + "." }

// flagField is a flag in kong's terms, below a heading.
func flagField(o *option.Option, group string) reflect.StructField {
	help := o.Help
	if o.For != nil && len(o.For) < len(samplers.All) && !strings.HasSuffix(group, " for "+o.For[0]+":") {
		help += " For " + strings.Join(o.For, ", ") + "."
	}
	tags := []string{"help", help, "group", group}
	if o.Default != "" {
		tags = append(tags, "default", o.Default)
	}
	value := cmp.Or(o.Default, o.Value, "STRING")
	switch {
	case o.Kind == "choice":
		tags = append(tags, "enum", strings.Join(o.Choices, ","))
	case o.Kind == "size":
		value = cmp.Or(o.Default, "SIZE")
	case o.IsList() && o.Default == "":
		value = cmp.Or(o.Value, strings.ToUpper(o.Name)) + ",..."
	}
	tags = append(tags, "placeholder", value)
	if o.Sets > 0 {
		tags = append(tags, "xor", o.Path) // it takes one value
	}
	if o.Required {
		tags = append(tags, "required", "true")
	}
	return flagOf(o.Name, append(tags, "type", string(spokenAs(o)))...)
}

// flagOf is a flag that holds its given value.
func flagOf(name string, tags ...string) reflect.StructField {
	text := "name:" + strconv.Quote(name)
	for i := 0; i < len(tags); i += 2 {
		text += " " + tags[i] + ":" + strconv.Quote(tags[i+1])
	}
	return reflect.StructField{Type: reflect.TypeFor[any](), Tag: reflect.StructTag(text)}
}

// spoken is kong's mapper of flags that are made from tags. It takes texts of the command line and values of a
// configuration as they are: option.Set makes something of them.
type spoken string

const (
	spokenValue spoken = "spoken value"
	spokenList  spoken = "spoken list"
	spokenEach  spoken = "spoken each"
	spokenFile  spoken = "spoken file"
	spokenBool  spoken = "spoken bool"
)

// spokenAs returns how an option's values are taken.
func spokenAs(o *option.Option) spoken {
	switch {
	case o.IsList():
		return spokenList
	case o.Kind == "each":
		return spokenEach
	case o.Kind == "path":
		return spokenFile
	case o.Kind == "bool":
		return spokenBool
	}
	return spokenValue
}

// spokenMappers name the mappers for kong.
func spokenMappers() (all []kong.Option) {
	for _, s := range []spoken{spokenValue, spokenList, spokenEach, spokenFile, spokenBool} {
		all = append(all, kong.NamedMapper(string(s), s))
	}
	return all
}

// IsBool says that the flag needs no value. kong calls it.
func (s spoken) IsBool() bool { return s == spokenBool }

// Decode takes the given value. kong calls it.
func (s spoken) Decode(line *kong.DecodeContext, to reflect.Value) error {
	if s.IsBool() && line.Scan.Peek().Type != kong.FlagValueToken {
		to.Set(reflect.ValueOf("true"))
		return nil
	}
	token, err := line.Scan.PopValue(string(s))
	if err != nil {
		return err
	}
	if token.IsEOL() {
		return errors.New("a value is missing")
	}
	value, err := s.take(to.Interface(), token.Value)
	if err == nil {
		to.Set(reflect.ValueOf(value))
	}
	return err
}

// take returns a given value as given.Set takes it, behind those that were given before.
func (s spoken) take(before, value any) (any, error) {
	text, isText := value.(string)
	switch {
	case isText && s == spokenFile:
		return expandPath(text), nil
	case isText && s == spokenList && !utf8.ValidString(text): // dividing it would make it another text
		return nil, fmt.Errorf("%q is %w", text, graph.ErrText)
	case isText && (s == spokenList || s == spokenEach):
		parts := []string{text}
		if s == spokenList {
			parts = kong.SplitEscaped(text, ',')
		}
		list, _ := before.([]string)
		return append(list, parts...), nil
	}
	return value, nil
}

// takeDocument adds to given values those of a document, for options that have none.
func (f *tagFlags) takeDocument(said given.Values, d map[string]json.RawMessage) error {
	for i := range f.flags {
		o := &f.flags[i]
		choices := o.Choices
		if o.Kind != "choice" {
			choices = nil
		}
		if err := takeOne(said, o.Name, d[o.Name], spokenAs(o), choices); err != nil {
			return err
		}
		if o.Short != "" {
			if err := takeOne(said, o.Short, d[o.Short], spokenBool, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeOne adds the value of one option.
func takeOne(said given.Values, name string, value json.RawMessage, s spoken, choices []string) error {
	if said[name] != nil {
		return nil
	}
	of, err := inDocument(name, value, s.IsBool(), choices)
	if of == nil || err != nil {
		return err
	}
	if of, err = s.take(nil, of); err != nil {
		return wrongOption(name, ": %w", err)
	}
	said[name] = of
	return nil
}

// saidOn returns what a command line says of options.
func saidOn(line *kong.Context) given.Values {
	said := given.Values{}
	for _, at := range line.Path {
		if at.Flag != nil {
			said[at.Flag.Name] = at.Flag.Target.Interface()
		}
	}
	return said
}

// widenShorts puts an option in the place of the switch that stands for one of its values.
func (f *tagFlags) widenShorts(said given.Values) error {
	for i := range f.flags {
		o := &f.flags[i]
		if o.Short == "" || said.Text(o.Short) != "true" {
			continue
		}
		if value := said.Text(o.Name); said[o.Name] != nil && value != o.Default && value != o.Short {
			short := option.Option{Name: o.Short}
			return short.Errorf(nil, " and %s %v contradict each other", option.Name{Option: o.Name}, value)
		}
		said[o.Name] = o.Short
	}
	return nil
}
