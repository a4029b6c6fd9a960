package expect

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/option"
)

// A Fault is what golden files hold of an error. Its sentence stands in one table for all packages, see SentenceKey.
type Fault struct {
	Sentinel string   // the first words of the error that all others wrap; "-" where it is the sentence itself
	File     string   // the file's path; "" for none
	Unit     string   // what a row is, if there is one
	Row      int64    // -1 for none
	Sentence string   // what is wrong, without Values
	Remedy   string   // what to do, without Values; "" for nothing
	Values   []string // numbers, paths and what is quoted, in turn
}

// FaultOf takes an error apart. Paths below dir lose it. An error that has the fields Path, Row, Remedy and Err, as
// formats.Error does, says all of it; another one has a sentinel and a sentence.
func FaultOf(err error, dir string) Fault {
	f := Fault{Row: -1}
	what, remedy, path := err, "", ""
	for e := err; e != nil; e = inner(e) {
		v := reflect.Indirect(reflect.ValueOf(e))
		if v.Kind() != reflect.Struct || !v.FieldByName("Remedy").IsValid() || !v.FieldByName("Path").IsValid() {
			continue
		}
		path = v.FieldByName("Path").String()
		f.File = strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		f.Row, remedy = v.FieldByName("Row").Int(), v.FieldByName("Remedy").String()
		if unit := v.FieldByName("unit"); f.Row >= 0 && unit.IsValid() {
			f.Unit = unit.String()
		}
		what, _ = v.FieldByName("Err").Interface().(error)
		what = cmp.Or(what, err)
		break
	}
	for { // what Join puts around one error is no part of the sentence
		says := false // a sentence of its own
		switch what.(type) {
		case *option.Error, *option.Text:
			says = true
		}
		if _, ok := what.(interface{ Unwrap() []error }); !ok || says || inner(what) == nil {
			break
		}
		what = inner(what)
	}
	leaf := what
	for inner(leaf) != nil {
		leaf = inner(leaf)
	}
	f.Sentinel = "-"
	if leaf != what {
		f.Sentinel, _ = general(leaf.Error(), dir, 60)
		words := strings.Fields(f.Sentinel)
		f.Sentinel = strings.TrimRight(strings.Join(words[:min(len(words), 4)], " "), ",:;")
	}
	f.Sentence, _ = general(what.Error(), dir, 160)
	f.Remedy, _ = general(remedy, dir, 160)
	text := err.Error()
	if path != "" {
		text = strings.Replace(text, path, "", 1)
	}
	_, f.Values = general(text, dir, 0)
	return f
}

// inner returns the error that one wraps, the first of several.
func inner(err error) error {
	if list, ok := err.(interface{ Unwrap() []error }); ok && len(list.Unwrap()) > 0 {
		return list.Unwrap()[0]
	}
	return errors.Unwrap(err)
}

// kind is what lines have in common that Tally counts together.
func (f Fault) kind(t testing.TB) string {
	t.Helper()
	text := f.Sentinel
	if f.File != "" {
		text += ", " + f.File
	}
	if f.Row >= 0 {
		text += ", " + cmp.Or(f.Unit, "row")
	}
	if words := strings.Fields(f.Remedy); len(words) > 0 {
		SentenceKey(t, f.Remedy)
		text += "; " + strings.Join(words[:min(len(words), 3)], " ")
	}
	return text + " [" + SentenceKey(t, f.Sentence)
}

// Line is the line of a golden file for an error: its sentinel, file, row, the first words of the remedy, and in
// brackets the key of its sentence, with what is put into that. Paths below dir lose it.
func Line(t testing.TB, err error, dir string) string {
	t.Helper()
	if err == nil {
		return "fine"
	}
	f := FaultOf(err, dir)
	return f.kind(t) + brief(f.Values) + "]"
}

// TextLine is Line for a text that is no error.
func TextLine(t testing.TB, text, dir string) string {
	t.Helper()
	sentence, values := general(text, dir, 160)
	return "[" + SentenceKey(t, sentence) + brief(values) + "]"
}

// brief has the values themselves if they are few, else a digest of them.
func brief(values []string) string {
	switch text := strings.Join(values, " "); {
	case text == "":
		return ""
	case len(text) <= 24 && !strings.Contains(text, "\n"):
		return " " + text
	default:
		return " #" + digest(text)
	}
}

func digest(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	sum := h.Sum64()
	return fmt.Sprintf("%05x", (sum^sum>>32)&0xfffff)
}

var (
	// ofOthers are the words of libraries, behind the first ones.
	ofOthers = regexp.MustCompile(`((?:` + strings.Join(begins, "|") + `)\b).*`)
	begins   = []string{"parquet", "arrow/ipc", "yaml", "flate", "unmarshal errors", "invalid character",
		"runtime error", "cannot unmarshal", "unexpected end", "unknown field"}
	process = regexp.MustCompile(`\bprocess \d+`)
	several = regexp.MustCompile(`"\.\."(?:,? "\.\.")+|\bN(?:,? N)+\b`)
)

// general takes numbers, paths below dir and what is quoted out of a text, which is cut to a number of bytes.
// Golden tests do so for hundreds of thousands of errors: regular expressions see only what they may match.
func general(s, dir string, most int) (text string, values []string) {
	if dir != "" {
		s = strings.ReplaceAll(s, dir, "DIR")
	}
	if hasAny(s, begins...) {
		s = cmp.Or(ofOthers.ReplaceAllString(s, "$1"), s)
	}
	if hasAny(s, "process ") {
		s = process.ReplaceAllString(s, "process N")
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		n, short := variable(s, i)
		if n > 0 && s[i] != '\n' {
			values = append(values, s[i:i+n])
		}
		b.WriteString(short)
		i += max(n, 1)
	}
	if s = b.String(); hasAny(s, `".." "`, `"..", "`, "N N", "N, N") {
		s = several.ReplaceAllStringFunc(s, func(v string) string { return strings.Fields(v)[0] + " .." })
	}
	return strings.TrimSpace(s[:min(len(s), most)]), values
}

func hasAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// variable returns how many bytes at a place are a path below DIR, a number, a quotation, the end of a line or no
// ASCII, and what stands for them. Another byte stands for itself: 0.
func variable(s string, at int) (n int, short string) {
	rest := s[at:]
	switch c := s[at]; {
	case c == '\n':
		return 1, " | "
	case c < ' ' || c > '~':
		for n < len(rest) && (rest[n] < ' ' || rest[n] > '~') {
			n++
		}
		return n, "?"
	case '0' <= c && c <= '9':
		return len(rest) - len(strings.TrimLeft(rest, "0123456789,.")), "N"
	case strings.HasPrefix(rest, "DIR") && (at == 0 || !isWord(s[at-1])):
		n = len("DIR")
		if strings.HasPrefix(rest[n:], "/") {
			end := strings.IndexAny(rest[n:], " \t\n\f\r:;,\"")
			if end < 0 {
				end = len(rest) - n
			}
			n += end
		}
		return n, "FILE"
	case c == '"' || c == '\'' || c == '`':
		if n = quoted(rest); n > 0 {
			return n, `".."`
		}
	}
	return 0, s[at : at+1]
}

// quoted returns the length of a quotation that a text begins with, or 0 where it does not end.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return i + 1
		case s[i] == '\\' && s[0] != '`':
			if i++; i == len(s) || s[i] == '\n' {
				return 0
			}
		}
	}
	return 0
}

// Tally counts what came of many attempts.
type Tally struct {
	of map[string]*outcomes
}

// outcomes are those that have one line.
type outcomes struct {
	count       int
	least, most int64 // of rows
	values      []string
}

func (c *Tally) add(line string, row int64, values []string) {
	if c.of == nil {
		c.of = map[string]*outcomes{}
	}
	o := c.of[line]
	if o == nil {
		o = &outcomes{least: row, most: row}
		c.of[line] = o
	}
	o.count++
	o.least, o.most = min(o.least, row), max(o.most, row)
	o.values = append(o.values, strings.Join(values, " "))
}

// Add counts an outcome that is no error. What else it comes to has a part in the digest of its line.
func (c *Tally) Add(what string, values ...any) {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprint(v))
	}
	c.add(what+" [", -1, list)
}

// Fault counts an error.
func (c *Tally) Fault(t testing.TB, before string, err error, dir string) {
	t.Helper()
	f := FaultOf(err, dir)
	c.add(before+f.kind(t), f.Row, f.Values)
}

// String has a line for each outcome: how often it came, about which rows, and a digest of values that differ.
func (c *Tally) String() string {
	var b strings.Builder
	for _, line := range slices.Sorted(maps.Keys(c.of)) {
		o := c.of[line]
		if same := o.values[:1]; len(slices.Compact(slices.Clone(o.values))) == 1 {
			o.values = same
		}
		text := strings.Replace(strings.TrimSuffix(line+brief(o.values)+"]", " []"), "[ ", "[", 1)
		if o.least >= 0 && o.least < o.most {
			text += fmt.Sprintf(" rows %d to %d", o.least, o.most)
		}
		fmt.Fprintf(&b, "%d x %s\n", o.count, text)
	}
	return b.String()
}
