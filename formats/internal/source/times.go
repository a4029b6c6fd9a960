package source

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// NoTime is what a time that is missing is stored as: it is before all others, so that what has no time is always
// there. NumPy's NaT has the same bits.
const NoTime = math.MinInt64

// units are those of times, the coarsest first, and nanos the nanoseconds that each has. Days are in sources only.
var (
	units = []string{"d", "s", "ms", "us", "ns"}
	nanos = []int64{86_400e9, 1e9, 1e6, 1e3, 1}
)

// IsUnit reports whether a text is a unit of times.
func IsUnit(unit string) bool { return slices.Contains(units, unit) }

// Finer returns the finer one of two units of times; "" is the coarsest.
func Finer(a, b string) string {
	if slices.Index(units, a) > slices.Index(units, b) {
		return a
	}
	return b
}

// InUnit returns a time in another unit, rounded down; ok is false where int64 does not hold it. NoTime stays.
func InUnit(v int64, from, to string) (_ int64, ok bool) {
	a, b := nanos[slices.Index(units, from)], nanos[slices.Index(units, to)]
	switch {
	case v == NoTime || a == b:
		return v, true
	case a > b:
		k := a / b
		return v * k, v <= math.MaxInt64/k && v >= -(math.MaxInt64/k)
	}
	k := b / a
	q := v / k
	if v%k < 0 {
		q--
	}
	return q, true
}

// Needs returns the coarsest unit, from seconds on, in which a time of a unit is a whole number.
func Needs(v int64, unit string) string {
	at := slices.Index(units, unit)
	need := min(at, 1)
	for v != NoTime && need < at && v%(nanos[need]/nanos[at]) != 0 {
		need++
	}
	return units[max(need, 1)]
}

// micros returns a number of a unit in microseconds, the nearest; ok is false where int64 does not hold it.
func micros(x float64, unit string) (_ int64, ok bool) {
	x = math.Round(x * (float64(nanos[slices.Index(units, unit)]) / 1e3))
	return int64(x), math.Abs(x) < 1<<63
}

// times reads one time after the other: whole numbers in the unit of the column, fractions in microseconds.
type times struct {
	graph.Column
	data []byte
}

// next returns the next time; ok is false where int64 does not hold it.
func (t *times) next() (v int64, unit string, ok bool) {
	data := t.data
	t.data = t.data[t.DType.Size():]
	if !t.DType.IsFloat() {
		v = t.DType.Integer(data)
		return v, t.Unit, t.DType != unified.Uint64 || v >= 0
	}
	x := t.DType.Float(data)
	switch {
	case x != x:
		return NoTime, t.Unit, true
	case x == math.Trunc(x):
		return int64(x), t.Unit, math.Abs(x) < 1<<63
	}
	v, ok = micros(x, cmp.Or(t.Unit, "s"))
	return v, "us", ok
}

// Far is the beginning of the year 2200 in seconds since 1970: plain numbers beyond it are hardly seconds.
const Far = 7_258_118_400

// TimesFound is what LookAtTimes has found.
type TimesFound struct {
	Rows, Missing int64
	Rounded       int64  // of those that are not whole numbers of the unit that is asked for
	Fractions     int64  // of floats
	Far           int64  // of floats without a unit that are beyond Far seconds
	Unit          string // the coarsest that all are whole numbers of, from seconds on
}

// LookAtTimes takes times of a column into account, of which a unit is known unless they are floats. What int64 does
// not hold is not its matter.
func (f *TimesFound) LookAtTimes(c graph.Column, unit string, data []byte) {
	for t := (&times{c, data}); int64(len(t.data)) >= c.DType.Size(); f.Rows++ {
		v, in, _ := t.next()
		if v == NoTime {
			f.Missing++
			continue
		}
		if c.DType.IsFloat() && in == "us" && c.Unit != "us" {
			f.Fractions++
		}
		if c.Unit == "" && c.DType.IsFloat() && (in == "" && v > Far || in == "us" && v > Far*1e6) {
			f.Far++
		}
		if in == "" {
			continue
		}
		need := Needs(v, in)
		f.Unit = Finer(f.Unit, need)
		if unit != "" && Finer(need, unit) != unit {
			f.Rounded++
		}
	}
}

// ConvertTimes appends times of a column, little-endian, as int64 of another unit, rounded down; "" leaves numbers
// without a unit as they are. An error is *TimeError.
func ConvertTimes(to []byte, c graph.Column, unit string, data []byte) ([]byte, error) {
	t := &times{c, data}
	for row := int64(0); int64(len(t.data)) >= c.DType.Size(); row++ {
		at := t.data
		v, in, ok := t.next()
		if ok && in != unit {
			v, ok = InUnit(v, in, unit)
		}
		if !ok {
			return nil, &TimeError{c.Name, row, fmt.Errorf("%v%s is a time that int64 does not hold in %s",
				c.DType.Float(at), in, cmp.Or(unit, "it"))}
		}
		to = binary.LittleEndian.AppendUint64(to, uint64(v))
	}
	return to, nil
}

// TimeError is an error at a row of a column of times: the first one converted is 0.
type TimeError struct {
	Column string
	Row    int64
	Err    error
}

// Error says what is wrong.
func (e *TimeError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *TimeError) Unwrap() error { return e.Err }

// ErrTimes is returned for times of which some have a unit and others none.
var ErrTimes = errors.New("times of several units")
