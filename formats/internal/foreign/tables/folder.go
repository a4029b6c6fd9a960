package tables

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
)

// input is a file of a table, and what the names of the folders that it lies in say of all of its rows.
type input struct {
	source.Place
	keys []folderKey
}

// folderKey is a folder's name KEY=VALUE, as Hive and Spark write it.
type folderKey struct {
	name, value string
	null        bool // there is no value
}

// noValue is what the value of a folder's name is where rows have none.
const noValue = "__HIVE_DEFAULT_PARTITION__"

// Named reports whether a name stands for a table beside a place: a file, or a folder with files.
func Named(beside source.Place, name string) bool {
	at := beside.Beside(name)
	if at.Exists() {
		return true
	}
	if beside.Tree.Single() {
		st, err := os.Stat(at.Path())
		return err == nil && st.IsDir()
	}
	return isFolder(beside.Tree, at.Name)
}

// isFolder reports whether files of a tree lie in a folder of this name.
func isFolder(t *source.Tree, dir string) bool {
	return slices.ContainsFunc(t.Files(), func(f string) bool { _, in := within(f, dir); return in })
}

// within returns the name of a file as it is in a folder.
func within(file, dir string) (string, bool) {
	if dir == "." {
		return file, true
	}
	return strings.CutPrefix(file, dir+"/")
}

// partsOf returns the files of a folder that is a table, in the order of their names: as people count, so that part-2
// comes before part-10. Hidden names, and those that begin with _, are passed over.
func partsOf(t *source.Tree, dir string) (list []input, err error) {
	var first, format string
	names := slices.Clone(t.Files())
	slices.SortStableFunc(names, natural)
	for _, name := range names {
		rest, in := within(name, dir)
		if !in {
			continue
		}
		if log := foreignLog(rest); log != "" {
			return nil, source.Error(t.At(name).Path(), "", -1, "export its rows as Parquet, and name that folder",
				fmt.Errorf("the folder is a table of %s, whose log says which files count: it is not read", log))
		}
		if passedOver(rest) {
			continue
		}
		part, err := inputAt(t.At(name), rest)
		if err != nil {
			return nil, err
		}
		is := formatOf(part.Place)
		switch {
		case is == "":
			return nil, source.Error(part.Path(), "", -1, "take it out of the folder, or name the table's files by a "+
				"pattern", errors.New("is no table, but lies in a folder that is one"))
		case list == nil:
			first, format = part.Path(), is
		case is != format:
			return nil, source.Error(part.Path(), "", -1, "give each table a folder of its own",
				fmt.Errorf("is %s, and %s is %s: the files of a folder are parts of one table", is, first, format))
		case !slices.EqualFunc(part.keys, list[0].keys, sameName):
			return nil, source.Error(part.Path(), "", -1, "give each table a folder of its own",
				fmt.Errorf("lies in folders of other keys than %s: %s, and %s", first, keyNames(part.keys),
					keyNames(list[0].keys)))
		}
		list = append(list, part)
	}
	return list, nil
}

// foreignLog returns whose log a file is that says which files of a folder are its table; "" of any other.
func foreignLog(name string) string {
	for word := range strings.SplitSeq(path.Dir(name), "/") {
		if word == "_delta_log" {
			return "Delta"
		}
	}
	return ""
}

// passedOver reports whether a file in a folder is not a part of its table: what programs write beside the parts.
func passedOver(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasPrefix(part, "_") && !strings.Contains(part, "=") {
			return true
		}
	}
	return false
}

// inputAt returns a file with the keys of its folders.
func inputAt(at source.Place, name string) (in input, err error) {
	in.Place = at
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" {
			continue
		}
		k := folderKey{name: unescaped(key), value: unescaped(value), null: value == noValue}
		if !utf8.ValidString(k.name) || !utf8.ValidString(k.value) {
			return in, source.Error(at.Path(), "", -1, "name the folder otherwise", fmt.Errorf("the folder %.60q is %w",
				part, graph.ErrText))
		}
		if slices.ContainsFunc(in.keys, func(o folderKey) bool { return o.name == k.name }) {
			return in, source.Error(at.Path(), "", -1, "name the folder otherwise",
				fmt.Errorf("the key %.60q is in the names of two folders", k.name))
		}
		in.keys = append(in.keys, k)
	}
	return in, nil
}

// unescaped takes the percent signs out of a part of a folder's name.
func unescaped(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

func sameName(a, b folderKey) bool { return a.name == b.name }

// keyNames spells the keys of folders.
func keyNames(keys []folderKey) string {
	var names []string
	for _, k := range keys {
		names = append(names, fmt.Sprintf("%.60q", k.name))
	}
	return cmp.Or(source.Few(names), "none")
}

// formatOf says what a file of a table is: by its first bytes, of a text by its name; "": no table.
func formatOf(at source.Place) string {
	head, err := at.Head()
	if err != nil {
		return ""
	}
	if isTable(head) {
		if head[0] == 'P' {
			return "Parquet"
		}
		return "Arrow"
	}
	name := strings.ToLower(at.Name)
	for _, ending := range []string{".gz", ".bz2", ".zst"} {
		name = strings.TrimSuffix(name, ending)
	}
	if ext := path.Ext(name); (ext == ".csv" || ext == ".tsv") && source.NotLines(head) == "" {
		return "CSV"
	}
	return ""
}

// natural compares paths, folder by folder, as people count: part-2 comes before part-10.
func natural(a, b string) int {
	return cmp.Or(slices.CompareFunc(strings.Split(a, "/"), strings.Split(b, "/"), naturalName), cmp.Compare(a, b))
}

func naturalName(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		a, b = a[len(x):], b[len(y):]
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// digits returns the digits that a text begins with.
func digits(text string) string {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return text[:i]
		}
	}
	return text
}

// localParts returns the parts of a folder on the disk.
func localParts(beside *source.Tree, dir string) ([]input, error) {
	t, err := beside.Folder(dir)
	if err != nil {
		return nil, err
	}
	list, err := partsOf(t, ".")
	if err == nil && list == nil {
		err = errNoParts(dir)
	}
	return list, err
}

// errNoParts is a folder without a file of a table.
func errNoParts(dir string) error {
	return source.Error(filepath.Clean(dir), "", -1, "a table is Parquet, Arrow or CSV: export it as one",
		errors.New("the folder has no table in it"))
}
