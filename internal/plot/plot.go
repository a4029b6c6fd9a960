// Package plot draws curves as SVG or PNG.
//
// A Plot is data, which may come as JSON. Printed has those of what commands print.
//
// The x-axis is linear: who wants powers gives logarithms, and Ticks that say
// what they stand for. A library draws lines and texts. This package says where they go, so that no text lies on
// another.
package plot

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"html"
	"io"
	"path/filepath"
	"strings"

	"github.com/wcharczuk/go-chart/v2"

	"github.com/khop-gnn/khop/internal/wholefile"
)

// Plot is what a picture shows.
type Plot struct {
	Title  string  `json:"title"`
	Bottom string  `json:"bottom"` // what stands at an axis
	Left   string  `json:"left"`
	Right  string  `json:"right"`
	Ticks  []Tick  `json:"ticks"` // of the axis below; none: round numbers
	Curves []Curve `json:"curves"`
	Bars   bool    `json:"bars"` // bars from below to points, in place of lines
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

// mark is in files that are drawn here, near the beginning.
const mark = "drawn by khop"

// Ours reports whether a file that begins so was drawn here.
func Ours(head []byte) bool { return bytes.Contains(head, []byte(mark)) }

// File returns the plot's file. It replaces a picture that was drawn here, any other file only with force, and none of
// those that were read (wholefile.Apart).
func File(path string, force bool, remedy string, read ...string) wholefile.Output {
	return wholefile.Output{Path: path, Mode: 0o644, Ours: Ours, Force: force, Else: remedy, From: read}
}

// Sheet is plots below one another, as one picture.
type Sheet []*Plot

// Draw returns what writes the sheet to a file of that name: as PNG if it ends in .png, else as SVG.
func (s Sheet) Draw(path string) func(io.Writer) error {
	if strings.EqualFold(filepath.Ext(path), ".png") {
		return s.PNG
	}
	return s.SVG
}

// SVG writes the sheet as SVG.
func (s Sheet) SVG(w io.Writer) error {
	if _, err := io.WriteString(w, "<!-- "+mark+" -->\n"); err != nil {
		return err
	}
	r, err := chart.SVG(width, height*max(len(s), 1))
	if err != nil {
		return err
	}
	s.draw(escaped{r})
	return r.Save(w)
}

// PNG writes the sheet as PNG.
func (s Sheet) PNG(w io.Writer) error {
	r, err := chart.PNG(width, height*max(len(s), 1))
	if err != nil {
		return err
	}
	s.draw(r)
	var b bytes.Buffer
	if err := r.Save(&b); err != nil {
		return err
	}
	const head = 33 // bytes of the signature and the first chunk
	_, err = w.Write(append(append(b.Bytes()[:head:head], textChunk("Software", mark)...), b.Bytes()[head:]...))
	return err
}

func (s Sheet) draw(r chart.Renderer) {
	for i, p := range s {
		p.draw(lowered{r, i * height})
	}
}

// lowered is a renderer whose picture begins further down.
type lowered struct {
	chart.Renderer
	by int
}

// MoveTo, LineTo, Circle and Text implement chart.Renderer.
func (l lowered) MoveTo(x, y int)                 { l.Renderer.MoveTo(x, y+l.by) }
func (l lowered) LineTo(x, y int)                 { l.Renderer.LineTo(x, y+l.by) }
func (l lowered) Circle(radius float64, x, y int) { l.Renderer.Circle(radius, x, y+l.by) }
func (l lowered) Text(body string, x, y int)      { l.Renderer.Text(body, x, y+l.by) }

// textChunk is a chunk of PNG that says something of the picture.
func textChunk(key, text string) []byte {
	body := "tEXt" + key + "\x00" + text
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4))
	return binary.BigEndian.AppendUint32(append(chunk, body...), crc32.ChecksumIEEE([]byte(body)))
}

// escaped is a renderer of SVG that takes any text, which the library puts into the file as it is.
type escaped struct{ chart.Renderer }

// MeasureText implements chart.Renderer. Who looks at the picture may have a wider font.
func (e escaped) MeasureText(text string) chart.Box {
	b := e.Renderer.MeasureText(text)
	b.Right += b.Width() / 5
	return b
}

// Text implements chart.Renderer.
func (e escaped) Text(text string, x, y int) { e.Renderer.Text(html.EscapeString(text), x, y) }
