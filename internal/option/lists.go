package option

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

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

// OfHop is the option of one hop's value, where each hop has one.
func (o *Option) OfHop() *Option {
	return &Option{Name: o.Name, Path: o.Path, Choices: o.Choices, names: o.names, Least: o.Least, Most: o.Most}
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
