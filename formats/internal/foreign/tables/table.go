package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/arrow"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/csv"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/parquet"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Extensions are those of files with tables, in the order that they are looked for.
var Extensions = []string{".parquet", ".arrow", ".feather", ".csv", ".tsv", ".csv.gz"}

// part is a file of a table.
type part interface {
	Fields() []columnar.Field
	Rows() int64
	// scan yields the rows of some columns, in order. It may be called several times.
	Scan(ctx context.Context, want []int, yield func(*columnar.Batch) error) error
}

// table is one file, or many that have the same columns: their rows follow one another.
type table struct {
	name  string
	parts []part
	at    []source.Place
	list  []columnar.Field
	count int64
	limit *limit // nil: all rows are taken
	wide  bool   // its columns are those of a Wide
}

// open describes the files that a mapping names.
func open(ctx context.Context, beside source.Place, files Words, format Format, r *source.Request) (*table, error) {
	inputs, err := find(beside, files)
	if err != nil {
		return nil, err
	}
	t := &table{name: strings.Join(files, ", ")}
	return t, t.open(ctx, inputs, format, r)
}

// open describes files whose rows follow those of the table. Files without rows say nothing of its columns.
func (t *table) open(ctx context.Context, inputs []input, format Format, r *source.Request) error {
	fields := keyFields(inputs)
	for i, in := range inputs {
		p, err := openPart(ctx, in.Place, format, r)
		if err != nil {
			return wrap(ctx, in.Place, err)
		}
		if err := t.add(withFolders(p, in.keys, fields), in.Place); err != nil {
			return source.Error(in.Path(), "", -1, "the files of a table have the same columns", err)
		}
		r.Report("look at tables", int64(i+1), int64(len(inputs)))
	}
	for i := range t.list {
		if f := &t.list[i]; f.Void && f.Bad == "" && !t.isText() {
			f.Bad = "the type null"
		}
	}
	return nil
}

// find returns the files of names, in the order of names and, within a pattern, of the alphabet. A folder is its parts.
func find(beside source.Place, files Words) (all []input, err error) {
	for _, name := range files {
		found, err := match(beside, filepath.ToSlash(name))
		if err != nil {
			return nil, err
		}
		if out := path.Join(path.Dir(beside.Name), filepath.ToSlash(name)); len(found) == 0 && !beside.Tree.Single() &&
			(strings.HasPrefix(out, "..") || filepath.IsAbs(name)) {
			return nil, source.Error(beside.Path(), "", -1,
				"name the mapping in place of its folder: then its files may "+
					"lie anywhere", fmt.Errorf("the file %q lies outside of the folder that is converted", name))
		}
		if len(found) == 0 {
			return nil, source.Error(beside.Path(), "", -1, "files are named relative to the mapping",
				fmt.Errorf("there is no file %q", name))
		}
		if len(all) > 0 && !slices.EqualFunc(found[0].keys, all[0].keys, sameName) {
			return nil, source.Error(found[0].Path(), "", -1, "give each table a folder of its own",
				fmt.Errorf("lies in folders of other keys than %s: %s, and %s", all[0].Path(), keyNames(found[0].keys),
					keyNames(all[0].keys)))
		}
		all = append(all, found...)
	}
	return all, nil
}

// match returns the files of a name: one, those of a pattern, or those of a folder.
func match(beside source.Place, name string) (found []input, err error) {
	pattern := strings.ContainsAny(name, "*?[")
	tree := beside.Tree
	if !tree.Single() {
		name = path.Join(path.Dir(beside.Name), name)
		for _, f := range tree.Files() {
			if ok, err := path.Match(name, f); err != nil {
				return nil, source.Error(beside.Path(), "", -1, "", fmt.Errorf("the pattern %q: %w", name, err))
			} else if f == name || pattern && ok {
				found = append(found, input{Place: tree.At(f)})
			}
		}
		own := name == path.Dir(beside.Name) && beside.Name != "." // in which the mapping lies, too
		if found == nil && !own && isFolder(tree, name) {
			if found, err = partsOf(tree, name); err == nil && found == nil {
				err = errNoParts(tree.At(name).Path())
			}
		}
		return found, err
	}
	full := filepath.FromSlash(name)
	if !filepath.IsAbs(full) {
		full = filepath.Join(filepath.Dir(beside.Path()), full)
	}
	names := []string{full}
	if pattern {
		if names, err = filepath.Glob(full); err != nil {
			return nil, source.Error(beside.Path(), "", -1, "", fmt.Errorf("the pattern %q: %w", name, err))
		}
	}
	slices.Sort(names)
	for _, n := range names {
		switch st, err := os.Stat(n); {
		case err == nil && st.Mode().IsRegular():
			found = append(found, input{Place: tree.Local(n)})
		case err == nil && st.IsDir() && n == full && filepath.Clean(n) != filepath.Dir(beside.Path()):
			return localParts(tree, n)
		}
	}
	return found, nil
}

// openPart describes a file, by its first bytes.
func openPart(ctx context.Context, at source.Place, format Format, r *source.Request) (part, error) {
	raw, err := at.Raw()
	if err != nil {
		return nil, err
	}
	head := make([]byte, 8)
	n, _ := raw.ReadAt(head, 0)
	if err := raw.Close(); err != nil {
		return nil, err
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte(parquet.Magic)):
		return parquet.Open(at, r.Budget)
	case bytes.HasPrefix(head, []byte("PARE")):
		return nil, errors.New("an encrypted Parquet file, which is not read: decrypt it first")
	case arrow.Is(head):
		return arrow.Open(ctx, at, r.Budget, head)
	case bytes.HasPrefix(head, []byte("FEA1")):
		return nil, errors.New("a file of Feather 1, which is not read: write it as version 2, or as Parquet")
	}
	text, err := at.Head()
	if err != nil {
		return nil, err
	}
	if what := source.NotLines(text); what != "" {
		return nil, source.Error(at.Path(), "", -1, "a table is Parquet, Arrow or CSV: export it as one",
			fmt.Errorf("is %s", what))
	}
	nulls := r.Null
	if format.Null != nil {
		nulls = format.Null
	}
	return csv.Open(ctx, at, r.Budget, format.Delimiter, format.Header, source.NullSet(nulls))
}

// wrap says of an error which file, row and column it is about.
func wrap(ctx context.Context, at source.Place, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var column *columnar.ColumnError
	name, row := "", int64(-1)
	if errors.As(err, &column) {
		name, row = column.Column, column.Row
		var within *columnar.RowError
		if err = column.Err; errors.As(err, &within) {
			row += int64(within.Row)
		}
	}
	remedy := ""
	if errors.Is(err, guard.ErrFormat) {
		remedy = "the file is cut short or damaged, or written in a way that is not supported: write it again"
	}
	return source.Error(at.Path(), name, row, remedy, err)
}

// add appends a file at a place.
func (t *table) add(p part, at source.Place) error {
	switch {
	case t.parts == nil || t.count == 0 && p.Rows() > 0 && !sameNames(t.list, p.Fields()):
		t.parts, t.at = nil, nil
		t.begin(p.Fields())
	case p.Rows() == 0 && !sameNames(t.list, p.Fields()):
		return nil
	default:
		if err := t.unify(p); err != nil {
			return err
		}
	}
	t.parts, t.at = append(t.parts, p), append(t.at, at)
	t.count += p.Rows()
	return nil
}

func sameNames(a, b []columnar.Field) bool {
	return slices.EqualFunc(a, b, func(a, b columnar.Field) bool { return a.Name == b.Name })
}

// begin makes the columns of the first file those of the table.
func (t *table) begin(list []columnar.Field) {
	t.list = slices.Clone(list)
	for i, f := range t.list {
		if slices.ContainsFunc(t.list[:i], func(o columnar.Field) bool { return o.Name == f.Name }) && f.Bad == "" {
			t.list[i].Bad = "a second column of the same name"
		}
		if !utf8.ValidString(f.Name) {
			t.list[i].Bad = "a name that is not UTF-8"
		}
	}
}

// unify makes the columns of another file those of the table. Of texts, what a column is depends on all files.
func (t *table) unify(p part) error {
	list := p.Fields()
	if len(list) != len(t.list) {
		return fmt.Errorf("there are %d columns, and %d in the first file, %s", len(list), len(t.list), t.at[0].Path())
	}
	for i := range list {
		a, b := &t.list[i], &list[i]
		if a.Name != b.Name {
			return fmt.Errorf("column %d is %q, and %q in the first file, %s", i, b.Name, a.Name, t.at[0].Path())
		}
		switch {
		case p.Rows() == 0:
		case t.count == 0:
			*a = *b
		case a.Void || b.Void:
			uniteVoid(a, b, isCSV(p))
		case isCSV(p) && unite(a, b):
		case !alike(a, b):
			return fmt.Errorf("column %q is %v, and %v in the first file, %s", a.Name, b, a, t.at[0].Path())
		}
	}
	for _, p := range append(slices.Clip(t.parts), p) {
		if _, wrapped := p.(*foldered); wrapped || isCSV(p) { // which are read as what all of the table are
			copy(p.Fields(), t.list)
		}
	}
	return nil
}

// isText reports whether the table is text, all of which is read for any of its columns.
func (t *table) isText() bool {
	return !slices.ContainsFunc(t.parts, func(p part) bool {
		b, several := p.(*beside)
		return !isCSV(p) && (!several || !b.text)
	})
}

// column returns the index of a column.
func (t *table) column(name string) (int, error) {
	i := slices.IndexFunc(t.list, func(f columnar.Field) bool { return f.Name == name })
	if i < 0 {
		return 0, t.fail("", fmt.Errorf("there is no column %q; there are: %s", name, t.names()))
	}
	if t.list[i].Bad != "" {
		return 0, t.fail(name, fmt.Errorf("is of a type that cannot be stored: %s", t.list[i].Bad))
	}
	return i, nil
}

// readRagged makes the lists of a column ragged; those of CSV become text.
func (t *table) readRagged(column int) {
	fields := []*columnar.Field{&t.list[column]}
	for _, p := range t.parts {
		fields = append(fields, &p.Fields()[column])
	}
	for _, f := range fields {
		if t.isText() {
			*f = columnar.Field{Name: f.Name, Text: true, Width: 1}
			continue
		}
		if f.Ragged = true; f.Bad == columnar.TextLists {
			f.Bad = ""
		}
	}
}

// has returns the first of the names that is a column; -1 for none.
func (t *table) has(names ...string) int {
	for _, name := range names {
		for i, f := range t.list {
			if f.Bad == "" && strings.EqualFold(f.Name, name) {
				return i
			}
		}
	}
	return -1
}

// usual returns the first of the names that usually have a part and are a column; -1 for none. Where somebody has given
// columns their names, it is the first alone, as it is.
func (t *table) usual(names ...string) int {
	if !t.wide {
		return t.has(names...)
	}
	if i := t.find(names[0]); i >= 0 && t.list[i].Bad == "" {
		return i
	}
	return -1
}

func (t *table) names() string {
	var names []string
	for i, f := range t.list {
		if i == 24 {
			names = append(names, "..")
			break
		}
		names = append(names, fmt.Sprintf("%.60q", f.Name))
	}
	return strings.Join(names, ", ")
}

func (t *table) fail(column string, err error) error {
	path := t.name
	if len(t.at) > 0 {
		path = t.at[0].Path()
	}
	if t.wide {
		if at, ok := t.parts[0].(*beside).place(column); ok {
			path = at.Path()
		}
	}
	return source.Error(path, column, -1, "", err)
}

// scan yields the rows of some columns, in order.
func (t *table) scan(ctx context.Context, want []int, yield func(*columnar.Batch) error) error {
	if t.limit != nil {
		return t.scanUntil(ctx, want, yield)
	}
	return t.scanAll(ctx, want, yield)
}

// scanAll yields the rows of some columns, in order, without regard to a limit.
func (t *table) scanAll(ctx context.Context, want []int, yield func(*columnar.Batch) error) error {
	for i, p := range t.parts {
		rows := int64(0)
		err := p.Scan(ctx, want, func(b *columnar.Batch) error {
			rows += int64(b.Rows)
			return yield(b)
		})
		if err == nil && rows != p.Rows() {
			err = fmt.Errorf("there are %d rows, and there were %d: the file has changed", rows, p.Rows())
		}
		if err != nil {
			return wrap(ctx, t.at[i], err)
		}
	}
	return nil
}
