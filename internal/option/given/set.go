// Package given sets options to the values that doors are given, as texts of a command line or as JSON, and prints them
// as JSON. It completes options that several structs share, and has the help that is too long for a tag.
package given

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/internal/option"
)

// Set sets the field of an option in the struct that a pointer leads to. value is a text, as on the command line, a
// []string for a list, a json.RawMessage for what JSON has, or of the field's own type. It returns an Error.
func Set(o *option.Option, options any, value any) error {
	v := reflect.ValueOf(options).Elem()
	at := v.FieldByIndex(o.Index)
	if of := reflect.TypeOf(value); of == at.Type() && of.Kind() != reflect.String && of.Kind() != reflect.Slice {
		at.Set(reflect.ValueOf(value))
		return nil
	}
	var err error
	if raw, ok := value.(json.RawMessage); ok {
		err = setJSON(o, v, at, raw)
	} else {
		err = set(o, v, at, value)
	}
	if of := (*option.Error)(nil); err != nil && !errors.As(err, &of) {
		return o.Errorf(nil, ": %w", err)
	}
	return err
}

func set(o *option.Option, v, at reflect.Value, value any) error {
	list, isList := value.([]string)
	text, _ := value.(string)
	if isList {
		text = strings.Join(list, ",")
	}
	switch {
	case o.Kind == "each":
		return o.ParseEach(at, list)
	case (o.Empty != "" || isList) && text == o.Empty && at.Kind() == reflect.Slice && !o.IsLists():
		at.Set(reflect.MakeSlice(at.Type(), 0, 0))
		return nil
	case o.Empty != "" && text == o.Empty && !o.IsLists():
		at.SetZero()
		return nil
	case isList && at.Type() == reflect.TypeFor[[]string]():
		at.Set(reflect.ValueOf(slices.Clone(list)))
		return nil
	}
	if o.IsLists() {
		all, err := ParseLists(o, at.Type(), text)
		if err != nil {
			return err
		}
		return putLists(o, v, at, all)
	}
	if err := o.Parse(at, text); err != nil {
		return err
	}
	if o.Zero != "" && at.IsZero() && at.Kind() != reflect.String {
		return o.Parse(at, o.Zero)
	}
	if text == o.Default {
		return nil
	}
	return o.Check(nil, at)
}

// Values are those that a door is given, by the names of options: what Set takes, nil where nothing is given.
type Values map[string]any

// Text returns the given value of an option, if that is a text or a plain value; else "".
func (s Values) Text(name string) string {
	switch value := s[name].(type) {
	case string:
		return value
	case json.RawMessage:
		return string(value)
	}
	return ""
}

// Apply sets options of a struct, which a pointer leads to, to given values, and others to their defaults.
func Apply(options any, of []option.Option, said Values) error {
	for i := range of {
		o := &of[i]
		value := said[o.Name]
		ok := value != nil
		if with := said[o.With]; o.With != "" && (with == nil || said.Text(o.With) == find(of, o.With).Empty) {
			if text := said.Text(o.Name); ok && text != o.Default && text != o.Empty {
				return o.Errorf(nil, " is for %s, which is "+cmp.Or(find(of, o.With).Empty, "not there"),
					option.Name{Option: o.With})
			}
			continue
		}
		if !ok && o.Default == "" {
			continue
		}
		if !ok {
			value = o.Default
		}
		if err := Set(o, options, value); err != nil {
			return err
		}
	}
	return nil
}

// find returns the option of a name.
func find(of []option.Option, name string) *option.Option {
	for i := range of {
		if of[i].Name == name {
			return &of[i]
		}
	}
	return &option.Option{Name: name}
}
