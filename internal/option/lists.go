package option

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Lists are the values of an option that has one a hop, by type; those of "*" are of all types that are not named.
type Lists map[string]reflect.Value

// IsLists says that the option has a value a hop, or lists of them by type.
func (o *Option) IsLists() bool { return o.Kind == "fanouts" || o.Kind == "lists" }

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

// ParseLists reads "15,10,5", or lists by type, "cites=15,10;*=5,5".
func (o *Option) ParseLists(of reflect.Type, text string) (Lists, error) {
	word, all := "lists", Lists{}
	if o.Kind == "fanouts" {
		word = "fan-outs"
	}
	if !strings.Contains(text, "=") {
		list, err := o.ParseValues(of, text)
		all["*"] = list
		return all, err
	}
	for _, part := range strings.Split(text, ";") {
		name, list, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("%s %q: %q is not of the form type=15,10", word, text, part)
		}
		values, err := o.ParseValues(of, list)
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

// ParseValues reads values with commas between.
func (o *Option) ParseValues(of reflect.Type, text string) (reflect.Value, error) {
	texts := strings.Split(text, ",")
	list := reflect.MakeSlice(of, len(texts), len(texts))
	for i, value := range texts {
		err := o.ParseValue(list.Index(i), value)
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

// ParseValue reads the value of one hop.
func (o *Option) ParseValue(at reflect.Value, text string) error {
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
	if err := one.Parse(at, text); err != nil {
		return err
	}
	return one.Check(nil, at)
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
	if o.PerType != nil {
		by = v.FieldByIndex(o.PerType)
	}
	if o.PerType == nil || by.Len() == 0 {
		if at.Len() == 0 && o.Empty != "" {
			return o.Empty
		}
		return spell(at)
	}
	var parts []string
	if !at.IsNil() {
		parts = append(parts, "*="+spell(at))
	}
	names := by.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range names {
		parts = append(parts, name.String()+"="+spell(by.MapIndex(name)))
	}
	return strings.Join(parts, ";")
}

// ParseFanouts reads "15,10,5", or lists by type, "cites=15,10;*=5,5".
func ParseFanouts(text string) (all []int, perType map[string][]int, err error) {
	lists, err := (&Option{Kind: "fanouts"}).ParseLists(reflect.TypeFor[[]int](), text)
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
