package source

import (
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/formats"
)

// The changes of a note. All but Said are guesses, or lose something: who wants none of them says so by the option
// Strict, and names by other options what is meant.
const (
	Said       = "said"       // nothing is changed, or an option asks for it
	LeftOut    = "left out"   // the dataset does not have it
	Guessed    = "guessed"    // the source does not say what it is
	Renumbered = "renumbered" // ids are others
	Doubled    = "doubled"    // there are more edges
	Altered    = "altered"    // values are others, or stand where there were none
	Shared     = "shared"     // splits have the same nodes
)

// Note is what a person should know of a conversion.
type Note = formats.Note

// Note adds a note about what is as it should be.
func (g *Graph) Note(format string, args ...any) { g.Tell(Said, "", 0, format, args...) }

// Tell adds a note about a change to count things of a name.
func (g *Graph) Tell(change, name string, count int64, format string, args ...any) {
	g.Notes = append(g.Notes, Note{Change: change, Name: name, Count: count, Text: fmt.Sprintf(format, args...)})
}

// Text returns notes a line each.
func Text(notes []Note) string {
	var b strings.Builder
	for i, n := range notes {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(n.Text)
	}
	return b.String()
}

// Adopt adds the notes of a part of the graph, whose texts then begin with what the part is.
func (g *Graph) Adopt(part string, notes []Note) {
	for _, n := range notes {
		n.Text = part + ": " + n.Text
		g.Notes = append(g.Notes, n)
	}
}
