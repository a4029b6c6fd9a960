// Package option reads the tags of structs of options, so that each option is declared once: as a field.
//
//	Lookahead int `default:"64" range:"1,4096" help:"The most batches that --residence disk samples ahead."`
//
// A field with the tag help (or same) is an option of every door; a struct without tags among the fields is a group of
// options. The tags:
//
//	name     its name on the command line; default: that of the field, lookahead
//	default  the value if the option is not given, and what a zero means in Go, but see zero
//	zero     what a given zero means; a zero in Go is then not the default, unless this is -1, for none
//	empty    the text that stands for nothing: no column, an empty list
//	range    least and greatest value, with a comma; one may be left out
//	kind     size (bytes, such as 4GB), path, each (values that may hold commas: the option is given once for each)
//	choices  what a text may be, or the names of the values 0, 1, ... of a number, with commas
//	switches the names of the values 1, 2, ... of a number, each a switch of its own
//	by       the field of lists by type, of an option that has a value a hop
//	value    what stands for the value in help
//	for      the samplers that take it, where not all that have the struct do
//	of       the commands that take it, with commas, where not all that have the struct do; go: no door but Go
//	with     the option that this one belongs to, and means nothing without
//	short    a value that has a switch of its name, too: resident, for --residence resident
//	id       its name in a fingerprint, where it always stands; without, it stands there if it is not zero, as key
//	required true: there is no default
//	help     one sentence, at most 20 words; "..." where it is long: in package given, by the name of the option, or
//	         by the key that follows the dots; after a colon at its end come the choices
//	same     the option of another struct whose other tags these are, but for those that stand beside it
package option

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Option is a field that is an option.
type Option struct {
	Name     string // on the command line
	Path     string // in Go: Disk.Lookahead
	Group    string // of the struct: disk, or ""
	Default  string
	Value    string
	Help     string   // as in the tag; package given has long ones
	Kind     string   // int, float, bool, text, choice, size, duration, time, list, each, fanouts, lists, path
	Choices  []string // of a choice or a list
	Least    string   // "" for none
	Most     string
	For      []string // samplers; nil: all that have the struct
	Doors    []string // commands; nil: all that have the struct
	With     string   // the option that it belongs to
	Short    string   // a value that is a switch, too
	Sets     int      // of a switch: the value that it stands for; 0 for true
	Required bool
	Same     string
	Zero     string // what a given zero means; "" if it is no default's sign
	Empty    string // the text that stands for nothing
	Index    []int  // of the field
	PerType  []int  // of fanouts and lists: the field of those by type
	Type     reflect.Type

	id, key string
	names   int // of the values of an enumeration
}

var known sync.Map // reflect.Type -> []Option

// Of returns the options of a struct, or of what a pointer to one points at.
func Of(v any) []Option {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return ofType(t)
}

func ofType(t reflect.Type) []Option {
	if all, ok := known.Load(t); ok {
		return all.([]Option)
	}
	all := fields(t, nil, "", "")
	known.Store(t, all)
	return all
}

func fields(t reflect.Type, index []int, path, group string) (all []Option) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(append([]int(nil), index...), i)
		tag := f.Tag
		_, helped := tag.Lookup("help")
		switch {
		case !f.IsExported():
		case helped || tag.Get("same") != "":
			o := newOption(f, at, path, group)
			o.PerType = perTypeOf(t, f, o.Kind, index)
			all = append(all, o)
		case tag.Get("switches") != "":
			for n, name := range list(tag.Get("switches")) {
				o := newOption(f, at, path, group)
				o.Name, o.Kind, o.Choices, o.Help, o.Sets = name, "bool", nil, "...", n+1
				all = append(all, o)
			}
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			all = append(all, fields(f.Type, at, path, group)...)
		case f.Type.Kind() == reflect.Struct && tag == "":
			inner := group
			if inner == "" {
				inner = Kebab(f.Name)
			}
			all = append(all, fields(f.Type, at, path+f.Name+".", inner)...)
		case tag.Get("default") != "" || tag.Get("range") != "": // of Go alone
			o := newOption(f, at, path, group)
			o.Doors = []string{"go"}
			all = append(all, o)
		}
	}
	return all
}

func newOption(f reflect.StructField, index []int, path, group string) Option {
	tag := f.Tag
	o := Option{Name: tag.Get("name"), Path: path + f.Name, Group: group, Default: tag.Get("default"),
		Value: tag.Get("value"), Help: tag.Get("help"), For: list(tag.Get("for")), Doors: list(tag.Get("of")),
		With: tag.Get("with"), Short: tag.Get("short"), Same: tag.Get("same"),
		Required: tag.Get("required") != "", id: tag.Get("id"), key: tag.Get("key"), Zero: tag.Get("zero"),
		Empty: tag.Get("empty"), Index: index, Type: f.Type}
	o.Least, o.Most, _ = strings.Cut(tag.Get("range"), ",")
	if o.Name == "" {
		if o.Name = o.Same; o.Name == "" {
			o.Name = Kebab(f.Name)
		}
	}
	if o.Choices = list(tag.Get("choices")); o.Choices != nil {
		o.Kind = "choice"
	} else {
		o.Kind, o.Choices = kindOf(f.Type, tag.Get("kind"))
		if o.names = len(o.Choices); tag.Get("by") != "" {
			o.Kind = "lists"
		}
	}
	if o.Empty != "" && o.Kind == "choice" {
		o.Choices = append([]string{o.Empty}, o.Choices...)
	}
	return o
}

// list splits a tag at commas.
func list(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ",")
}

// Key is the name in JSON and in Python: half_life.
func (o *Option) Key() string { return Key(Name{Option: o.Name}) }

// IsList says that the option takes several values.
func (o *Option) IsList() bool { return o.Kind == "list" && o.Type.Kind() == reflect.Slice }

// Is says that a sampler of a name, whose struct has the option, takes it.
func (o *Option) Is(sampler string) bool { return o.For == nil || slices.Contains(o.For, sampler) }

// At says that a command, whose structs have the option, takes it.
func (o *Option) At(door string) bool { return o.Doors == nil || slices.Contains(o.Doors, door) }

// Kebab spells the name of a field as the command line does: half-life.
func Kebab(name string) string {
	var b strings.Builder
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			if i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z' {
				b.WriteByte('-')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

func kindOf(t reflect.Type, said string) (kind string, choices []string) {
	if said != "" {
		return said, nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	unmarshals := reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration", nil
	case t.Kind() == reflect.Uint8 && !unmarshals && t.Implements(reflect.TypeFor[fmt.Stringer]()):
		return "choice", names(t)
	case unmarshals:
		return "list", nil
	case t == reflect.TypeFor[[]int]():
		return "fanouts", nil
	}
	switch t.Kind() {
	case reflect.Slice:
		_, choices = kindOf(t.Elem(), "")
		return "list", choices
	case reflect.Bool:
		return "bool", nil
	case reflect.Float32, reflect.Float64:
		return "float", nil
	case reflect.String:
		return "text", nil
	}
	return "int", nil
}

// names returns the names of an enumeration, whose values are 0, 1, ...
func names(t reflect.Type) (all []string) {
	for i := range uint64(256) {
		v := reflect.New(t).Elem()
		v.SetUint(i)
		name := v.Interface().(fmt.Stringer).String()
		if strings.HasPrefix(name, "unknown(") {
			break
		}
		all = append(all, name)
	}
	return all
}

// Fill replaces numbers, texts and durations that are zero by their defaults. It takes a pointer to a struct.
func Fill(options any) {
	v := reflect.ValueOf(options).Elem()
	for _, o := range ofType(v.Type()) {
		at := v.FieldByIndex(o.Index)
		if o.Default == "" || o.Zero != "" && !strings.HasPrefix(o.Zero, "-1") || !at.IsZero() {
			continue
		}
		switch o.Kind {
		case "int", "float", "duration", "size", "text":
			if err := o.Parse(at, o.Default); err != nil {
				panic(fmt.Sprintf("option: %s: default %q: %v", o.Path, o.Default, err))
			}
		}
	}
}

// Default returns the default of a whole number, by its field.
func Default(options any, field string) int {
	o := ofField(options, field)
	n, err := strconv.Atoi(o.Default)
	if err != nil {
		panic(fmt.Sprintf("option: %s: default %q: %v", field, o.Default, err))
	}
	return n
}

// Filled returns options with their defaults in place.
func Filled[T any](options T) T {
	Fill(&options)
	return options
}

// Fingerprint is the name and the options of a struct, but those of groups, as text: equal texts mean equal options.
func Fingerprint(name string, options any) string {
	v := reflect.ValueOf(options)
	var b strings.Builder
	b.WriteString(name)
	for _, o := range ofType(v.Type()) {
		at := v.FieldByIndex(o.Index)
		empty := at.IsZero() && (o.PerType == nil || v.FieldByIndex(o.PerType).IsZero())
		if len(o.Index) > 1 || o.id == "-" || o.id == "" && empty {
			continue
		}
		switch {
		case o.id == "":
			b.WriteString(" " + cmp.Or(o.key, o.Name) + "=")
		case o.id == "/":
			b.WriteString("/")
		default:
			b.WriteString(" " + o.id + "=")
		}
		b.WriteString(o.text(v, at))
	}
	return b.String()
}

// text spells the value of an option in a fingerprint.
func (o *Option) text(all, at reflect.Value) string {
	if at.Kind() == reflect.Pointer && at.IsNil() {
		return o.Empty
	}
	if o.IsLists() {
		return o.listsText(all, at)
	}
	if value, ok := at.Interface().([]string); ok {
		return strings.Join(value, ",")
	}
	if _, ok := at.Interface().(fmt.Stringer); !ok && at.Kind() == reflect.Pointer {
		at = at.Elem()
	}
	return fmt.Sprint(at.Interface())
}

// Check returns an Error, which wraps invalid, for the first number that is out of its range and the first choice that
// has no name. Defaults must be in place.
func Check(invalid error, options any) error {
	v := reflect.ValueOf(options)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	for _, o := range ofType(v.Type()) {
		if err := o.Check(invalid, v.FieldByIndex(o.Index)); err != nil {
			return err
		}
	}
	return nil
}
