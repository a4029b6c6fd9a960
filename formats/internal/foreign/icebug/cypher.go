package icebug

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// schema is what a text in Cypher declares.
type schema struct {
	nodes  []nodeTable
	rels   []relTable
	others int // statements that create no table
}

// nodeTable is a CREATE NODE TABLE.
type nodeTable struct {
	name, key string // key is the column of the primary key; "": none
	storage   string
}

// relTable is a CREATE REL TABLE.
type relTable struct {
	name, from, to string
	storage        string
}

// token is a word, a text in quotes, or a sign.
type token struct {
	text   string
	quoted bool // in backticks: no keyword
	string bool
}

// is reports whether the token is a keyword or a sign.
func (t token) is(word string) bool { return !t.quoted && !t.string && strings.EqualFold(t.text, word) }

// parse reads a schema.
func parse(text string) (*schema, error) {
	list, err := tokens(text)
	if err != nil {
		return nil, err
	}
	s := &schema{}
	for len(list) > 0 {
		end := slices.IndexFunc(list, func(t token) bool { return t.is(";") })
		if end < 0 {
			end = len(list)
		}
		if err := s.add(list[:end]); err != nil {
			return nil, err
		}
		list = list[min(end+1, len(list)):]
	}
	return s, nil
}

// tokens cuts a text into its words. Comments are left out.
func tokens(text string) (list []token, _ error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("it is not UTF-8")
	}
	for text != "" {
		c, size := utf8.DecodeRuneInString(text)
		switch {
		case unicode.IsSpace(c):
			text = text[size:]
		case strings.HasPrefix(text, "//"):
			_, text, _ = strings.Cut(text, "\n")
		case strings.HasPrefix(text, "/*"):
			_, rest, closed := strings.Cut(text[2:], "*/")
			if !closed {
				return nil, errors.New("a comment /* has no end")
			}
			text = rest
		case c == '`' || c == '\'' || c == '"':
			word, rest, err := quoted(text)
			if err != nil {
				return nil, err
			}
			list, text = append(list, token{word, c == '`', c != '`'}), rest
		case isWord(c):
			end := strings.IndexFunc(text, func(c rune) bool { return !isWord(c) })
			if end < 0 {
				end = len(text)
			}
			list, text = append(list, token{text: text[:end]}), text[end:]
		default:
			list, text = append(list, token{text: text[:size]}), text[size:]
		}
	}
	return list, nil
}

func isWord(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) }

// quoted returns the text in the quotes that a text begins with, and what follows. A sign behind a backslash, and a
// backtick that is there twice, is itself.
func quoted(text string) (word, rest string, _ error) {
	var b strings.Builder
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote != '`' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c == quote && quote == '`' && i+1 < len(text) && text[i+1] == quote:
			i++
			b.WriteByte(c)
		case c == quote:
			return b.String(), text[i+1:], nil
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("the quote %c has no end", quote)
}

// add takes a statement.
func (s *schema) add(list []token) error {
	kind := ""
	if len(list) > 2 && list[0].is("CREATE") && list[2].is("TABLE") {
		for _, word := range []string{"NODE", "REL"} {
			if list[1].is(word) {
				kind = word
			}
		}
	}
	if kind == "" {
		if len(list) > 0 {
			s.others++
		}
		return nil
	}
	list = list[3:]
	for _, word := range []string{"GROUP", "IF", "NOT", "EXISTS"} {
		if len(list) > 1 && list[0].is(word) && !list[1].is("(") {
			list = list[1:]
		}
	}
	if len(list) == 0 || list[0].string || list[0].text == "" {
		return fmt.Errorf("CREATE %s TABLE has no name", kind)
	}
	name := list[0].text
	columns, rest, err := parentheses(list[1:])
	if err != nil {
		return fmt.Errorf("the table %.60q: %w", name, err)
	}
	storage, err := storageOf(rest)
	if err != nil {
		return fmt.Errorf("the table %.60q: %w", name, err)
	}
	if kind == "NODE" {
		s.nodes = append(s.nodes, nodeTable{name, primaryKey(columns), storage})
		return nil
	}
	from, to, err := ends(columns)
	if err != nil {
		return fmt.Errorf("the table %.60q: %w", name, err)
	}
	s.rels = append(s.rels, relTable{name, from, to, storage})
	return nil
}

// parentheses returns what lies between a ( and its ), cut at commas, and what follows.
func parentheses(list []token) (parts [][]token, rest []token, _ error) {
	if len(list) == 0 || !list[0].is("(") {
		return nil, nil, errors.New("a list in ( ) is wanted")
	}
	depth, from := 0, 1
	for i, t := range list {
		switch {
		case t.is("(") || t.is("[") || t.is("{"):
			depth++
		case t.is(")") || t.is("]") || t.is("}"):
			depth--
			if depth == 0 {
				return append(parts, list[from:i]), list[i+1:], nil
			}
		case t.is(",") && depth == 1:
			parts, from = append(parts, list[from:i]), i+1
		}
	}
	return nil, nil, errors.New("a list has no end: ) is missing")
}

// primaryKey returns the column of the primary key; "" for none.
func primaryKey(columns [][]token) string {
	for _, c := range columns {
		for i := range len(c) - 1 {
			if !c[i].is("PRIMARY") || !c[i+1].is("KEY") {
				continue
			}
			if i == 0 && len(c) > 3 && c[2].is("(") {
				return c[3].text
			}
			if i > 0 {
				return c[0].text
			}
		}
	}
	return ""
}

// ends returns the node tables that edges lead from and to.
func ends(columns [][]token) (from, to string, _ error) {
	for _, c := range columns {
		if len(c) < 4 || !c[0].is("FROM") || !c[2].is("TO") {
			continue
		}
		if from != "" {
			return "", "", errors.New("edges lead between several pairs of tables, which the format does " +
				"not hold: give each pair a table of its own")
		}
		from, to = c[1].text, c[3].text
	}
	if from == "" || to == "" {
		return "", "", errors.New("FROM table TO table is missing")
	}
	return from, to, nil
}

// storageOf returns the folder that a table's options name.
func storageOf(list []token) (storage string, _ error) {
	if len(list) == 0 || !list[0].is("WITH") {
		return "", nil
	}
	options, _, err := parentheses(list[1:])
	if err != nil {
		return "", err
	}
	const name = "icebug-disk"
	for _, o := range options {
		if len(o) != 3 || !o[1].is("=") {
			continue
		}
		switch value := o[2].text; {
		case o[0].is("storage"):
			storage = strings.TrimPrefix(strings.TrimPrefix(value, name), ":")
		case o[0].is("format") && !strings.EqualFold(value, name):
			return "", fmt.Errorf("it is stored as %.40q, not as %q", value, name)
		}
	}
	return storage, nil
}
