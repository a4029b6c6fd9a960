package plot

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strings"
)

// Style is for pages that have plots: their inks in the dark, and their font. A picture that is a file has it, too.
// Programs that do not know it take the light inks, which are attributes.
func Style() string {
	var b strings.Builder
	b.WriteString(".kp { font-family: system-ui, sans-serif; }\n@media (prefers-color-scheme: dark) {\n")
	for i, of := range colours {
		fmt.Fprintf(&b, ".kp .f%d { fill: #%s; } .kp .s%[1]d { stroke: #%[2]s; }\n", i, of.dark)
	}
	b.WriteString("}\n")
	return b.String()
}

// SVG writes the sheet as SVG.
func (s Sheet) SVG(w io.Writer) error {
	if _, err := io.WriteString(w, "<!-- "+mark+" -->\n"); err != nil {
		return err
	}
	return s.vector(w, width, height, "<style>"+Style()+"</style>\n")
}

// Inline writes the plot as an element of a page that has Style.
func (p *Plot) Inline(w io.Writer, wide, high int) error { return Sheet{p}.vector(w, wide, high, "") }

func (s Sheet) vector(to io.Writer, wide, high int, style string) error {
	w := bufio.NewWriter(to)
	var titles []string
	for _, p := range s {
		title := p.Title
		for i, c := range p.Curves {
			title += []string{": ", ", "}[min(i, 1)] + c.Name
		}
		titles = append(titles, title)
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" class="kp" viewBox="0 0 %d %d" width="%d" height="%[2]d" `+
		"role=\"img\" aria-label=\"%[4]s\">\n%s", wide, high*max(len(s), 1), wide,
		html.EscapeString(strings.Join(titles, "; ")), style)
	for i, p := range s {
		p.draw(&vector{w, newRaster(1, 1), i * high}, wide, high)
	}
	_, _ = w.WriteString("</svg>\n")
	return w.Flush()
}

// vector is a surface of SVG.
type vector struct {
	to    io.Writer
	fonts *raster
	down  int // where the picture begins
}

func (v *vector) line(points [][2]int, of ink, wide, gaps int) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(v.to, `<path class="s%d" fill="none" stroke="#%s" stroke-width="%d"`, of, colours[of].light, wide)
	if gaps > 0 {
		fmt.Fprintf(v.to, ` stroke-dasharray="%d %d"`, dash, gaps)
	}
	for i, p := range points {
		fmt.Fprintf(v.to, "%s%d %d", []string{` d="M`, "L"}[min(i, 1)], p[0], p[1]+v.down)
	}
	fmt.Fprint(v.to, "\"/>\n")
}

func (v *vector) box(x0, y0, x1, y1 int, of ink) {
	fmt.Fprintf(v.to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"%s/>\n", x0, y0+v.down, x1-x0, y1-y0,
		filled(of))
}

func (v *vector) dot(x, y, radius int, of ink) {
	fmt.Fprintf(v.to, "<circle cx=\"%d\" cy=\"%d\" r=\"%d\"%s/>\n", x, y+v.down, radius, filled(of))
}

func (v *vector) text(text string, x, y, size int, of ink) {
	if text != "" {
		fmt.Fprintf(v.to, "<text x=\"%d\" y=\"%d\" font-size=\"%d\"%s>%s</text>\n", x, y+v.down, size, filled(of),
			html.EscapeString(text))
	}
}

// width is more than that of the library's font: who looks at the picture may have a wider one.
func (v *vector) width(text string, size int) int { return v.fonts.width(text, size) * 6 / 5 }

// filled is the attributes of what an ink fills.
func filled(of ink) string { return fmt.Sprintf(` class="f%d" fill="#%s"`, of, colours[of].light) }
