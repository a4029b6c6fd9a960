package given

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/internal/option"
)

// Lists are the values of an option that has one a hop, by type; those of "*" are of all types that are not named.
type Lists map[string]reflect.Value

// setListsJSON sets an option to a value, a list of such, or an object with these by type.
func setListsJSON(o *option.Option, v, at reflect.Value, value json.RawMessage) error {
	said, all := map[string]json.RawMessage{"": value}, Lists{}
	if value[0] == '{' {
		clear(said)
		_ = json.Unmarshal(value, &said)
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		list, err := listOf(o, at.Type(), name, said[name])
		if err != nil {
			return err
		}
		if value[0] != '{' {
			name = "*"
		}
		all[name] = list
	}
	return putLists(o, v, at, all)
}

// listOf reads the values of a type.
func listOf(o *option.Option, of reflect.Type, name string, value json.RawMessage) (reflect.Value, error) {
	if text, ok := Say(value).(string); ok {
		return parseValues(o, of, text)
	}
	parts := []json.RawMessage{value}
	if value[0] == '[' {
		_ = json.Unmarshal(value, &parts)
	}
	list := reflect.MakeSlice(of, len(parts), len(parts))
	for i, part := range parts {
		text, ok := Say(part).(string)
		if !ok {
			text = string(part)
		}
		if err := parseValue(o, list.Index(i), text); err != nil {
			wrong := (*option.Error)(nil)
			if !errors.As(err, &wrong) {
				wrong = o.Errorf(nil, ": %s: %w", part, err)
			}
			wrong.Key, wrong.Row = name, int64(i)
			return list, wrong
		}
	}
	return list, nil
}

// putLists sets an option to its lists.
func putLists(o *option.Option, v, at reflect.Value, all Lists) error {
	list, there := all["*"]
	if !there {
		list = reflect.Zero(at.Type())
	}
	delete(all, "*")
	switch {
	case len(all) > 0 && o.PerType == nil:
		return fmt.Errorf("it is for all types together: give numbers, such as 15,10, and no types")
	case len(all) == 0 && list.Len() == 0 && o.Kind == "fanouts":
		return fmt.Errorf("must be numbers, one a hop, such as 15,10")
	case o.PerType != nil:
		by := v.FieldByIndex(o.PerType)
		by.SetZero()
		for name, values := range all {
			if by.IsNil() {
				by.Set(reflect.MakeMap(by.Type()))
			}
			by.SetMapIndex(reflect.ValueOf(name), values)
		}
	}
	if isNone(o, list) {
		list = reflect.Zero(at.Type())
	}
	at.Set(list)
	return nil
}

// isNone says that a list has nothing, or the text that stands for it.
func isNone(o *option.Option, list reflect.Value) bool {
	return o.Kind == "lists" && (list.Len() == 0 || list.Len() == 1 && fmt.Sprint(list.Index(0)) == o.Empty)
}

// byType returns the lists by type of an option, that of all other types as "*" if there are others.
func byType(o *option.Option, v, at reflect.Value) map[string]any {
	by := map[string]any{}
	if o.PerType != nil {
		for name, list := range v.FieldByIndex(o.PerType).Seq2() {
			by[name.String()] = listValue(o, list)
		}
	}
	if len(by) > 0 && !at.IsNil() {
		by["*"] = listValue(o, at)
	}
	return by
}

// listValue returns a list as a JSON value: numbers, or names.
func listValue(o *option.Option, list reflect.Value) any {
	if o.Choices == nil {
		return list.Interface()
	}
	names := make([]string, list.Len())
	for i := range names {
		names[i] = fmt.Sprint(list.Index(i))
	}
	return names
}

// listsValue returns lists as JSON values.
func listsValue(o *option.Option, v, at reflect.Value) any {
	if by := byType(o, v, at); len(by) > 0 {
		return by
	}
	return listValue(o, at)
}

// ParseLists reads "15,10,5", or lists by type, "cites=15,10;*=5,5".
func ParseLists(o *option.Option, of reflect.Type, text string) (Lists, error) {
	word, all := "lists", Lists{}
	if o.Kind == "fanouts" {
		word = "fan-outs"
	}
	if !strings.Contains(text, "=") {
		list, err := parseValues(o, of, text)
		all["*"] = list
		return all, err
	}
	for _, part := range strings.Split(text, ";") {
		name, list, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("%s %q: %q is not of the form type=15,10", word, text, part)
		}
		values, err := parseValues(o, of, list)
		if err != nil {
			return nil, err
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%s %q: %q is there twice", word, text, name)
		}
		all[name] = values
	}
	return all, nil
}

// parseValues reads values with commas between.
func parseValues(o *option.Option, of reflect.Type, text string) (reflect.Value, error) {
	texts := strings.Split(text, ",")
	list := reflect.MakeSlice(of, len(texts), len(texts))
	for i, value := range texts {
		err := parseValue(o, list.Index(i), value)
		if err != nil && o.Kind == "fanouts" {
			err = fmt.Errorf("fan-out %q in %q: %w", value, text, err)
		}
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

var errFanout = errors.New("must be a number, 0 for no edge or -1 for all")

// parseValue reads the value of one hop.
func parseValue(o *option.Option, at reflect.Value, text string) error {
	text = strings.TrimSpace(text)
	if o.Kind == "fanouts" {
		k, err := strconv.ParseInt(text, 10, 32)
		if err != nil || k < -1 {
			return errFanout
		}
		at.SetInt(k)
		return nil
	}
	one := o.OfHop()
	if err := one.Parse(at, text); err != nil {
		return err
	}
	return one.Check(nil, at)
}
