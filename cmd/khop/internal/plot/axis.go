package plot

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// axis is a range of numbers with the marks in it.
type axis struct {
	name      string
	low, high float64
	ticks     []Tick
	log       bool // low and high are logarithms
}

// scale returns what a value is on the axis.
func (a axis) scale(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

// share returns where in the range a value lies: from 0 to 1.
func (a axis) share(v float64) float64 { return (a.scale(v) - a.low) / (a.high - a.low) }

// below is the axis of x. Numbers that are all whole have whole marks.
func (p *Plot) below() axis {
	low, high, whole := span(p.Curves, func(c Curve) []float64 { return c.X })
	a := axis{name: p.Bottom, low: low, high: high, ticks: p.Ticks}
	if p.Ticks == nil {
		a.ticks = round(low, high, 12, whole)
	}
	for _, t := range p.Ticks {
		a.low, a.high = min(a.low, t.At), max(a.high, t.At)
	}
	if p.Bars {
		a.low, a.high = a.low-0.5, a.high+0.5
	}
	return a
}

// axis is the axis of the curves on one side, with at most this number of marks. It ends at marks, and begins at 0 if
// that is near.
func (p *Plot) axis(name string, left bool, most int) axis {
	var list []Curve
	for _, c := range p.Curves {
		if c.Left == left && len(c.Y) > 0 {
			list = append(list, c)
		}
	}
	if list == nil {
		return axis{low: 0, high: 1}
	}
	if p.Log {
		return powers(name, list)
	}
	low, high, _ := span(list, func(c Curve) []float64 { return c.Y })
	if p.Bars || low > 0 && low <= high/2 {
		low = min(low, 0)
	}
	if p.Bars {
		high = max(high, 0)
	}
	for range 2 { // longer by a mark, marks may be further apart
		step := stepOf(low, high, most, false)
		low, high = math.Floor(low/step+1e-9)*step, math.Ceil(high/step-1e-9)*step
	}
	return axis{name: name, low: low, high: high, ticks: round(low, high, most, false)}
}

// powers is an axis of powers of ten. It begins below the least value, which then has a bar, too.
func powers(name string, list []Curve) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range list {
		for _, v := range c.Y {
			if v := math.Log10(v); finite(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if low > high {
		low, high = 0, 1
	}
	a := axis{name: name, low: math.Floor(low) - 0.3, high: max(high, math.Floor(low)+1), log: true}
	every := math.Ceil((a.high - a.low) / 12)
	for k := math.Floor(low); k <= a.high; k += every {
		a.ticks = append(a.ticks, Tick{math.Pow(10, k), amount(math.Pow(10, k))})
	}
	return a
}

// span returns a range that has all finite values, which is never empty, and whether they are all whole.
func span(curves []Curve, of func(Curve) []float64) (low, high float64, whole bool) {
	low, high, whole = math.Inf(1), math.Inf(-1), true
	for _, c := range curves {
		for _, v := range of(c) {
			if finite(v) {
				low, high, whole = min(low, v), max(high, v), whole && v == math.Trunc(v)
			}
		}
	}
	if low > high {
		return 0, 1, true
	}
	if least := max(math.Abs(high)*1e-9, math.SmallestNonzeroFloat64); high-low < least {
		wide := max(0.5, math.Abs(high)/1000)
		return low - wide, high + wide, whole
	}
	return low, high, whole
}

// stepOf is the least of 1, 2 or 5 times a power of ten that divides a range into at most this number of steps.
func stepOf(low, high float64, most int, whole bool) float64 {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(most))))
	times := []float64{1, 2, 5, 10}
	fits := func(k float64) bool { return (high-low)/(step*k) <= float64(most) }
	if i := slices.IndexFunc(times, fits); i >= 0 {
		step *= times[i]
	}
	if whole {
		step = max(step, 1)
	}
	return step
}

// round returns at most this number of marks, at round numbers.
func round(low, high float64, most int, whole bool) (ticks []Tick) {
	step := stepOf(low, high, most, whole)
	for k := math.Ceil(low/step - 1e-9); k*step <= high+step*1e-9; k++ {
		ticks = append(ticks, Tick{k * step, number(k*step, step)})
	}
	return ticks
}

// number writes a multiple of a step with the digits that tell it from the next.
func number(v, step float64) string {
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	if magnitude := math.Abs(v); digits > 6 || magnitude >= 1e15 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return commas(strconv.FormatFloat(v+0, 'f', digits, 64)) // -0 is 0
}

// amount writes a number with the digits that a person reads.
func amount(v float64) string {
	if magnitude := math.Abs(v); magnitude >= 1e15 || magnitude > 0 && magnitude < 1e-3 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	if math.Abs(v) >= 100 {
		return commas(strconv.FormatFloat(v, 'f', 0, 64))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// commas sets a comma between thousands.
func commas(text string) string {
	whole, part, dot := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if dot {
		return whole + "." + part
	}
	return whole
}
