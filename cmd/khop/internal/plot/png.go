package plot

import (
	"bytes"
	"io"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// PNG writes the sheet as PNG.
func (s Sheet) PNG(w io.Writer) error {
	r := newRaster(width, height*max(len(s), 1))
	for i, p := range s {
		r.down = i * height
		p.draw(r, width, height)
	}
	var b bytes.Buffer
	if err := r.r.Save(&b); err != nil {
		return err
	}
	const head = 33 // bytes of the signature and the first chunk
	_, err := w.Write(append(append(b.Bytes()[:head:head], textChunk("Software", mark)...), b.Bytes()[head:]...))
	return err
}

// raster is a surface of pixels.
type raster struct {
	r    chart.Renderer
	down int // where the picture begins
}

func newRaster(wide, high int) *raster {
	r, _ := chart.PNG(wide, high) // which never fails
	if font, err := chart.GetDefaultFont(); err == nil {
		r.SetFont(font)
	}
	return &raster{r: r}
}

func (r *raster) line(points [][2]int, of ink, wide, gaps int) {
	r.r.SetFillColor(drawing.ColorTransparent)
	r.r.SetStrokeColor(drawing.ColorFromHex(colours[of].light))
	r.r.SetStrokeWidth(float64(wide))
	if r.r.SetStrokeDashArray(nil); gaps > 0 {
		r.r.SetStrokeDashArray([]float64{dash, float64(gaps)})
	}
	for i, p := range points {
		if i == 0 {
			r.r.MoveTo(p[0], p[1]+r.down)
		} else {
			r.r.LineTo(p[0], p[1]+r.down)
		}
	}
	r.r.Stroke()
}

func (r *raster) box(x0, y0, x1, y1 int, of ink) {
	r.r.SetFillColor(drawing.ColorFromHex(colours[of].light))
	r.r.MoveTo(x0, y0+r.down)
	r.r.LineTo(x1, y0+r.down)
	r.r.LineTo(x1, y1+r.down)
	r.r.LineTo(x0, y1+r.down)
	r.r.Close()
	r.r.Fill()
}

func (r *raster) dot(x, y, radius int, of ink) {
	r.r.SetStrokeDashArray(nil)
	r.r.SetStrokeWidth(0)
	r.r.SetFillColor(drawing.ColorFromHex(colours[of].light))
	r.r.Circle(float64(radius), x, y+r.down)
	r.r.Fill()
}

func (r *raster) text(text string, x, y, size int, of ink) {
	r.r.SetFontColor(drawing.ColorFromHex(colours[of].light))
	r.r.SetFontSize(points(size))
	r.r.Text(text, x, y+r.down)
}

func (r *raster) width(text string, size int) int {
	if text == "" {
		return 0
	}
	r.r.SetFontSize(points(size))
	return r.r.MeasureText(text).Width()
}

// points is the size of a font in points.
func points(pixels int) float64 { return float64(pixels) * 72 / chart.DefaultDPI }
