package given

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/khop-gnn/khop/internal/option"
)

// setListsJSON sets an option to a value, a list of such, or an object with these by type.
func setListsJSON(o *option.Option, v, at reflect.Value, value json.RawMessage) error {
	said, all := map[string]json.RawMessage{"": value}, option.Lists{}
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
		return o.ParseValues(of, text)
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
		if err := o.ParseValue(list.Index(i), text); err != nil {
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
func putLists(o *option.Option, v, at reflect.Value, all option.Lists) error {
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
