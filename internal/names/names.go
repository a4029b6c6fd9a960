// Package names has the rule for names of what is in a dataset: types, relations, columns, lists of strings, splits.
// docs/format.md ("Names") states it, and every door of khop keeps it.
package names

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/khop-gnn/khop/internal/paths"
)

// Most is the most bytes that a name has.
const Most = 4096

// The errors of names. Package graph has them for its users.
var (
	ErrSchema = errors.New("invalid schema")
	ErrText   = errors.New("not UTF-8")
)

// reservedSigns stand between names on command lines and in texts, or between a name and its value.
const reservedSigns = ":;=,"

// Check refuses what cannot be a name of anything in a dataset. what says what the name is of. ErrSchema, with the
// reason.
func Check(what, name string) error {
	if at := paths.NotText(name); at < len(name) {
		return fmt.Errorf("%w: %s %.100q: a name must be text, and byte %d of it, 0x%02x, is %w", ErrSchema, what, name,
			at, name[at], ErrText)
	}
	if problem := nameProblem(name); problem != "" {
		return fmt.Errorf("%w: %s %.100q: a name %s", ErrSchema, what, name, problem)
	}
	return nil
}

// Follow returns the name of the column that is not 0 for the edges which a split of links may follow: train_graph, or
// train_graph_1 for the split of index 1.
func Follow(split string, index int) string {
	if index > 0 {
		return fmt.Sprintf("%s_graph_%d", split, index)
	}
	return split + "_graph"
}

// nameProblem says what a name must not, or nothing.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case len(name) > Most:
		return fmt.Sprintf("has at most %d bytes, not %d", Most, len(name))
	}
	// programs that normalise names would see the sign
	if at := strings.IndexAny(norm.NFC.String(name), reservedSigns); at >= 0 {
		return "must not contain any of " + strings.Join(strings.Split(reservedSigns, ""), " ")
	}
	if at := strings.IndexFunc(name, unprintable); at >= 0 {
		r, _ := utf8.DecodeRuneInString(name[at:])
		return fmt.Sprintf("must not contain %U, which controls how text is shown", r)
	}
	return ""
}

// Clean makes a name of a word that a source has: what a name must not contain becomes "_". A word that is not
// UTF-8 stays as it is, and Check refuses it.
func Clean(word string) string {
	if !utf8.ValidString(word) {
		return word
	}
	return strings.Map(func(r rune) rune {
		if unprintable(r) || strings.ContainsAny(norm.NFC.String(string(r)), reservedSigns) {
			return '_'
		}
		return r
	}, word)
}

// unprintable tells the signs by which a name would change the text around it: control characters, ends of lines,
// directions of writing, the byte order mark.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) || r == '\uFEFF'
}

// Set has the names of one place, such as the columns of a node type, by how they look. The zero value has none.
type Set map[string]string

// Add takes a name into account. ErrSchema if Check refuses it, or if it looks like another one there and is not
// equal to it: if both have the same normal form (NFC), but for signs that nobody sees.
func (n *Set) Add(what, name string) error {
	if err := Check(what, name); err != nil {
		return err
	}
	look := norm.NFC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name))
	if other, there := (*n)[look]; there && other != name {
		return fmt.Errorf("%w: %s %+.100q looks like %+.100q, but is another name: rename one of them", ErrSchema, what,
			name, other)
	}
	if *n == nil {
		*n = Set{}
	}
	(*n)[look] = name
	return nil
}
