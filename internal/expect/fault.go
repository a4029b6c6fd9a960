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
		if _, ok := what.(interface{ Unwrap() []error }); !ok || inner(what) == nil {
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
	ofOthers = regexp.MustCompile(`((?:parquet|arrow/ipc|yaml|flate|unmarshal errors|invalid character|` +
		`runtime error|cannot unmarshal|unexpected end|unknown field)\b).*`)
	process  = regexp.MustCompile(`\bprocess \d+`)
	variable = regexp.MustCompile(
		`\bDIR(/[^\s:;,"]*)?|"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|` + "`[^`]*`" + `|[0-9][0-9,.]*|\n|[^ -~]+`)
	several = regexp.MustCompile(`"\.\."(?:,? "\.\.")+|\bN(?:,? N)+\b`)
)

// general takes numbers, paths below dir and what is quoted out of a text, which is cut to at most so many bytes.
func general(s, dir string, most int) (text string, values []string) {
	if dir != "" {
		s = strings.ReplaceAll(s, dir, "DIR")
	}
	s = cmp.Or(ofOthers.ReplaceAllString(s, "$1"), s)
	s = process.ReplaceAllString(s, "process N")
	s = variable.ReplaceAllStringFunc(s, func(v string) string {
		if v == "\n" {
			return " | "
		}
		values = append(values, v)
		switch {
		case strings.HasPrefix(v, "DIR"):
			return "FILE"
		case v[0] == '"' || v[0] == '\'' || v[0] == '`':
			return `".."`
		case v[0] >= '0' && v[0] <= '9':
			return "N"
		}
		return "?"
	})
	s = several.ReplaceAllStringFunc(s, func(v string) string { return strings.Fields(v)[0] + " .." })
	return strings.TrimSpace(s[:min(len(s), most)]), values
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
