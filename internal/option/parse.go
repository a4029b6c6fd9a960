package option

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// values names the values 0, 1, ... of an option that is a choice.
func (o *Option) values() []string {
	if o.names > 0 {
		return o.Choices[len(o.Choices)-o.names:] // behind what stands for nothing
	}
	return o.Choices
}

// Parse reads a text into the field of an option.
func (o *Option) Parse(at reflect.Value, text string) (err error) {
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
		return o.ParseEach(at, strings.Split(text, ","))
	default:
		return parseNumber(at, text)
	}
	return nil
}

// ParseEach reads a text for each element into the field of an option that is a slice.
func (o *Option) ParseEach(at reflect.Value, texts []string) error {
	all := reflect.MakeSlice(at.Type(), len(texts), len(texts))
	for i, text := range texts {
		if err := (&Option{Choices: o.Choices, names: o.names}).Parse(all.Index(i), text); err != nil {
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

// Check returns an Error for a value that is out of range.
func (o *Option) Check(invalid error, at reflect.Value) error {
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
