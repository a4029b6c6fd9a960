// Package plot draws curves as SVG.
//
// A Plot is data, which may come as JSON, and Write draws it by a library. Its x-axis is linear: who wants powers gives
// logarithms, and Ticks that say what they stand for.
package plot

import (
	"html"
	"io"
	"math"
	"strconv"

	"github.com/wcharczuk/go-chart/v2"

	"github.com/khop-gnn/khop/internal/wholefile"
)

// Plot is what an SVG shows.
type Plot struct {
	Title  string  `json:"title"`
	Bottom string  `json:"bottom"` // what stands at an axis
	Left   string  `json:"left"`
	Right  string  `json:"right"`
	Ticks  []Tick  `json:"ticks"` // of the axis below; none: as they come
	Curves []Curve `json:"curves"`
}

// Tick is a mark of an axis.
type Tick struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

// Curve is a line of a plot.
type Curve struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
	Left bool      `json:"left"` // it belongs to the axis on the left
}

// Add appends a point.
func (c *Curve) Add(x, y float64) { c.X, c.Y = append(c.X, x), append(c.Y, y) }

// mark is how files that Write makes begin.
const mark = "<!-- drawn by khop -->\n"

// Ours reports whether a file that begins so is a plot that Write has drawn.
var Ours = wholefile.Begins(mark)

// Write draws the plot as SVG.
func (p *Plot) Write(w io.Writer) error {
	var ticks []chart.Tick
	for _, t := range p.Ticks {
		ticks = append(ticks, chart.Tick{Value: t.At, Label: html.EscapeString(t.Label)})
	}
	c := chart.Chart{Title: html.EscapeString(p.Title), Width: 800, Height: 480,
		Background: chart.Style{Padding: chart.Box{Top: 60, Left: 30, Right: 30, Bottom: 20}},
		XAxis: chart.XAxis{Name: p.Bottom, Ticks: ticks, ValueFormatter: shortNumber,
			Range: p.span(xOf, nil)},
		YAxis:          chart.YAxis{Name: p.Right, ValueFormatter: shortNumber, Range: p.span(yOf, onRight)},
		YAxisSecondary: chart.YAxis{Name: p.Left, ValueFormatter: shortNumber, Range: p.span(yOf, onLeft)}}
	for i, line := range p.Curves {
		color := chart.GetDefaultColor(i)
		s := chart.ContinuousSeries{Name: line.Name, XValues: line.X, YValues: line.Y,
			Style: chart.Style{StrokeColor: color, StrokeWidth: 2}}
		if len(line.X) < 20 {
			s.Style.DotColor, s.Style.DotWidth = color, 3
		}
		if line.Left {
			s.YAxis = chart.YAxisSecondary
		}
		c.Series = append(c.Series, s)
	}
	c.Elements = []chart.Renderable{chart.LegendThin(&c)}
	if _, err := io.WriteString(w, mark); err != nil {
		return err
	}
	return c.Render(chart.SVG, w)
}

func xOf(c Curve) []float64    { return c.X }
func yOf(c Curve) []float64    { return c.Y }
func onLeft(c Curve) bool      { return c.Left }
func onRight(c Curve) bool     { return !c.Left }
func shortNumber(v any) string { return strconv.FormatFloat(v.(float64), 'g', 3, 64) }

// span returns the range of the values of some curves, which is never empty.
func (p *Plot) span(of func(Curve) []float64, which func(Curve) bool) chart.Range {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range p.Curves {
		if which == nil || which(c) {
			for _, v := range of(c) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if !(low < high) {
		low, high = low-0.5, high+0.5
	}
	if low > high { // no curve
		low, high = 0, 1
	}
	return &chart.ContinuousRange{Min: low, Max: high}
}
