// Package plot draws curves and bars as SVG or PNG.
//
// A Plot is data, which may come as JSON. Printed has those of what commands print.
//
// The x-axis is linear: who wants powers gives logarithms, and Ticks that say what they stand for. No text lies on
// another, and no curve hides another. A picture in SVG is dark where its reader's other pages are. A library draws
// lines and texts of a PNG, and knows how wide texts are.
package plot

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

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
	Log    bool    `json:"log"`  // powers of ten at the axes of y
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

// textChunk is a chunk of PNG that says something of the picture.
func textChunk(key, text string) []byte {
	body := "tEXt" + key + "\x00" + text
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4))
	return binary.BigEndian.AppendUint32(append(chunk, body...), crc32.ChecksumIEEE([]byte(body)))
}
