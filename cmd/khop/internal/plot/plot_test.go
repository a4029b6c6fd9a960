package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// watched is a surface that notes where texts lie.
type watched struct {
	surface
	texts []string
	boxes []image.Rectangle
}

func (w *watched) text(text string, x, y, size int, of ink) {
	if text != "" {
		w.texts = append(w.texts, text)
		w.boxes = append(w.boxes, image.Rect(x, y-size*3/4, x+w.width(text, size), y))
	}
	w.surface.text(text, x, y, size, of)
}

// drawn makes a plot of some curves, with numbers of any size.
func drawn(r *rand.Rand) *Plot {
	word := func() string { return strings.Repeat("word ", 10)[:2+r.IntN(45)] }
	p := &Plot{Title: strings.Repeat("/a folder", 1+r.IntN(30)), Bottom: word(), Left: word(), Right: word(),
		Bars: r.IntN(3) == 0, Log: r.IntN(3) == 0}
	n := []int{0, 1, 2, 12, 300}[r.IntN(5)]
	scale, base := math.Pow(10, float64(r.IntN(24)-12)), float64(r.IntN(3))*math.Pow(10, float64(r.IntN(12)))
	for range r.IntN(6) {
		c := Curve{Name: word(), Left: r.IntN(2) == 0}
		for i := range n {
			c.Add(float64(i+1), base+scale*(r.Float64()-0.3))
		}
		p.Curves = append(p.Curves, c)
	}
	for i := range r.IntN(2) * r.IntN(40) {
		p.Ticks = append(p.Ticks, Tick{float64(i), fmt.Sprint(1 << i)})
	}
	return p
}

// TestNoTextLiesOnAnother draws plots, and looks where their texts lie.
func TestNoTextLiesOnAnother(t *testing.T) {
	r := rand.New(rand.NewPCG(40, 1))
	for i := range 40 {
		p := drawn(r)
		wide, high := width, height
		w := &watched{surface: &vector{io.Discard, newRaster(1, 1), 0}}
		switch {
		case i%10 == 0: // which takes longer
			w.surface = newRaster(width, height)
		case i%2 == 0: // of a page
			wide, high = 440, 300
		}
		p.draw(w, wide, high)
		for j, b := range w.boxes {
			expect.That(t, b.In(image.Rect(0, 0, wide, high)), "plot %d: %q is cut at %v", i, w.texts[j], b)
			for k, other := range w.boxes[:j] {
				expect.That(t, !b.Overlaps(other), "plot %d: %q at %v lies on %q at %v", i, w.texts[j], b, w.texts[k],
					other)
			}
		}
	}
}

// TestEpochsAreWhole looks at the marks of whole numbers.
func TestEpochsAreWhole(t *testing.T) {
	for _, n := range []int{1, 2, 3, 12, 20, 99, 100, 1234} {
		c := Curve{}
		for i := range n {
			c.Add(float64(i+1), 1)
		}
		a := (&Plot{Curves: []Curve{c}}).below()
		expect.That(t, len(a.ticks) > 0 && len(a.ticks) <= 13, "%d epochs have %d marks", n, len(a.ticks))
		for _, tick := range a.ticks {
			label := strings.ReplaceAll(tick.Label, ",", "")
			whole := tick.At == math.Trunc(tick.At) && label == fmt.Sprint(int(tick.At))
			expect.That(t, whole, "%v of %d", tick, n)
		}
	}
}

// TestPicturesAreOfTheirKind reads back what is written.
func TestPicturesAreOfTheirKind(t *testing.T) {
	line := Curve{Name: "one", X: []float64{1, 2, 3}, Y: []float64{1, math.NaN(), 2}}
	p := &Plot{Title: "a <b> & c", Curves: []Curve{line}}
	var svg, picture bytes.Buffer
	s := Sheet{p, p}
	expect.OK(t, s.Draw("x.svg")(&svg), s.Draw("x.PNG")(&picture))
	expect.OK(t, xml.Unmarshal(svg.Bytes(), new(struct{})))
	at := expect.Must(png.Decode(bytes.NewReader(picture.Bytes())))(t).Bounds()
	expect.Same(t, at, image.Rect(0, 0, width, 2*height), "the picture's size")
	for _, b := range [][]byte{svg.Bytes(), picture.Bytes()} {
		expect.That(t, Ours(b[:min(len(b), 512)]), "its beginning does not say who drew it: %.99q", b)
	}
	expect.That(t, !Ours([]byte("\x89PNG\r\n")), "a picture of somebody else is taken for an own one")
}

// A curve that goes where another does is dashed, and its points are smaller: what is below shows.
func TestNoCurveHidesAnother(t *testing.T) {
	x := []float64{1, 2, 3}
	for _, c := range []struct {
		first, second []float64
		dashed        bool
	}{
		{[]float64{5, 6, 7}, []float64{5, 6, 9}, true},
		{[]float64{5, 6, 7}, []float64{5, 6.001, 7}, true},
		{[]float64{5, 6, 7}, []float64{7, 6, 5}, false},
		{[]float64{1, 2, 3}, []float64{7, 8, 9}, false},
		{[]float64{math.NaN(), 6, 7}, []float64{math.NaN(), 1, 2}, false},
	} {
		p := &Plot{Curves: []Curve{{Name: "one", X: x, Y: c.first}, {Name: "two", X: x, Y: c.second}}}
		var b strings.Builder
		expect.OK(t, Sheet{p}.SVG(&b))
		dashes, larger := strings.Count(b.String(), "stroke-dasharray"), strings.Count(b.String(), `r="5"`)
		want := map[bool][2]int{true: {2, 3}}[c.dashed] // the curve and its sample
		expect.Same(t, [2]int{dashes, larger}, want, fmt.Sprint(c))
	}
}

func TestPowersOfTenAreWrittenOut(t *testing.T) {
	p := &Plot{Bars: true, Log: true, Curves: []Curve{{X: []float64{0, 1}, Y: []float64{1, 4321}}},
		Ticks: []Tick{{0, "a"}, {1, "b"}}}
	var b strings.Builder
	expect.OK(t, Sheet{p}.SVG(&b))
	for _, want := range []string{">1<", ">10<", ">100<", ">1,000<", ">4,321<"} {
		expect.That(t, strings.Contains(b.String(), want), "it lacks %s: %s", want, &b)
	}
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 99.94: "99.9", 123456: "123,456", -1234: "-1,234",
		1e-9: "1e-09", 2e15: "2e+15"} {
		expect.Same(t, amount(v), want)
	}
}
