// Package plot draws curves as SVG or PNG.
//
// A Plot is data, which may come as JSON. The x-axis is linear: who wants powers gives logarithms, and Ticks that say
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

// Draw returns what writes the plot to a file of that name: as PNG if it ends in .png, else as SVG.
func (p *Plot) Draw(path string) func(io.Writer) error {
	if strings.EqualFold(filepath.Ext(path), ".png") {
		return p.PNG
	}
	return p.SVG
}

// SVG writes the plot as SVG.
func (p *Plot) SVG(w io.Writer) error {
	if _, err := io.WriteString(w, "<!-- "+mark+" -->\n"); err != nil {
		return err
	}
	r, err := chart.SVG(width, height)
	if err != nil {
		return err
	}
	return p.draw(escaped{r}).Save(w)
}

// PNG writes the plot as PNG.
func (p *Plot) PNG(w io.Writer) error {
	r, err := chart.PNG(width, height)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := p.draw(r).Save(&b); err != nil {
		return err
	}
	const head = 33 // bytes of the signature and the first chunk
	_, err = w.Write(append(append(b.Bytes()[:head:head], textChunk("Software", mark)...), b.Bytes()[head:]...))
	return err
}

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
