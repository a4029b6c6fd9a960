// Package option reads the tags of structs of options, so that each option is declared once: as a field.
//
//	Lookahead int `default:"64" range:"1,4096" help:"Batches that --residence disk samples ahead, at most."`
//
// A field with the tag help (or same) is an option of every door; a struct without tags among the fields is a group of
// options. The tags:
//
//	name     its name on the command line; default: that of the field, lookahead
//	default  what doors take where nothing is said, and what a zero stands for in Go, but see zero
//	zero     what a zero that is said stands for; a zero is then not the default
//	empty    the text that stands for nothing: no column, an empty list
//	range    least and greatest value, with a comma; one may be left out
//	kind     size (bytes, such as 4GB), path
//	choices  what a text may be, with commas
//	value    what stands for the value in help
//	for      the samplers that take it, where not all that have the struct do
//	of       serve: only servers take it
//	id       its name in a fingerprint, where it always stands; without, it stands there if it is not zero, as key
//	help     one sentence
//	same     the option of another struct whose other tags these are
package option

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Option is a field that is an option.
type Option struct {
	Name    string // on the command line
	Path    string // in Go: Disk.Lookahead
	Group   string // of the struct: disk, or ""
	Default string
	Value   string
	Help    string
	Kind    string   // int, float, bool, text, choice, size, duration, list, fanouts, path
	Choices []string // of a choice or a list
	Least   string   // "" for none
	Most    string
	For     []string
	Of      string
	Same    string

	id, key, zero, empty string
	index                []int
	perType              []int // of fanouts: the field of lists by type
	typ                  reflect.Type
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
			if o.Kind == "fanouts" {
				if by, ok := t.FieldByName("PerType"); ok {
					o.perType = append(append([]int(nil), index...), by.Index...)
				}
			}
			all = append(all, o)
		case f.Type.Kind() == reflect.Struct && tag == "":
			inner := group
			if inner == "" {
				inner = Kebab(f.Name)
			}
			all = append(all, fields(f.Type, at, path+f.Name+".", inner)...)
		case tag.Get("default") != "" || tag.Get("range") != "": // of Go alone
			o := newOption(f, at, path, group)
			o.Of = "go"
			all = append(all, o)
		}
	}
	return all
}

func newOption(f reflect.StructField, index []int, path, group string) Option {
	tag := f.Tag
	o := Option{Name: tag.Get("name"), Path: path + f.Name, Group: group, Default: tag.Get("default"),
		Value: tag.Get("value"), Help: tag.Get("help"), Of: tag.Get("of"), For: strings.Fields(tag.Get("for")),
		Same: tag.Get("same"), id: tag.Get("id"), key: tag.Get("key"), zero: tag.Get("zero"), empty: tag.Get("empty"),
		index: index,
		typ:   f.Type}
	o.Least, o.Most, _ = strings.Cut(tag.Get("range"), ",")
	if o.Name == "" {
		if o.Name = o.Same; o.Name == "" {
			o.Name = Kebab(f.Name)
		}
	}
	if o.Kind, o.Choices = kindOf(f.Type, tag.Get("kind")); tag.Get("choices") != "" {
		o.Kind, o.Choices = "choice", strings.Split(tag.Get("choices"), ",")
	}
	return o
}

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
	case unmarshals && t.Implements(reflect.TypeFor[fmt.Stringer]()):
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
		at := v.FieldByIndex(o.index)
		if o.Default == "" || o.zero != "" || !at.IsZero() {
			continue
		}
		switch o.Kind {
		case "int", "float", "duration", "size", "text":
			if err := o.parse(at, o.Default); err != nil {
				panic(fmt.Sprintf("option: %s: default %q: %v", o.Path, o.Default, err))
			}
		}
	}
}

// Default returns the default of a whole number, by its field.
func Default(options any, field string) int {
	o := find(options, field)
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
		at := v.FieldByIndex(o.index)
		empty := at.IsZero() && (o.perType == nil || v.FieldByIndex(o.perType).IsZero())
		if len(o.index) > 1 || o.id == "-" || o.id == "" && empty {
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
		return o.empty
	}
	switch value := at.Interface().(type) {
	case []int:
		var by map[string][]int
		if o.perType != nil {
			by = all.FieldByIndex(o.perType).Interface().(map[string][]int)
		}
		return FormatFanouts(value, by)
	case []string:
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
		if err := o.check(invalid, v.FieldByIndex(o.index)); err != nil {
			return err
		}
	}
	return nil
}
