package edgelist

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
)

// Header says whether the first line names the fields.
type Header uint8

// What the first line can be.
const (
	HeaderAuto Header = iota // as it looks, with a note where that is a guess
	HeaderYes
	HeaderNo
)

// ends are pairs of names that headers give source and target.
var ends = [][2]string{
	{"src", "dst"}, {"source", "target"}, {"from", "to"}, {"source_id", "target_id"}, {"src_id", "dst_id"},
	{"fromnodeid", "tonodeid"},
	{"from_id", "to_id"}, {"id_1", "id_2"}, {"id1", "id2"}, {"node_1", "node_2"}, {"node1", "node2"}, {"head", "tail"},
	{"u", "v"},
	{"u", "i"}, {"source", "destination"}, {"src", "dest"}, {"start", "end"}, {"row", "col"}, {"subject", "object"},
}

// nameFields finds header, ids and columns. It removes the header from lines.
func (r *reader) nameFields(lay *layout, p *piece, lines *[]sampled) error {
	first := (*lines)[0]
	isHeader := r.beginsWithNames(lay, *lines)
	if isHeader {
		_, next := cutLine(p.text(), first.at)
		lay.skip = next
		*lines = (*lines)[1:]
	}
	switch {
	case len(r.opt.Columns) > 0:
		return r.explicitColumns(lay)
	case isHeader && lay.fields > maxColumns+2:
		return r.lineError(p, first.at, badf(
			option.Textf("name those that are wanted, as in %s src,dst,weight,-,time", option.Named("Columns")),
			"the header names %d fields: at most %d can be stored", lay.fields, maxColumns))
	case isHeader:
		lay.takeNames(first.fields)
	case lay.fields > 2:
		lay.notes = append(lay.notes, source.NewNote(source.LeftOut, "edges", int64(lay.fields-2),
			"%s stored; name them by %s src,dst,weight,..", unnamed(lay.fields), option.Named("Columns")))
	}
	return nil
}

// takeNames takes the names of the columns from a header.
func (l *layout) takeNames(header [][]byte) {
	note := func(change, name, format string, args ...any) {
		l.notes = append(l.notes, source.NewNote(change, name, 1, format, args...))
	}
	for i, f := range header {
		if i == l.src || i == l.dst {
			continue
		}
		own := strings.TrimSpace(string(f))
		name := columnName(own)
		if name == "" {
			note(source.LeftOut, "edges", "field %d has no name in the header and is not stored; name it by "+
				"%s src,dst,weight,..", i+1, option.Named("Columns"))
			continue
		}
		if name = uniqueName(l.columns, name); name != own {
			note(source.Renamed, name, "field %d, %.60q, is stored as %q; %s gives it another name", i+1, own, name,
				option.Named("Columns"))
		}
		l.columns = append(l.columns, columnSpec{name: name, field: i})
	}
	src, dst := string(header[l.src]), string(header[l.dst])
	if a, b := kindOfID(src), kindOfID(dst); a != "" && b != "" && a != b && l.src != l.dst {
		note(source.Guessed, "edges", "%q and %q share one space of ids: %s 1 and %s 1 are one node; if they are of "+
			"two kinds, say so by %s %s", src, dst, a, b, option.Named("Columns"), l.columnsOf(a, b))
	}
}

// columnsOf returns what option Columns takes for two kinds of nodes, and all fields that have a name.
func (l *layout) columnsOf(src, dst string) string {
	list := slices.Repeat([]string{"-"}, l.fields)
	for _, c := range l.columns {
		list[c.field] = c.name
	}
	list[l.src], list[l.dst] = "src:"+src, "dst:"+dst
	if len(list) > 12 {
		list = append(list[:12], "..")
	}
	return strings.Join(list, ",")
}

// unnamed begins a note on fields without names.
func unnamed(fields int) string {
	if fields == 3 {
		return "field 3 has no name and is not"
	}
	return fmt.Sprintf("fields 3 to %d have no names and are not", fields)
}

// beginsWithNames reports whether the first line names the fields, and finds the ends by their names. It notes what is
// a guess.
func (r *reader) beginsWithNames(lay *layout, lines []sampled) bool {
	first := lines[0].fields
	var header []string
	for _, f := range first {
		header = append(header, strings.ToLower(string(f)))
	}
	if r.opt.Header == HeaderNo {
		return false
	}
	known := findEnds(header, lay)
	if r.opt.Header == HeaderYes {
		return true
	}
	says := func(change, format string) {
		lay.notes = append(lay.notes, source.NewNote(change, "edges", 1, format, clip(first[lay.src]),
			clip(first[lay.dst]), option.Named("Header")))
	}
	again := recurs(lines, lay)
	switch {
	case wordsOverNumbers(lines, r.nulls):
		if !known {
			says(source.Said, "the first line, %q and %q, names the fields: it has words where all others have "+
				"numbers; %s no makes it an edge")
		}
	case known && !again:
	case known || !again && isIDName(first[lay.src]) && isIDName(first[lay.dst]):
		says(source.Guessed, "the first line, %q and %q, is taken for the names of the fields; %s yes says so, no "+
			"makes it an edge")
	default:
		if !again && len(lines) > 1 && !isNumber(first[0]) && !isNumber(first[1]) {
			says(source.Said, "the first line, %q and %q, is an edge; %s yes makes it the names of the fields")
		}
		return false
	}
	return true
}

// findEnds looks for a pair of names of source and target.
func findEnds(header []string, lay *layout) bool {
	for _, pair := range ends {
		if src, dst := slices.Index(header, pair[0]), slices.Index(header, pair[1]); src >= 0 && dst >= 0 {
			lay.src, lay.dst = src, dst
			return true
		}
	}
	return false
}

// wordsOverNumbers reports whether the first line has words where all others have numbers: both ids, or any field if
// none of the line is a number.
func wordsOverNumbers(lines []sampled, nulls map[string]bool) bool {
	if len(lines) < 2 {
		return false
	}
	first := lines[0].fields
	over := func(k int) bool {
		number := false
		for _, l := range lines[1:] {
			if k >= len(l.fields) {
				return false
			}
			f := l.fields[k]
			_, err := strconv.ParseFloat(string(f), 64)
			if number = number || err == nil; err != nil && !isNull(f, nulls) || k < 2 && !isNumber(f) {
				return false
			}
		}
		return number && len(first[k]) > 0
	}
	if len(first) > 1 && !isNumber(first[0]) && !isNumber(first[1]) && over(0) && over(1) {
		return true
	}
	some := false
	for k, f := range first {
		if _, err := strconv.ParseFloat(string(f), 64); err == nil || isNull(f, nulls) {
			return false
		}
		some = some || over(k)
	}
	return some
}

// isNull reports whether a field stands for a missing value: as a person says, or as programs usually write it.
func isNull(f []byte, nulls map[string]bool) bool {
	return len(f) == 0 || nulls[string(f)] || source.IsNull(string(f))
}

// recurs reports whether an end of the first line is one of another, too.
func recurs(lines []sampled, lay *layout) bool {
	first := lines[0].fields
	for _, l := range lines[1:] {
		for _, k := range [2]int{lay.src, lay.dst} {
			if k < len(l.fields) && (bytes.Equal(l.fields[k], first[lay.src]) ||
				bytes.Equal(l.fields[k], first[lay.dst])) {
				return true
			}
		}
	}
	return false
}

// idNames are names of columns of ids: "user_id", "userId", "user ID".
var idNames = regexp.MustCompile(
	`^(?:((?i)[a-z][a-z0-9 _.-]*?)[ _.-](?i:ids?|key)|([A-Za-z][A-Za-z0-9]*?)(?:Id|ID|Key))$`)

// wordsOfName are the words that a name joins, as "from" and "Node" of "fromNode_1".
var wordsOfName = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// kinds are words that name a kind of node in headers that do not say "id", and endWords those that name an end.
var (
	kinds = strings.Fields("user item movie book song artist author paper product customer person page group post " +
		"tag drug gene protein disease venue city buyer seller account")
	endWords = strings.Fields("src dst source target from to head tail start end origin dest destination node vertex " +
		"subject object parent child u v i j a b x y row col left right")
)

// isIDName reports whether a word names a column of ids.
func isIDName(f []byte) bool {
	s := strings.ToLower(string(f))
	return idNames.Match(f) || s == "id" || slices.Contains(kinds, s)
}

// kindOfID returns the kind of node that the name of an end speaks of: "user" of "user_id"; "" for none.
func kindOfID(name string) string {
	if !isIDName([]byte(name)) || strings.EqualFold(name, "id") {
		return ""
	}
	stem := name
	if m := idNames.FindStringSubmatch(name); m != nil {
		stem = m[1] + m[2]
	}
	for _, word := range wordsOfName.FindAllString(stem, -1) {
		if slices.Contains(endWords, strings.ToLower(word)) {
			return ""
		}
	}
	stem = strings.ToLower(stem)
	return columnName(strings.TrimRight(stem, "0123456789 _.-"))
}
