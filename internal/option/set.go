package option

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	case (o.empty != "" || isList) && text == o.empty && at.Kind() == reflect.Slice:
		at.Set(reflect.MakeSlice(at.Type(), 0, 0))
		return nil
	case o.empty != "" && text == o.empty:
		at.SetZero()
		return nil
	case isList && at.Type() == reflect.TypeFor[[]string]():
		at.Set(reflect.ValueOf(slices.Clone(list)))
		return nil
	}
	if o.Kind == "fanouts" {
		all, perType, err := ParseFanouts(text)
		if err != nil {
			return err
		}
		return o.putFanouts(v, at, all, perType)
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

// putFanouts sets fan-outs, those of all types and lists by type.
func (o *Option) putFanouts(v, at reflect.Value, all []int, perType map[string][]int) error {
	switch {
	case len(perType) > 0 && o.perType == nil:
		return fmt.Errorf("it is for all types together: give numbers, such as 15,10, and no types")
	case len(perType) > 0:
		v.FieldByIndex(o.perType).Set(reflect.ValueOf(perType))
	case len(all) == 0:
		return fmt.Errorf("must be numbers, one a hop, such as 15,10")
	case o.perType != nil:
		v.FieldByIndex(o.perType).SetZero()
	}
	at.Set(reflect.ValueOf(all))
	return nil
}

// Said has what a door says of options, by name: what Option.Set takes; nil where it says nothing.
type Said map[string]any

// Text returns what was said of an option, where that is a text or a plain value; else "".
func (s Said) Text(name string) string {
	switch value := s[name].(type) {
	case string:
		return value
	case json.RawMessage:
		return string(value)
	}
	return ""
}

// Apply sets options of a struct, which a pointer leads to, as they were said, and others to their defaults.
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

var errFanout = errors.New("must be a number, 0 for no edge or -1 for all")

// ParseFanouts reads "15,10,5", or lists by type, "cites=15,10;*=5,5".
func ParseFanouts(text string) (all []int, perType map[string][]int, err error) {
	if !strings.Contains(text, "=") {
		all, err = parseList(text)
		return all, nil, err
	}
	perType = make(map[string][]int)
	for _, part := range strings.Split(text, ";") {
		name, list, ok := strings.Cut(part, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, nil, fmt.Errorf("fan-outs %q: %q is not of the form type=15,10", text, part)
		}
		k, err := parseList(list)
		if err != nil {
			return nil, nil, err
		}
		if _, twice := perType[name]; twice || name == "*" && all != nil {
			return nil, nil, fmt.Errorf("fan-outs %q: %q is there twice", text, name)
		}
		if name == "*" {
			all = k
		} else {
			perType[name] = k
		}
	}
	return all, perType, nil
}

func parseList(text string) ([]int, error) {
	var list []int
	for _, f := range strings.Split(text, ",") {
		k, err := parseFanout(f)
		if err != nil {
			return nil, fmt.Errorf("fan-out %q in %q: %w", f, text, err)
		}
		list = append(list, k)
	}
	return list, nil
}

func parseFanout(text string) (int, error) {
	k, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil || k < -1 {
		return 0, errFanout
	}
	return int(k), nil
}

// FormatFanouts is the inverse of ParseFanouts, with the types in order.
func FormatFanouts(all []int, perType map[string][]int) string {
	if len(perType) == 0 {
		return formatList(all)
	}
	var parts []string
	if all != nil {
		parts = append(parts, "*="+formatList(all))
	}
	for _, name := range slices.Sorted(maps.Keys(perType)) {
		parts = append(parts, name+"="+formatList(perType[name]))
	}
	return strings.Join(parts, ";")
}

func formatList(list []int) string {
	parts := make([]string, len(list))
	for i, k := range list {
		parts[i] = strconv.Itoa(k)
	}
	return strings.Join(parts, ",")
}
