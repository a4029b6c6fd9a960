package plot

import (
	"math"
)

// The measures of a picture, in pixels.
const (
	width, height = 800, 480
	margin        = 14
	lineHeight    = 18
	gap           = 6  // between a tick and its label
	sample        = 26 // length of the line beside a name
	titleSize     = 16
	textSize      = 12
	fewPoints     = 20 // a line of fewer has its points marked
	fewBars       = 12 // fewer bars have their numbers above them
	near          = 3  // lines that are not further apart hide one another
	dash          = 6  // length of a dash
	markEvery     = 48 // a mark at the axes of y
)

// ink is a colour by what it is for; from curves on, those of lines.
type ink int

const (
	paper ink = iota
	strong
	soft
	grid
	curves
)

// colours are the inks on light pages, and on dark ones.
var colours = []struct{ light, dark string }{{"fff", "1e242e"}, {"1d2433", "e8ebf1"}, {"596275", "a3adbf"},
	{"dfe3ea", "353d4b"}, {"1f5fbf", "7fb0ff"}, {"b84a00", "ffa45c"}, {"00756a", "45cdbb"}, {"9c2785", "ee90de"},
	{"6a6400", "d3cd52"}, {"4b5263", "c3c9d6"}}

// inkOf is the ink of a line.
func inkOf(curve int) ink { return curves + ink(curve%(len(colours)-int(curves))) }

// surface is what pictures are drawn on, in pixels from the upper left corner.
type surface interface {
	// line draws a line through points, dashed where gaps are not 0 pixels long.
	line(points [][2]int, of ink, wide, gaps int)
	box(x0, y0, x1, y1 int, of ink)
	dot(x, y, radius int, of ink)
	text(text string, x, y, size int, of ink)
	width(text string, size int) int
}

// canvas is a picture that is being drawn.
type canvas struct {
	surface
	p                        *Plot
	wide, high               int
	top, bottom, left, right int // of the box of the curves
	x                        axis
	y                        [2]axis // right and left
	alone                    bool    // no curve asks for the axis on the left, so all have it
}

// draw draws the plot: from above the title, the names of curves, those of the axes, the box.
func (p *Plot) draw(on surface, wide, high int) {
	c := &canvas{surface: on, p: p, wide: wide, high: high, x: p.below()}
	c.box(0, 0, wide, high, paper)
	c.y = [2]axis{p.axis(p.Right, false, high/markEvery), p.axis(p.Left, true, high/markEvery)}
	if c.alone = c.y[1].ticks == nil; c.alone {
		c.y[0], c.y[1] = c.y[1], c.y[0]
	}
	at := margin
	if p.Title != "" {
		at += lineHeight
		c.text(c.fitted(p.Title, wide-2*margin, titleSize), margin, at, titleSize, strong)
	}
	names := at + lineHeight + gap
	if len(p.Curves) > 1 {
		at = c.names(nil, names)
	}
	at += lineHeight
	c.top, c.bottom = at+gap+4, high-margin-2*lineHeight
	if c.labelled() {
		c.top += lineHeight
	}
	c.left, c.right = margin+c.widest(c.y[1])+gap, wide-margin-c.widest(c.y[0])-gap
	room := wide/2 - 2*margin
	right := c.fitted(c.y[0].name, room, textSize)
	if c.alone {
		room = wide - 2*margin
	}
	c.say(c.fitted(c.y[1].name, room, textSize), margin, at)
	c.say(right, wide-margin-c.long(right), at)
	c.centred(c.fitted(c.x.name, c.right-c.left, textSize), (c.left+c.right)/2, high-margin)
	c.axes()
	lines := c.lines()
	if len(p.Curves) > 1 {
		c.names(lines, names)
	}
	if p.Bars {
		c.bars(lines)
		return
	}
	for i, l := range lines {
		c.curve(l, inkOf(i))
	}
}

func (c *canvas) long(text string) int { return c.width(text, textSize) }

func (c *canvas) say(text string, x, y int) { c.text(text, x, y, textSize, soft) }

func (c *canvas) centred(text string, x, y int) { c.say(text, x-c.long(text)/2, y) }

// names writes what the colours of lines stand for, row by row, and returns where the last row is. Without lines it
// writes nothing.
func (c *canvas) names(lines []curve, y int) int {
	x := margin
	for i, line := range c.p.Curves {
		name := c.fitted(line.Name, c.wide/2, textSize)
		need := sample + gap + c.long(name)
		if x > margin && x+need > c.wide-margin {
			x, y = margin, y+lineHeight
		}
		if lines != nil {
			c.line([][2]int{{x, y - 4}, {x + sample, y - 4}}, inkOf(i), 2, lines[i].under*dash)
			c.dot(x+sample/2, y-4, 3, inkOf(i))
			c.text(name, x+sample+gap, y, textSize, strong)
		}
		x += need + 3*gap
	}
	return y
}

// axes draws the ground with its ticks and their labels.
func (c *canvas) axes() {
	for i, a := range c.y {
		for _, t := range a.ticks {
			y := c.across(a, t.At)
			if i == 0 {
				c.line([][2]int{{c.right, y}, {c.right + 3, y}}, soft, 1, 0)
				c.say(t.Label, c.right+gap, y+4)
			} else {
				c.line([][2]int{{c.left, y}, {c.right, y}}, grid, 1, 0)
				c.say(t.Label, c.left-gap-c.long(t.Label), y+4)
			}
		}
	}
	c.line([][2]int{{c.left, c.bottom}, {c.right, c.bottom}}, soft, 1, 0)
	free := 0 // no label of the axis below has been written from here on
	for _, t := range c.x.ticks {
		label := t.Label
		if c.p.Bars {
			label = c.fitted(label, max(c.along(1)-c.along(0)-gap, 6*titleSize), textSize)
		}
		x, half := c.along(t.At), c.long(label)/2
		c.line([][2]int{{x, c.bottom}, {x, c.bottom + 3}}, soft, 1, 0)
		if x-half >= free && x+half <= c.wide {
			c.say(label, x-half, c.bottom+lineHeight)
			free = x + half + gap
		}
	}
}

// curve is where a line goes.
type curve struct {
	points      [][2]int
	marked      bool
	under, over int // how many lines that are drawn before and after go where it goes
}

// lines returns where the curves go.
func (c *canvas) lines() []curve {
	list := make([]curve, len(c.p.Curves))
	for i, line := range c.p.Curves {
		a := c.y[0]
		if line.Left || c.alone {
			a = c.y[1]
		}
		list[i].marked = len(line.X) < fewPoints
		for j, x := range line.X {
			if j < len(line.Y) && finite(a.scale(line.Y[j])) {
				list[i].points = append(list[i].points, [2]int{c.along(x), c.across(a, line.Y[j])})
			}
		}
		for j := range list[:i] {
			if hides(list[i].points, list[j].points) {
				list[i].under++
				list[j].over++
			}
		}
	}
	return list
}

// hides reports whether a line goes where another does from one point to the next.
func hides(line, other [][2]int) bool {
	at := map[int]int{}
	for _, p := range other {
		at[p[0]] = p[1]
	}
	before := false
	for _, p := range line {
		y, both := at[p[0]]
		now := both && max(p[1]-y, y-p[1]) <= near
		if now && before {
			return true
		}
		before = now
	}
	return false
}

// curve draws a line, and its points where they are few. What it would hide shows in its gaps, and around its points.
func (c *canvas) curve(l curve, of ink) {
	c.line(l.points, of, 2, l.under*dash)
	if !l.marked {
		return
	}
	for _, p := range l.points {
		c.dot(p[0], p[1], 3+2*l.over, of)
	}
}

// labelled reports whether bars have their numbers above them.
func (c *canvas) labelled() bool {
	return c.p.Bars && len(c.p.Curves) == 1 && len(c.p.Curves[0].X) <= fewBars
}

// bars draws a bar from below to each point, which is there also where the point is lowest.
func (c *canvas) bars(lines []curve) {
	slot := c.along(1) - c.along(0)
	half := max(slot*2/5, 1)
	for i, l := range lines {
		for _, p := range l.points {
			c.box(p[0]-half, min(p[1], c.bottom-2), p[0]+half, c.bottom, inkOf(i))
		}
	}
	if !c.labelled() {
		return
	}
	for i, x := range c.p.Curves[0].X {
		y := c.p.Curves[0].Y[i]
		label := amount(y)
		if at := c.across(c.y[1], y); finite(c.y[1].scale(y)) && c.long(label) < slot {
			c.text(label, c.along(x)-c.long(label)/2, min(at, c.bottom-2)-4, textSize, strong)
		}
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

func (c *canvas) widest(a axis) (most int) {
	for _, t := range a.ticks {
		most = max(most, c.long(t.Label))
	}
	return most
}

// fitted leaves out the middle of a text that is too wide.
func (c *canvas) fitted(text string, room, size int) string {
	r := []rune(text)
	for n := len(r); n > 8 && c.width(text, size) > room; {
		n = n * 9 / 10
		text = string(r[:n/2]) + "..." + string(r[len(r)-n/2:])
	}
	return text
}
