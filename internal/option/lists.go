package option

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// lists are the values of an option that has one a hop, by type; those of "*" are of all types that are not named.
type lists map[string]reflect.Value

// isLists says that the option has a value a hop, or lists of them by type.
func (o *Option) isLists() bool { return o.Kind == "fanouts" || o.Kind == "lists" }

// perTypeOf returns the field of lists by type of an option, or nil.
func perTypeOf(t reflect.Type, f reflect.StructField, kind string, index []int) []int {
	name := f.Tag.Get("by")
	if kind == "fanouts" {
		name = "PerType"
	}
	by, ok := t.FieldByName(name)
	if !ok {
		return nil
	}
	return append(slices.Clone(index), by.Index...)
}

// parseLists reads "15,10,5", or lists by type, "cites=15,10;*=5,5".
func (o *Option) parseLists(of reflect.Type, text string) (lists, error) {
	word, all := "lists", lists{}
	if o.Kind == "fanouts" {
		word = "fan-outs"
	}
	if !strings.Contains(text, "=") {
		list, err := o.parseValues(of, text)
		all["*"] = list
		return all, err
	}
	for _, part := range strings.Split(text, ";") {
		name, list, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("%s %q: %q is not of the form type=15,10", word, text, part)
		}
		values, err := o.parseValues(of, list)
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
func (o *Option) parseValues(of reflect.Type, text string) (reflect.Value, error) {
	texts := strings.Split(text, ",")
	list := reflect.MakeSlice(of, len(texts), len(texts))
	for i, value := range texts {
		err := o.parseValue(list.Index(i), value)
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
func (o *Option) parseValue(at reflect.Value, text string) error {
	text = strings.TrimSpace(text)
	if o.Kind == "fanouts" {
		k, err := strconv.ParseInt(text, 10, 32)
		if err != nil || k < -1 {
			return errFanout
		}
		at.SetInt(k)
		return nil
	}
	one := Option{Name: o.Name, Path: o.Path, Choices: o.Choices, names: o.names, Least: o.Least, Most: o.Most}
	if err := one.parse(at, text); err != nil {
		return err
	}
	return one.check(nil, at)
}

// setListsJSON sets an option to a value, a list of such, or an object with these by type.
func (o *Option) setListsJSON(v, at reflect.Value, value json.RawMessage) error {
	said, all := map[string]json.RawMessage{"": value}, lists{}
	if value[0] == '{' {
		clear(said)
		_ = json.Unmarshal(value, &said)
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		list, err := o.listOf(at.Type(), name, said[name])
		if err != nil {
			return err
		}
		if value[0] != '{' {
			name = "*"
		}
		all[name] = list
	}
	return o.putLists(v, at, all)
}

// listOf reads the values of a type.
func (o *Option) listOf(of reflect.Type, name string, value json.RawMessage) (reflect.Value, error) {
	if text, ok := Say(value).(string); ok {
		return o.parseValues(of, text)
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
		if err := o.parseValue(list.Index(i), text); err != nil {
			wrong := (*Error)(nil)
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
func (o *Option) putLists(v, at reflect.Value, all lists) error {
	list, there := all["*"]
	if !there {
		list = reflect.Zero(at.Type())
	}
	delete(all, "*")
	switch {
	case len(all) > 0 && o.perType == nil:
		return fmt.Errorf("it is for all types together: give numbers, such as 15,10, and no types")
	case len(all) == 0 && list.Len() == 0 && o.Kind == "fanouts":
		return fmt.Errorf("must be numbers, one a hop, such as 15,10")
	case o.perType != nil:
		by := v.FieldByIndex(o.perType)
		by.SetZero()
		for name, values := range all {
			if by.IsNil() {
				by.Set(reflect.MakeMap(by.Type()))
			}
			by.SetMapIndex(reflect.ValueOf(name), values)
		}
	}
	if o.isNone(list) {
		list = reflect.Zero(at.Type())
	}
	at.Set(list)
	return nil
}

// isNone says that a list has nothing, or the text that stands for it.
func (o *Option) isNone(list reflect.Value) bool {
	return o.Kind == "lists" && (list.Len() == 0 || list.Len() == 1 && fmt.Sprint(list.Index(0)) == o.empty)
}

// byType returns the lists by type of an option, that of all other types as "*" if there are others.
func (o *Option) byType(v, at reflect.Value) map[string]any {
	by := map[string]any{}
	if o.perType != nil {
		for name, list := range v.FieldByIndex(o.perType).Seq2() {
			by[name.String()] = o.listValue(list)
		}
	}
	if len(by) > 0 && !at.IsNil() {
		by["*"] = o.listValue(at)
	}
	return by
}

// listValue returns a list as a JSON value: numbers, or names.
func (o *Option) listValue(list reflect.Value) any {
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
func (o *Option) listsValue(v, at reflect.Value) any {
	if by := o.byType(v, at); len(by) > 0 {
		return by
	}
	return o.listValue(at)
}

// listsText spells lists in a fingerprint.
func (o *Option) listsText(v, at reflect.Value) string {
	spell := func(list reflect.Value) string {
		if o.Choices != nil {
			return fmt.Sprint(list)
		}
		texts := make([]string, list.Len())
		for i := range texts {
			texts[i] = fmt.Sprint(list.Index(i))
		}
		return strings.Join(texts, ",")
	}
	var by reflect.Value
	if o.perType != nil {
		by = v.FieldByIndex(o.perType)
	}
	if o.perType == nil || by.Len() == 0 {
		if at.Len() == 0 && o.empty != "" {
			return o.empty
		}
		return spell(at)
	}
	var parts []string
	if !at.IsNil() {
		parts = append(parts, "*="+spell(at))
	}
	for _, name := range slices.Sorted(maps.Keys(o.byType(v, reflect.Zero(at.Type())))) {
		parts = append(parts, name+"="+spell(by.MapIndex(reflect.ValueOf(name))))
	}
	return strings.Join(parts, ";")
}

// ParseFanouts reads "15,10,5", or lists by type, "cites=15,10;*=5,5".
func ParseFanouts(text string) (all []int, perType map[string][]int, err error) {
	lists, err := (&Option{Kind: "fanouts"}).parseLists(reflect.TypeFor[[]int](), text)
	if err != nil {
		return nil, nil, err
	}
	for name, list := range lists {
		values := list.Interface().([]int)
		if name == "*" {
			all = values
		} else {
			if perType == nil {
				perType = map[string][]int{}
			}
			perType[name] = values
		}
	}
	return all, perType, nil
}
