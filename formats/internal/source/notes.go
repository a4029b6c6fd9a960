package source

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/option"
)

// The changes of a note. All but Said are guesses, or lose something: the option Strict refuses them, and other options
// state what is meant.
const (
	Said       = "said"       // nothing is changed, or an option asks for it
	LeftOut    = "left out"   // the dataset does not have it
	Guessed    = "guessed"    // the source does not say what it is
	Renumbered = "renumbered" // ids are others
	Renamed    = "renamed"    // a column has another name
	Doubled    = "doubled"    // there are more edges
	Altered    = "altered"    // values are others, or stand where there were none
	Shared     = "shared"     // splits have the same nodes
)

// Note is what a person should know of a conversion. Its text names options as Go does; Told has them as values.
type Note struct {
	formats.Note
	Told *option.Text
}

// NewNote makes a note about a change to count things of a name. Arguments may be an option.Name, or an error for %w.
func NewNote(change, name string, count int64, format string, args ...any) Note {
	told := option.Textf(format, args...)
	return Note{formats.Note{Change: change, Name: name, Count: count, Text: told.Error()}, told}
}

// Note adds a note about what is as it should be.
func (g *Graph) Note(format string, args ...any) { g.Tell(Said, "", 0, format, args...) }

// Tell adds a note about a change to count things of a name.
func (g *Graph) Tell(change, name string, count int64, format string, args ...any) {
	g.Notes = append(g.Notes, NewNote(change, name, count, format, args...))
}

// Spell returns notes with a door's names of options.
func Spell(notes []Note, spell func(option.Name) string) []formats.Note {
	list := make([]formats.Note, len(notes))
	for i, n := range notes {
		n.Text = option.Spell(n.Told, spell)
		list[i] = n.Note
	}
	return list
}

// Lines returns notes for a person: one line for those that follow one another and differ only in a name, which it has
// side by side.
func Lines(notes []formats.Note) (lines []string) {
	var before, after, names string // of the last line
	for i, n := range notes {
		head, tail, found := strings.Cut(n.Text, strconv.Quote(n.Name))
		same := found && i > 0 && names != "" && head == before && tail == after
		switch {
		case same && n.Name == notes[i-1].Name:
			continue
		case same:
			names += ", " + strconv.Quote(n.Name)
			lines[len(lines)-1] = before + names + after
			continue
		}
		if before, after, names = head, tail, ""; found {
			names = strconv.Quote(n.Name)
		}
		lines = append(lines, n.Text)
	}
	return lines
}

// Text returns notes a line each.
func Text[N fmt.Stringer](notes []N) string {
	var b strings.Builder
	for i, n := range notes {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(n.String())
	}
	return b.String()
}

// Adopt adds the notes of a part of the graph, whose texts then begin with what the part is.
func (g *Graph) Adopt(part string, notes []Note) {
	for _, n := range notes {
		g.Tell(n.Change, n.Name, n.Count, "%s: %w", part, n.Told)
	}
}
