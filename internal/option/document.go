package option

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Document returns options of a struct as the values of a JSON object, by their keys: those that are not zero, and
// zeros that are not the default.
func Document(options any, of []Option) map[string]any {
	v, d := reflect.ValueOf(options), map[string]any{}
	for i := range of {
		if o := &of[i]; o.stands(v, of) {
			d[o.Key()] = o.value(v)
		}
	}
	return d
}

// stands says that the option is not what it is where nothing is said.
func (o *Option) stands(v reflect.Value, of []Option) bool {
	zero := func(o *Option) bool {
		return v.FieldByIndex(o.index).IsZero() && (o.perType == nil || v.FieldByIndex(o.perType).IsZero())
	}
	group := func(name string) bool { // some option that belongs to this one is said
		return slices.ContainsFunc(of, func(p Option) bool { return p.With == name && !zero(&p) })
	}
	switch {
	case !zero(o):
		return true
	case o.With != "":
		return o.zero == "0" && group(o.With)
	case o.zero == "0" || o.zero == "-":
		return true
	}
	return group(o.Name)
}

// value returns the option as JSON has it: a bool, a number, a list of texts or a text.
func (o *Option) value(v reflect.Value) any {
	at := v.FieldByIndex(o.index)
	if o.Kind == "fanouts" {
		return o.text(v, at)
	}
	if at.Kind() == reflect.Pointer && !at.IsNil() && at.Type().Elem().Kind() != reflect.Struct {
		at = at.Elem()
	}
	if at.IsZero() && o.zero == "-" {
		return o.empty
	}
	switch value := at.Interface().(type) {
	case fmt.Stringer:
		return value.String()
	case []string:
		return slices.Clone(value)
	}
	switch {
	case at.Kind() == reflect.Slice:
		texts := make([]string, at.Len())
		for i := range texts {
			texts[i] = fmt.Sprint(at.Index(i).Interface())
		}
		return texts
	default:
		return at.Interface()
	}
}

// SetDocument sets options to values of a JSON object. It returns an Error for one that is wrong, or is none of them.
func SetDocument(options any, of []Option, document map[string]json.RawMessage) error {
	for _, key := range slices.Sorted(maps.Keys(document)) {
		value := document[key]
		o := find(of, strings.ReplaceAll(key, "_", "-"))
		if o.typ == nil {
			return o.Errorf(nil, " is no option")
		}
		said, err := sayJSON(value)
		if err != nil {
			return o.Errorf(nil, ": %w", err)
		}
		if err := o.Set(options, said); err != nil {
			return err
		}
	}
	return nil
}

// sayJSON returns a value of JSON as a door says it: a text, or a list of texts.
func sayJSON(value json.RawMessage) (any, error) {
	switch value[0] {
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err
	case '[':
		var all []json.RawMessage
		list, err := []string{}, json.Unmarshal(value, &all)
		for _, one := range all {
			text, wrong := sayJSON(one)
			if _, nested := text.([]string); nested || wrong != nil {
				return nil, fmt.Errorf("%s: must be a list of plain values", value)
			}
			list = append(list, text.(string))
		}
		return list, err
	}
	return string(value), nil
}
