package plot

import (
	"math"
	"strconv"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// The measures of a picture, in pixels.
const (
	width, height = 800, 480
	margin        = 14
	lineHeight    = 18
	gap           = 6  // between a tick and its label
	sample        = 22 // length of the line beside a name
	titleSize     = 14
	textSize      = 9
	fewPoints     = 20 // a line of fewer has its points marked
)

// canvas is a picture that is being drawn.
type canvas struct {
	chart.Renderer
	p                        *Plot
	top, bottom, left, right int // of the box of the curves
	x                        axis
	y                        [2]axis // right and left
	alone                    bool    // no curve asks for the axis on the left, so all have it
}

// draw draws the plot: from above the title, the names of curves, those of the axes, the box.
func (p *Plot) draw(r chart.Renderer) chart.Renderer {
	c := &canvas{Renderer: r, p: p, x: p.below()}
	if font, err := chart.GetDefaultFont(); err == nil {
		r.SetFont(font)
	}
	r.SetFillColor(drawing.ColorWhite)
	c.rectangle(0, 0, width, height)
	r.Fill()
	r.SetFontColor(chart.DefaultTextColor)
	c.y = [2]axis{p.axis(p.Right, false), p.axis(p.Left, true)}
	if c.alone = c.y[1].ticks == nil; c.alone {
		c.y[0], c.y[1] = c.y[1], c.y[0]
	}
	r.SetFontSize(titleSize)
	at := margin + lineHeight
	c.centred(c.fitted(p.Title, width-2*margin), width/2, at)
	r.SetFontSize(textSize)
	at = c.names(at+lineHeight+gap) + lineHeight
	c.top, c.bottom = at+gap+2, height-margin-2*lineHeight
	c.left, c.right = margin+c.widest(c.y[1])+gap, width-margin-c.widest(c.y[0])-gap
	c.Text(c.fitted(c.y[1].name, width/2-2*margin), margin, at)
	right := c.fitted(c.y[0].name, width/2-2*margin)
	c.Text(right, width-margin-c.width(right), at)
	c.centred(c.fitted(c.x.name, c.right-c.left), (c.left+c.right)/2, height-margin)
	c.axes()
	for i, line := range p.Curves {
		c.curve(line, chart.GetDefaultColor(i))
	}
	return r
}

// names writes what the colours stand for, row by row, and returns where the last row is.
func (c *canvas) names(y int) int {
	x := margin
	for i, line := range c.p.Curves {
		name := c.fitted(line.Name, width/2)
		need := sample + gap + c.width(name)
		if x > margin && x+need > width-margin {
			x, y = margin, y+lineHeight
		}
		c.pen(chart.GetDefaultColor(i), 2)
		c.line(x, y-4, x+sample, y-4)
		c.Text(name, x+sample+gap, y)
		x += need + 3*gap
	}
	return y
}

// axes draws the box with its ticks and their labels.
func (c *canvas) axes() {
	c.pen(chart.DefaultAxisColor, 1)
	c.rectangle(c.left, c.top, c.right, c.bottom)
	c.Stroke()
	for i, a := range c.y {
		for _, t := range a.ticks {
			y := c.across(a, t.At)
			if i == 0 {
				c.line(c.right, y, c.right+3, y)
				c.Text(t.Label, c.right+gap, y+4)
			} else {
				c.line(c.left-3, y, c.left, y)
				c.Text(t.Label, c.left-gap-c.width(t.Label), y+4)
			}
		}
	}
	free := 0 // no label of the axis below has been written from here on
	for _, t := range c.x.ticks {
		label := t.Label
		if c.p.Bars {
			label = c.fitted(label, max(c.along(1)-c.along(0)-gap, 6*titleSize))
		}
		x, half := c.along(t.At), c.width(label)/2
		c.line(x, c.bottom, x, c.bottom+3)
		if x-half >= free && x+half <= width {
			c.Text(label, x-half, c.bottom+lineHeight)
			free = x + half + gap
		}
	}
}

// curve draws a line, and its points where they are few.
func (c *canvas) curve(line Curve, color drawing.Color) {
	a := c.y[0]
	if line.Left || c.alone {
		a = c.y[1]
	}
	var points [][2]int
	for i, x := range line.X {
		if i < len(line.Y) && finite(line.Y[i]) {
			points = append(points, [2]int{c.along(x), c.across(a, line.Y[i])})
		}
	}
	if c.p.Bars {
		c.bars(points, color)
		return
	}
	c.pen(color, 2)
	for i, p := range points {
		if i == 0 {
			c.MoveTo(p[0], p[1])
		} else {
			c.LineTo(p[0], p[1])
		}
	}
	c.Stroke()
	if len(line.X) >= fewPoints {
		return
	}
	for _, p := range points {
		c.pen(color, 1)
		c.SetFillColor(color)
		c.Circle(3, p[0], p[1])
		c.FillStroke()
	}
}

// bars draws a bar from below to each point, which is there also where the point is lowest.
func (c *canvas) bars(points [][2]int, color drawing.Color) {
	half := max((c.along(1)-c.along(0))*2/5, 1)
	c.pen(color, 1)
	for _, p := range points {
		c.SetFillColor(color)
		c.rectangle(p[0]-half, min(p[1], c.bottom-2), p[0]+half, c.bottom)
		c.FillStroke()
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// along and across return where a value lies.
func (c *canvas) along(v float64) int {
	return c.left + int(math.Round(c.x.share(v)*float64(c.right-c.left)))
}

func (c *canvas) across(a axis, v float64) int {
	return c.bottom - int(math.Round(a.share(v)*float64(c.bottom-c.top)))
}

// pen sets what lines look like. They surround nothing.
func (c *canvas) pen(color drawing.Color, wide float64) {
	c.SetFillColor(drawing.ColorTransparent)
	c.SetStrokeColor(color)
	c.SetStrokeWidth(wide)
}

func (c *canvas) line(x0, y0, x1, y1 int) {
	c.MoveTo(x0, y0)
	c.LineTo(x1, y1)
	c.Stroke()
}

func (c *canvas) rectangle(x0, y0, x1, y1 int) {
	c.MoveTo(x0, y0)
	c.LineTo(x1, y0)
	c.LineTo(x1, y1)
	c.LineTo(x0, y1)
	c.LineTo(x0, y0)
	c.Close()
}

func (c *canvas) width(text string) int {
	if text == "" {
		return 0
	}
	return c.MeasureText(text).Width()
}

func (c *canvas) widest(a axis) (most int) {
	for _, t := range a.ticks {
		most = max(most, c.width(t.Label))
	}
	return most
}

func (c *canvas) centred(text string, x, y int) { c.Text(text, x-c.width(text)/2, y) }

// fitted leaves out the middle of a text that is too wide.
func (c *canvas) fitted(text string, room int) string {
	r := []rune(text)
	for n := len(r); n > 8 && c.width(text) > room; {
		n = n * 9 / 10
		text = string(r[:n/2]) + "..." + string(r[len(r)-n/2:])
	}
	return text
}

// axis is a range of numbers with the marks in it.
type axis struct {
	name      string
	low, high float64
	ticks     []Tick
}

// share returns where in the range a value lies: from 0 to 1.
func (a axis) share(v float64) float64 { return (v - a.low) / (a.high - a.low) }

// below is the axis of x. Numbers that are all whole have whole marks.
func (p *Plot) below() axis {
	low, high, whole := span(p.Curves, func(c Curve) []float64 { return c.X })
	if p.Ticks == nil {
		return axis{p.Bottom, low, high, round(low, high, 12, whole)}
	}
	a := axis{p.Bottom, low, high, p.Ticks}
	for _, t := range p.Ticks {
		a.low, a.high = min(a.low, t.At), max(a.high, t.At)
	}
	if p.Bars {
		a.low, a.high = a.low-0.5, a.high+0.5
	}
	return a
}

// axis is the axis of the curves on one side; without ticks where there are none.
func (p *Plot) axis(name string, left bool) axis {
	var curves []Curve
	for _, c := range p.Curves {
		if c.Left == left && len(c.Y) > 0 {
			curves = append(curves, c)
		}
	}
	if curves == nil {
		return axis{low: 0, high: 1}
	}
	low, high, _ := span(curves, func(c Curve) []float64 { return c.Y })
	if p.Bars {
		low = min(low, 0)
	}
	return axis{name, low, high, round(low, high, 9, false)}
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

// round returns marks at multiples of 1, 2 or 5 times a power of ten, at most so many.
func round(low, high float64, most int, whole bool) (ticks []Tick) {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(most))))
	for _, times := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*times) <= float64(most) {
			step *= times
			break
		}
	}
	if whole {
		step = max(step, 1)
	}
	for k := math.Ceil(low/step - 1e-9); k*step <= high+step*1e-9; k++ {
		ticks = append(ticks, Tick{k * step, number(k*step, step)})
	}
	return ticks
}

// number writes a multiple of a step with the digits that tell it from the next.
func number(v, step float64) string {
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	if magnitude := math.Abs(v); digits > 6 || magnitude >= 1e9 {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return strconv.FormatFloat(v+0, 'f', digits, 64) // -0 is 0
}
