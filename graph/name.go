package graph

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/khop-gnn/khop/internal/paths"
)

// MaxName is the most bytes that a name has.
const MaxName = 4096

// ErrText is returned for what must be text and is not.
var ErrText = errors.New("not UTF-8")

// reservedSigns stand between names on command lines and in texts, or between a name and its value.
const reservedSigns = ":;=,"

// CheckName refuses what cannot be a name of anything in a dataset: of a type, a relation, a column, a list of strings,
// a split. docs/format.md ("Names") has the rule, which every door of khop keeps. what says what the name is of.
// ErrSchema, with the reason.
func CheckName(what, name string) error {
	if at := paths.NotText(name); at < len(name) {
		return fmt.Errorf("%w: %s %.100q: a name must be text, and byte %d of it, 0x%02x, is %w", ErrSchema, what, name,
			at, name[at], ErrText)
	}
	if problem := nameProblem(name); problem != "" {
		return fmt.Errorf("%w: %s %.100q: a name %s", ErrSchema, what, name, problem)
	}
	return nil
}

// nameProblem says what a name must not, or nothing.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case len(name) > MaxName:
		return fmt.Sprintf("has at most %d bytes, not %d", MaxName, len(name))
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

// CleanName makes a name of a word that a source has: what a name must not contain becomes "_". A word that is not
// UTF-8 stays as it is, and CheckName refuses it.
func CleanName(word string) string {
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

// Names are those of one place, such as the columns of a node type, by how they look. The zero value has none.
type Names map[string]string

// Add takes a name into account. ErrSchema if CheckName refuses it, or if it looks like another one there and is not
// equal to it: if both have the same normal form (NFC), but for signs that nobody sees.
func (n *Names) Add(what, name string) error {
	if err := CheckName(what, name); err != nil {
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
		*n = Names{}
	}
	(*n)[look] = name
	return nil
}
