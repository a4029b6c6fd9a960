package given

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/internal/option"
)

// Document returns options of a struct as the values of a JSON object, by their keys: those that are not zero, and
// zeros that are not the default.
func Document(options any, of []option.Option) map[string]any {
	v, d := reflect.ValueOf(options), map[string]any{}
	for i := range of {
		if o := &of[i]; stands(o, v, of) {
			d[o.Key()] = value(o, v)
		}
	}
	return d
}

// stands reports whether the option differs from its default.
func stands(o *option.Option, v reflect.Value, of []option.Option) bool {
	zero := func(o *option.Option) bool {
		return v.FieldByIndex(o.Index).IsZero() && (o.PerType == nil || v.FieldByIndex(o.PerType).IsZero())
	}
	group := func(name string) bool { // this one, or an option that belongs to it, is given
		return slices.ContainsFunc(of, func(p option.Option) bool {
			return (p.With == name || p.Name == name) && !zero(&p)
		})
	}
	switch {
	case !zero(o):
		return true
	case o.With != "":
		return o.Zero == "0" && group(o.With)
	case o.Zero == "0" || o.Zero == "-":
		return true
	}
	return group(o.Name)
}

// value returns the option as a JSON value: a bool, a number, a text or a list; fan-outs by type are an object.
func value(o *option.Option, v reflect.Value) any {
	at := v.FieldByIndex(o.Index)
	if o.IsLists() {
		return listsValue(o, v, at)
	}
	if at.Kind() == reflect.Pointer && !at.IsNil() && at.Type().Elem().Kind() != reflect.Struct {
		at = at.Elem()
	}
	if at.IsZero() && o.Zero == "-" {
		return o.Empty
	}
	if value, ok := at.Interface().(fmt.Stringer); ok {
		return value.String()
	}
	if at.Kind() != reflect.Slice {
		return at.Interface()
	}
	texts := make([]string, at.Len())
	for i := range texts {
		texts[i] = fmt.Sprint(at.Index(i).Interface())
	}
	return texts
}

// SetDocument sets options to values of a JSON object. It returns an Error for an invalid value, or a name that is not
// an option.
func SetDocument(options any, of []option.Option, document map[string]json.RawMessage) error {
	if err := TakeDocument(options, of, document); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(document)) {
		return option.Wrong(nameOf(key), " is no option")
	}
	return nil
}

// TakeDocument sets options to values of a JSON object, and takes these out of it. null is as if nothing stood there.
func TakeDocument(options any, of []option.Option, document map[string]json.RawMessage) error {
	for _, key := range slices.Sorted(maps.Keys(document)) {
		o := find(of, nameOf(key))
		if o.Type == nil {
			continue
		}
		if said := Say(document[key]); said != nil {
			if err := Set(o, options, said); err != nil {
				return err
			}
		}
		delete(document, key)
	}
	return nil
}

// nameOf returns the name of an option by its key: half-life.
func nameOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

// Say returns a value of JSON as Set takes it: a text, nil for null, and else the JSON itself. Bytes that are no text
// stand as {"base64": "..."}.
func Say(value json.RawMessage) any {
	var text string
	var bytes struct {
		Base64 []byte `json:"base64"`
	}
	switch {
	case string(value) == "null":
		return nil
	case json.Unmarshal(value, &text) == nil:
		return text
	case json.Unmarshal(value, &bytes) == nil && bytes.Base64 != nil:
		return string(bytes.Base64)
	}
	return value
}

// setJSON sets a field to a value of JSON that is no text.
func setJSON(o *option.Option, v, at reflect.Value, value json.RawMessage) error {
	var list []string
	isList := value[0] == '['
	switch own, ok := at.Addr().Interface().(json.Unmarshaler); {
	case ok:
		return own.UnmarshalJSON(value)
	case o.IsLists():
		return setListsJSON(o, v, at, value)
	case isList && o.Kind == "list" && json.Unmarshal(value, &list) == nil:
		return set(o, v, at, list)
	case o.Kind == "list":
		return fmt.Errorf("%s: must be a list of texts", value)
	case isList || value[0] == '{':
		return fmt.Errorf("%s: must be one value", value)
	case o.Kind == "text" || o.Kind == "path":
		return fmt.Errorf("%s: must be a text", value)
	}
	return set(o, v, at, string(value))
}
