package main

import (
	"html"
	"io"
	"math"
	"strconv"

	"github.com/wcharczuk/go-chart/v2"

	"github.com/khop-gnn/khop/integrations/gnn"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/sparse"
)

// curve is a line of a plot.
type curve struct {
	name string
	x, y []float64
	left bool // it belongs to the axis on the left
}

func (c *curve) add(x, y float64) { c.x, c.y = append(c.x, x), append(c.y, y) }

// plot is what an SVG shows.
type plot struct {
	title, bottom, left, right string // what stands there
	ticks                      []chart.Tick
	curves                     []curve
}

// save draws a plot to a file.
func (p *plot) save(path string) error {
	c := chart.Chart{Title: html.EscapeString(p.title), Width: 800, Height: 480,
		Background: chart.Style{Padding: chart.Box{Top: 60, Left: 30, Right: 30, Bottom: 20}},
		XAxis: chart.XAxis{Name: p.bottom, Ticks: p.ticks, ValueFormatter: shortNumber,
			Range: p.span(xOf, nil)},
		YAxis:          chart.YAxis{Name: p.right, ValueFormatter: shortNumber, Range: p.span(yOf, onRight)},
		YAxisSecondary: chart.YAxis{Name: p.left, ValueFormatter: shortNumber, Range: p.span(yOf, onLeft)}}
	for i, line := range p.curves {
		color := chart.GetDefaultColor(i)
		s := chart.ContinuousSeries{Name: line.name, XValues: line.x, YValues: line.y,
			Style: chart.Style{StrokeColor: color, StrokeWidth: 2}}
		if len(line.x) < 20 {
			s.Style.DotColor, s.Style.DotWidth = color, 3
		}
		if line.left {
			s.YAxis = chart.YAxisSecondary
		}
		c.Series = append(c.Series, s)
	}
	c.Elements = []chart.Renderable{chart.LegendThin(&c)}
	return wholefile.Replace(path, 0o644, func(w io.Writer) error { return c.Render(chart.SVG, w) })
}

func xOf(c curve) []float64    { return c.x }
func yOf(c curve) []float64    { return c.y }
func onLeft(c curve) bool      { return c.left }
func onRight(c curve) bool     { return !c.left }
func shortNumber(v any) string { return strconv.FormatFloat(v.(float64), 'g', 3, 64) }

// span returns the range of the values of some curves, which is never empty.
func (p *plot) span(of func(curve) []float64, which func(curve) bool) chart.Range {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range p.curves {
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

// learningCurves draws loss and accuracies by epoch.
func learningCurves(title string, points []gnn.Point) *plot {
	loss := curve{name: "loss", left: true}
	train, val, test := curve{name: "training"}, curve{name: "validation"}, curve{name: "test"}
	for _, p := range points {
		x := float64(p.Epoch)
		loss.add(x, p.Loss)
		train.add(x, p.Train)
		val.add(x, p.Val)
		test.add(x, p.Test)
	}
	return &plot{title: title, bottom: "epoch", left: "loss", right: "accuracy",
		curves: []curve{loss, train, val, test}}
}

// speedUps draws the speed-up over the untuned plan by width: a line without values of edges, one with them.
func speedUps(tuned []sparse.Tuned) *plot {
	without, with := curve{name: "without values"}, curve{name: "with values"}
	p := &plot{title: "speed-up over the untuned kernel, by width", bottom: "width", right: "speed-up"}
	for _, t := range tuned {
		line, x := &without, math.Log2(float64(t.Width))
		if t.Weighted {
			line = &with
		} else {
			p.ticks = append(p.ticks, chart.Tick{Value: x, Label: strconv.FormatInt(t.Width, 10)})
		}
		line.add(x, speedUp(t))
	}
	p.curves = []curve{without, with}
	return p
}
