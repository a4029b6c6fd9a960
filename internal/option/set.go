package option

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Set sets the field of an option in the struct that a pointer leads to. value is a text, as on the command line, a
// []string for a list, a json.RawMessage for what JSON has, or of the field's own type. It returns an Error.
func (o *Option) Set(options any, value any) error {
	v := reflect.ValueOf(options).Elem()
	at := v.FieldByIndex(o.index)
	if of := reflect.TypeOf(value); of == at.Type() && of.Kind() != reflect.String && of.Kind() != reflect.Slice {
		at.Set(reflect.ValueOf(value))
		return nil
	}
	var err error
	if raw, ok := value.(json.RawMessage); ok {
		err = o.setJSON(v, at, raw)
	} else {
		err = o.set(v, at, value)
	}
	if of := (*Error)(nil); err != nil && !errors.As(err, &of) {
		return o.Errorf(nil, ": %w", err)
	}
	return err
}

func (o *Option) set(v, at reflect.Value, value any) error {
	list, isList := value.([]string)
	text, _ := value.(string)
	if isList {
		text = strings.Join(list, ",")
	}
	switch {
	case o.Kind == "each":
		return o.parseEach(at, list)
	case (o.empty != "" || isList) && text == o.empty && at.Kind() == reflect.Slice && !o.isLists():
		at.Set(reflect.MakeSlice(at.Type(), 0, 0))
		return nil
	case o.empty != "" && text == o.empty && !o.isLists():
		at.SetZero()
		return nil
	case isList && at.Type() == reflect.TypeFor[[]string]():
		at.Set(reflect.ValueOf(slices.Clone(list)))
		return nil
	}
	if o.isLists() {
		all, err := o.parseLists(at.Type(), text)
		if err != nil {
			return err
		}
		return o.putLists(v, at, all)
	}
	if err := o.parse(at, text); err != nil {
		return err
	}
	if o.zero != "" && at.IsZero() && at.Kind() != reflect.String {
		return o.parse(at, o.zero)
	}
	if text == o.Default {
		return nil
	}
	return o.check(nil, at)
}

// Said has what a door says of options, by name: what Option.Set takes; nil where it says nothing.
type Said map[string]any

// Text returns the given value of an option, if that is a text or a plain value; else "".
func (s Said) Text(name string) string {
	switch value := s[name].(type) {
	case string:
		return value
	case json.RawMessage:
		return string(value)
	}
	return ""
}

// Apply sets options of a struct, which a pointer leads to, to given values, and others to their defaults.
func Apply(options any, of []Option, said Said) error {
	for i := range of {
		o := &of[i]
		value := said[o.Name]
		ok := value != nil
		if with := said[o.With]; o.With != "" && (with == nil || said.Text(o.With) == find(of, o.With).empty) {
			if text := said.Text(o.Name); ok && text != o.Default && text != o.empty {
				return o.Errorf(nil, " is for %s, which is "+cmp.Or(find(of, o.With).empty, "not there"),
					Name{Option: o.With})
			}
			continue
		}
		if !ok && o.Default == "" {
			continue
		}
		if !ok {
			value = o.Default
		}
		if err := o.Set(options, value); err != nil {
			return err
		}
	}
	return nil
}

// find returns the option of a name.
func find(of []Option, name string) *Option {
	for i := range of {
		if of[i].Name == name {
			return &of[i]
		}
	}
	return &Option{Name: name}
}

// values names the values 0, 1, ... of an option that is a choice.
func (o *Option) values() []string {
	if o.names > 0 {
		return o.Choices[len(o.Choices)-o.names:] // behind what stands for nothing
	}
	return o.Choices
}

// parse reads a text into the field of an option.
func (o *Option) parse(at reflect.Value, text string) (err error) {
	if at.Kind() == reflect.Pointer {
		at.Set(reflect.New(at.Type().Elem()))
		at = at.Elem()
	}
	if u, ok := at.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil && o.Choices != nil {
			return fmt.Errorf("must be one of %s, not %q", strings.Join(o.Choices, ", "), text)
		} else if err != nil {
			return err
		}
		return nil
	}
	switch {
	case o.Choices != nil && at.CanUint():
		n := slices.Index(o.values(), text)
		if n < 0 {
			return fmt.Errorf("must be one of %s, not %q", strings.Join(o.Choices, ", "), text)
		}
		at.SetUint(uint64(n))
	case o.Kind == "size":
		return parseSize(at, text)
	case o.Kind == "duration":
		d, err := time.ParseDuration(text)
		if seconds, plain := strconv.ParseFloat(text, 64); plain == nil {
			d, err = time.Duration(seconds*float64(time.Second)), nil
		}
		if err != nil {
			return fmt.Errorf("%q is not a time such as 50s or 2m", text)
		}
		at.SetInt(int64(d))
	case o.Kind == "bool":
		no := slices.Contains([]string{"false", "0", "no"}, strings.ToLower(text))
		if !no && !slices.Contains([]string{"true", "1", "yes"}, strings.ToLower(text)) {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		switch {
		case o.Sets == 0:
			at.SetBool(!no)
		case !no:
			at.SetUint(uint64(o.Sets))
		}
	case at.Kind() == reflect.String:
		at.SetString(text)
	case at.Kind() == reflect.Slice:
		return o.parseEach(at, strings.Split(text, ","))
	default:
		return parseNumber(at, text)
	}
	return nil
}

// parseEach reads a text for each element into the field of an option that is a slice.
func (o *Option) parseEach(at reflect.Value, texts []string) error {
	all := reflect.MakeSlice(at.Type(), len(texts), len(texts))
	for i, text := range texts {
		if err := (&Option{Choices: o.Choices, names: o.names}).parse(all.Index(i), text); err != nil {
			return err
		}
	}
	at.Set(all)
	return nil
}

func parseSize(at reflect.Value, text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		at.SetInt(n)
		return nil
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is not a size such as 4GB, 1.5GiB or 500MB", text)
	}
	at.SetInt(int64(n))
	return nil
}

func parseNumber(at reflect.Value, text string) error {
	switch {
	case at.CanInt():
		n, err := strconv.ParseInt(text, base(text), at.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		at.SetInt(n)
	case at.CanUint():
		n, err := strconv.ParseUint(text, base(text), at.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q is not a whole number from 0 to 2^%d - 1", text, at.Type().Bits())
		}
		at.SetUint(n)
	case at.CanFloat():
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		at.SetFloat(x)
	default:
		return fmt.Errorf("an option of %v has no text", at.Type())
	}
	return nil
}

// base is 0, which takes 0x10 and 1_000, but where a number merely begins with a zero.
func base(text string) int {
	if strings.Trim(text, "0123456789") == "" {
		return 10
	}
	return 0
}

// check returns an Error for a value that is out of range.
func (o *Option) check(invalid error, at reflect.Value) error {
	var x float64
	switch {
	case o.Kind == "choice" && !at.CanUint():
		if !slices.Contains(o.Choices, at.String()) {
			return o.Errorf(invalid, " is %q: must be one of %s", at.String(), strings.Join(o.Choices, ", "))
		}
		return nil
	case o.Kind == "choice":
		if n := at.Uint(); o.names > 0 && n >= uint64(o.names) {
			return o.Errorf(invalid, " is %d: must be 0 to %d", n, o.names-1)
		}
		return nil
	case o.Least == "" && o.Most == "":
		return nil
	case at.CanInt():
		x = float64(at.Int())
	case at.CanUint():
		x = float64(at.Uint())
	case at.CanFloat():
		x = at.Float()
	}
	if o.inRange(x) {
		return nil
	}
	value := at.Interface()
	if at.Type() == reflect.TypeFor[time.Duration]() {
		value = at.Int()
	}
	must := "must be "
	if n, err := strconv.ParseFloat(o.Default, 64); err == nil && !o.inRange(n) {
		must += o.Default + " (the default) or "
	}
	switch {
	case o.Most == "":
		return o.Errorf(invalid, " is %v: "+must+"%s or more", value, o.Least)
	case o.Least == "":
		return o.Errorf(invalid, " is %v: "+must+"at most %s", value, o.Most)
	}
	return o.Errorf(invalid, " is %v: "+must+"%s to %s", value, o.Least, o.Most)
}

func (o *Option) inRange(x float64) bool {
	least, errLeast := strconv.ParseFloat(o.Least, 64)
	most, errMost := strconv.ParseFloat(o.Most, 64)
	return (errLeast != nil || x >= least) && (errMost != nil || x <= most)
}
