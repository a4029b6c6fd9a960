package tables

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// drafted is a table that a draft of a mapping is about.
type drafted struct {
	name, file string
	files      []string // that the pattern file stands for
	list       []columnar.Field
}

// Draft returns a mapping of the tables that lie in a tree, Parquet, Arrow and CSV with a header, as far as their
// columns' names tell what they are; "" where there are none. A person corrects it. Errors are those of Read.
func Draft(ctx context.Context, t *source.Tree, r *source.Request) (string, error) {
	all, err := draftedIn(ctx, t, r)
	if len(all) == 0 || err != nil {
		return "", err
	}
	var nodes, edges strings.Builder
	for i := range all {
		if d := &all[i]; d.column("src", "source", "from") != "" && d.column("dst", "target", "to") != "" {
			fmt.Fprintf(&edges, "  %q: {file: %s, src: %q, dst: %q%s}\n", d.name, d.source(t),
				d.column("src", "source", "from"), d.column("dst", "target", "to"), d.times())
		} else {
			fmt.Fprintf(&nodes, "  %q: {file: %s%s%s%s}\n", d.name, d.source(t), d.id(all), d.times(), d.keys(all))
		}
	}
	text := "# A draft of a mapping, by the names of columns: correct it, and convert this file.\n"
	if nodes.Len() > 0 {
		text += "nodes:\n" + nodes.String()
	}
	if edges.Len() > 0 {
		text += "edges: # with several node types, say \"source\" and \"target\" of each\n" + edges.String()
	}
	return text, nil
}

// DraftManifest returns a manifest of the tables as a database, in RelBench's form; else as Draft.
func DraftManifest(ctx context.Context, t *source.Tree, r *source.Request) (string, error) {
	all, err := draftedIn(ctx, t, r)
	if len(all) == 0 || err != nil {
		return "", err
	}
	text := "# A draft, by the names of columns: correct it, and save it as manifest.yaml beside the tables.\n" +
		"# Rows later than test_timestamp are left out: add it, and val_timestamp, as 'YYYY-MM-DD'.\ntables:\n"
	for i := range all {
		d := &all[i]
		file, rest := strconv.Quote(d.file), ""
		if list := d.source(t); list != file { // the pattern has other files, too
			file, rest = strconv.Quote(d.files[0]), " # and the rest of "+list+": give them a folder"
		}
		text += fmt.Sprintf("  %q: {file: %s, pkey: %s, time_col: %s, fkeys: {%s}}%s\n", d.name, file,
			orNull(d.key(all)), orNull(d.time()), strings.Join(d.foreign(all), ", "), rest)
	}
	return text, nil
}

func orNull(name string) string {
	if name == "" {
		return "null"
	}
	return strconv.Quote(name)
}

// draftedIn returns the tables of a tree. Files that differ in a number alone, and have the same columns, are one.
func draftedIn(ctx context.Context, t *source.Tree, r *source.Request) (all []drafted, _ error) {
	for _, name := range t.Files() {
		at := t.At(name)
		if passedOver(name) || !IsTable(at) && !hasHeader(at) {
			continue
		}
		p, err := openPart(ctx, at, Format{}, r)
		if err != nil {
			return nil, wrap(ctx, at, err)
		}
		stem, _, _ := strings.Cut(path.Base(name), ".")
		stem, file := shard(name, stem)
		if dir := keyed(name); dir != "" {
			stem, file = path.Base(dir), dir
		}
		same := slices.IndexFunc(all, func(d drafted) bool { return d.file == file })
		switch {
		case same < 0:
		case slices.EqualFunc(all[same].list, p.Fields(), func(a, b columnar.Field) bool { return a.Name == b.Name }):
			all[same].files = append(all[same].files, name)
			continue
		default: // other columns: a table of its own
			stem, _, _ = strings.Cut(path.Base(name), ".")
			file = name
		}
		all = append(all, drafted{stem, file, []string{name}, p.Fields()})
	}
	for i := range all { // what no other file is like has its own name
		if d := &all[i]; len(d.files) == 1 && keyed(d.files[0]) == "" {
			d.file = d.files[0]
			if stem, _, _ := strings.Cut(path.Base(d.file), "."); !ofFolder.MatchString(stem) {
				d.name = stem
			}
		}
	}
	return all, nil
}

// keyed returns the folder of a table whose parts lie in folders KEY=VALUE; "" for another file, or the whole tree.
func keyed(name string) string {
	words := strings.Split(path.Dir(name), "/")
	first := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, "=") })
	return strings.Join(words[:max(first, 0)], "/")
}

// quoted returns texts in quotes.
func quoted(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return all
}

// source says which files are the table: a pattern, if that has no others.
func (d *drafted) source(t *source.Tree) string {
	if keyed(d.files[0]) != "" {
		return strconv.Quote(d.file)
	}
	if places, err := match(t.At("x"), d.file); err == nil && len(places) != len(d.files) {
		return "[" + strings.Join(quoted(d.files), ", ") + "]"
	}
	return strconv.Quote(d.file)
}

// numbered is the end of the name of one of several files of a table: orders-00002, part-0-of-4.
var numbered = regexp.MustCompile(`^(.*?)([-_]?)\d+([-_]of[-_]\d+)?$|^(part)(-)\d+-.*$`)

// ofFolder is the beginning of the name of a part that its folder names: part-00000-.., data_0, 00000000.
var ofFolder = regexp.MustCompile(`^(part[-_]|data_)?\d`)

// shard returns the name of the table that a file is a part of, by its own, and a pattern of all parts; those of a file
// whose name has no number.
func shard(file, stem string) (table, pattern string) {
	m := numbered.FindStringSubmatch(stem)
	if m == nil {
		return stem, file
	}
	dir, rest, begin := path.Dir(file), strings.TrimPrefix(path.Base(file), stem), m[1]+m[2]+m[4]+m[5]
	if table = m[1] + m[4]; table == "" || ofFolder.MatchString(stem) {
		if dir == "." {
			return stem, file
		}
		table = path.Base(dir)
	}
	return table, path.Join(dir, begin+"*"+rest)
}

// hasHeader reports whether a file is CSV whose first line has names alone.
func hasHeader(at source.Place) bool {
	name := strings.TrimSuffix(strings.ToLower(at.Name), ".gz")
	if ext := path.Ext(name); ext != ".csv" && ext != ".tsv" {
		return false
	}
	names := firstLine(at)
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		_, err := strconv.ParseFloat(name, 64)
		return err == nil || name == ""
	})
}

// firstLine returns the cells of the first line of a CSV, in short.
func firstLine(at source.Place) (names []string) {
	head, err := at.Head()
	if err != nil {
		return nil
	}
	line, _, _ := strings.Cut(string(head), "\n")
	for _, name := range strings.FieldsFunc(strings.TrimSpace(line), func(r rune) bool {
		return strings.ContainsRune(",\t;|", r)
	}) {
		names = append(names, strings.Trim(name, `" `))
	}
	return names
}

// column returns the column of one of the names; "" for none.
func (d *drafted) column(names ...string) string {
	for _, name := range names {
		i := slices.IndexFunc(d.list, func(f columnar.Field) bool { return strings.EqualFold(f.Name, name) })
		if i >= 0 {
			return d.list[i].Name
		}
	}
	return ""
}

// same is a name in small letters without the signs between words: user_id and userId are one.
func same(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// isID reports whether a column is called as one of ids: user_id, userId, userID.
func isID(name string) bool {
	return strings.HasSuffix(strings.ToLower(name), "_id") || strings.HasSuffix(name, "Id") ||
		strings.HasSuffix(name, "ID")
}

// names reports whether a column is called as the ids of the table's rows are elsewhere.
func (d *drafted) names(column string) bool {
	one := strings.TrimSuffix(d.name, "s")
	if strings.HasSuffix(d.name, "ies") {
		one = strings.TrimSuffix(d.name, "ies") + "y"
	}
	return same(column) == same(d.name)+"id" || same(column) == same(one)+"id"
}

// key returns the column of the rows' ids; "" for none.
func (d *drafted) key(all []drafted) string {
	if i := slices.IndexFunc(d.list, func(f columnar.Field) bool { return d.names(f.Name) }); i >= 0 {
		return d.list[i].Name
	}
	if name := d.column("id", "node_id", "nodeId"); name != "" {
		return name
	}
	if len(d.list) == 0 || !isID(d.list[0].Name) {
		return ""
	}
	first := d.list[0].Name
	if slices.ContainsFunc(all, func(o drafted) bool { return o.file != d.file && o.names(first) }) {
		return "" // a key of another table, which need not be there once
	}
	return first
}

func (d *drafted) id(all []drafted) string {
	if name := d.key(all); name != "" {
		return fmt.Sprintf(", id: %q", name)
	}
	return ""
}

// time returns the first column of times; "" for none.
func (d *drafted) time() string {
	if i := slices.IndexFunc(d.list, func(f columnar.Field) bool { return f.Unit != "" && !f.List }); i >= 0 {
		return d.list[i].Name
	}
	return ""
}

func (d *drafted) times() string {
	if name := d.time(); name != "" {
		return fmt.Sprintf(", time: %q", name)
	}
	return ""
}

func (d *drafted) keys(all []drafted) string {
	list := d.foreign(all)
	if list == nil {
		return ""
	}
	return ", keys: {" + strings.Join(list, ", ") + "}"
}

// foreign returns the columns that are called as the ids of another table are, with that table.
func (d *drafted) foreign(all []drafted) (list []string) {
	for _, f := range d.list {
		for k := range all {
			to := &all[k]
			key := to.key(all)
			called := to.names(f.Name) || f.Name == key && isID(key)
			if called && f.Name != d.key(all) && to.name != d.name {
				list = append(list, fmt.Sprintf("%q: %q", f.Name, to.name))
				break
			}
		}
	}
	return list
}
