package tables

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// Extensions are those of files with tables, in the order that they are looked for.
var Extensions = []string{".parquet", ".arrow", ".feather", ".csv", ".tsv", ".csv.gz"}

// part is a file of a table.
type part interface {
	fields() []field
	rows() int64
	// scan yields the rows of some columns, in order. It may be called several times.
	scan(ctx context.Context, want []int, yield func(*batch) error) error
}

// table is one file, or many that have the same columns: their rows follow one another.
type table struct {
	name  string
	parts []part
	at    []source.Place
	list  []field
	count int64
	limit *limit // nil: all rows are taken
}

// open describes the files that a mapping names.
func open(ctx context.Context, beside source.Place, files Words, format Format, r *source.Request) (*table, error) {
	places, err := find(beside, files)
	if err != nil {
		return nil, err
	}
	t := &table{name: strings.Join(files, ", ")}
	return t, t.open(ctx, places, format, r)
}

// open describes files whose rows follow those of the table.
func (t *table) open(ctx context.Context, places []source.Place, format Format, r *source.Request) error {
	t.at = append(t.at, places...)
	for _, at := range places {
		p, err := openPart(ctx, at, format, r)
		if err != nil {
			return wrap(ctx, at, err)
		}
		if err := t.add(p); err != nil {
			return source.Error(at.Path(), "", -1, "the files of a table have the same columns", err)
		}
		r.Report("look at tables", int64(len(t.parts)), int64(len(t.at)))
	}
	return nil
}

// find returns the places of files, in the order of names and, within a pattern, of the alphabet.
func find(beside source.Place, files Words) (all []source.Place, err error) {
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
		all = append(all, found...)
	}
	return all, nil
}

func match(beside source.Place, name string) (found []source.Place, err error) {
	pattern := strings.ContainsAny(name, "*?[")
	tree := beside.Tree
	if !tree.Single() {
		name = path.Join(path.Dir(beside.Name), name)
		for _, f := range tree.Files() {
			if ok, err := path.Match(name, f); err != nil {
				return nil, source.Error(beside.Path(), "", -1, "", fmt.Errorf("the pattern %q: %w", name, err))
			} else if f == name || pattern && ok {
				found = append(found, tree.At(f))
			}
		}
		return found, nil
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
		if st, err := os.Stat(n); err == nil && st.Mode().IsRegular() {
			found = append(found, tree.Local(n))
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
	case bytes.HasPrefix(head, []byte(parquetMagic)):
		p := &parquetFile{at: at, budget: r.Budget}
		return p, p.describe()
	case bytes.HasPrefix(head, []byte("PARE")):
		return nil, errors.New("an encrypted Parquet file, which is not read: decrypt it first")
	case bytes.HasPrefix(head, []byte(arrowMagic)), bytes.HasPrefix(head, []byte(streamMagic)):
		f := &arrowFile{at: at, budget: r.Budget, stream: !bytes.HasPrefix(head, []byte(arrowMagic))}
		return f, f.describe(ctx)
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
	f := &csvFile{at: at, budget: r.Budget, format: format, nulls: source.NullSet(nulls)}
	return f, f.describe(ctx)
}

// wrap says of an error which file, row and column it is about.
func wrap(ctx context.Context, at source.Place, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var column *columnError
	name, row := "", int64(-1)
	if errors.As(err, &column) {
		name, row = column.column, column.row
		var within *rowError
		if err = column.err; errors.As(err, &within) {
			row += int64(within.row)
		}
	}
	remedy := ""
	if errors.Is(err, ErrFormat) {
		remedy = "the file is cut short or damaged, or written in a way that is not supported: write it again"
	}
	return source.Error(at.Path(), name, row, remedy, err)
}

// add appends a file.
func (t *table) add(p part) error {
	list := p.fields()
	if t.parts == nil {
		t.list = slices.Clone(list)
		for i, f := range t.list {
			if slices.ContainsFunc(t.list[:i], func(o field) bool { return o.name == f.name }) && f.bad == "" {
				t.list[i].bad = "a second column of the same name"
			}
			if !utf8.ValidString(f.name) {
				t.list[i].bad = "a name that is not UTF-8"
			}
		}
	} else if err := t.unify(p); err != nil {
		return err
	}
	t.parts = append(t.parts, p)
	t.count += p.rows()
	return nil
}

// unify makes the columns of another file those of the table. Of texts, what a column is depends on all files.
func (t *table) unify(p part) error {
	list := p.fields()
	if len(list) != len(t.list) {
		return fmt.Errorf("there are %d columns, and %d in the first file", len(list), len(t.list))
	}
	for i := range list {
		a, b := &t.list[i], &list[i]
		same := a.name == b.name && a.text == b.text && a.dtype == b.dtype && a.list == b.list && a.width == b.width &&
			a.unit == b.unit
		_, isText := p.(*csvFile)
		switch {
		case a.name != b.name:
			return fmt.Errorf("column %d is %q, and %q in the first file", i, b.name, a.name)
		case same || p.rows() == 0:
		case t.count == 0:
			t.list[i] = list[i]
		case isText && !a.list && !b.list && !a.text && !b.text:
			a.dtype, a.gaps = source.Common(a.dtype, b.dtype), a.gaps || b.gaps
			a.gaps = a.gaps && !a.dtype.IsFloat()
		case isText && (a.text || b.text):
			*a = field{name: a.name, text: true, width: 1, doubt: cmp.Or(a.doubt, b.doubt)}
		default:
			return fmt.Errorf("column %q is %v, and %v in the first file", a.name, b, a)
		}
	}
	for i := range list { // a text is read as what all of its table are
		list[i] = t.list[i]
		for _, other := range t.parts {
			if f, ok := other.(*csvFile); ok {
				f.list[i] = t.list[i]
			}
		}
	}
	return nil
}

// isText reports whether the table is text, all of which is read for any of its columns.
func (t *table) isText() bool {
	return !slices.ContainsFunc(t.parts, func(p part) bool { _, text := p.(*csvFile); return !text })
}

// column returns the index of a column.
func (t *table) column(name string) (int, error) {
	i := slices.IndexFunc(t.list, func(f field) bool { return f.name == name })
	if i < 0 {
		return 0, t.fail("", fmt.Errorf("there is no column %q; there are: %s", name, t.names()))
	}
	if t.list[i].bad != "" {
		return 0, t.fail(name, fmt.Errorf("is of a type that cannot be stored: %s", t.list[i].bad))
	}
	return i, nil
}

// readRagged makes the lists of a column ragged; those of CSV become text.
func (t *table) readRagged(column int) {
	fields := []*field{&t.list[column]}
	for _, p := range t.parts {
		fields = append(fields, &p.fields()[column])
	}
	for _, f := range fields {
		if t.isText() {
			*f = field{name: f.name, text: true, width: 1}
			continue
		}
		if f.ragged = true; f.bad == textLists {
			f.bad = ""
		}
	}
}

// has returns the first of the names that is a column; -1 for none.
func (t *table) has(names ...string) int {
	for _, name := range names {
		for i, f := range t.list {
			if f.bad == "" && strings.EqualFold(f.name, name) {
				return i
			}
		}
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
		names = append(names, fmt.Sprintf("%.60q", f.name))
	}
	return strings.Join(names, ", ")
}

func (t *table) fail(column string, err error) error {
	path := t.name
	if len(t.at) > 0 {
		path = t.at[0].Path()
	}
	return source.Error(path, column, -1, "", err)
}

// scan yields the rows of some columns, in order.
func (t *table) scan(ctx context.Context, want []int, yield func(*batch) error) error {
	if t.limit != nil {
		return t.scanUntil(ctx, want, yield)
	}
	return t.scanAll(ctx, want, yield)
}

// scanAll yields the rows of some columns, in order, without regard to a limit.
func (t *table) scanAll(ctx context.Context, want []int, yield func(*batch) error) error {
	for i, p := range t.parts {
		rows := int64(0)
		err := p.scan(ctx, want, func(b *batch) error {
			rows += int64(b.rows)
			return yield(b)
		})
		if err == nil && rows != p.rows() {
			err = fmt.Errorf("there are %d rows, and there were %d: the file has changed", rows, p.rows())
		}
		if err != nil {
			return wrap(ctx, t.at[i], err)
		}
	}
	return nil
}
