package relbench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// small is a database without a fault.
var small = map[string]string{
	"manifest.yaml": "name: shop\ntest_timestamp: '2024-01-08'\ntables:\n" +
		"  users: {pkey: user, fkeys: {boss: users}}\n" +
		"  items: {pkey: item, fkeys: {}}\n  orders: {time_col: at, fkeys: {user: users, item: items}}\n",
	"db/users.csv":  "user,boss,age\nann,bob,41\nbob,ann,\n",
	"db/items.csv":  "item,price\n7,1\n5,2\n",
	"db/orders.csv": "user,item,at\nann,7,2024-01-01\nbob,5,1823-05-06\n",
	"tasks/churn/manifest.yaml": "name: churn\ntask_type: binary_classification\nentity_table: users\n" +
		"entity_col: user\ntarget_col: gone\ntime_col: at\n",
	"tasks/churn/train.csv": "at,user,gone\n2024-01-02,ann,0\n2024-01-04,ann,1\n",
	"tasks/next/manifest.yaml": "name: next\ntask_type: recommendation\nsrc_entity_table: users\n" +
		"src_entity_col: user\ndst_entity_table: items\ndst_entity_col: item\ntime_col: at\n",
	"tasks/next/train.csv": "at,user,item\n2024-01-02,ann,7|5\n",
}

// faults are what may be wrong with it; nothing is where in is "".
var faults = map[string]struct {
	file, old, text string // a file, of which a text takes the place of another; "": of all
	in, column      string // what the error is about; "": nothing is wrong
	row             int64
	says            string
}{
	"nothing":           {},
	"times beyond 2262": {"db/orders.csv", "1823-05-06", "2500-01-01", "", "", 0, ""},
	"a key that is there twice": {"db/users.csv", "bob,ann,\n", "bob,ann,\nann,,3\n", "db/users.csv", "user", 4,
		"keep one of the rows"},
	"a key that is missing": {"db/users.csv", "bob,ann", ",ann", "db/users.csv", "user", 3, "leave the row out"},
	"text as keys of numbers": {"db/orders.csv", "bob,5", "bob,five", "db/orders.csv", "item", 3,
		"write either as the other"},
	"numbers as keys of text": {"db/orders.csv", "", "user,item,at\n1,7,2024-01-01\n2,7,2024-01-02\n",
		"db/orders.csv", "user", -1, "write either as the other"},
	"a key that no column is": {"manifest.yaml", "pkey: user", "pkey: usr", "db/users.csv", "", -1, "there are: "},
	"a foreign key that no column is": {"manifest.yaml", "boss: users", "chief: users", "db/users.csv", "", -1,
		"there are: "},
	"a foreign key to no table": {"manifest.yaml", "boss: users", "boss: people", "manifest.yaml", "", -1,
		"a manifest is written as"},
	"no foreign key": {"manifest.yaml", "", "name: shop\ntables:\n  users: {pkey: user}\n", "manifest.yaml", "", -1,
		`no table has a foreign key, and edges come from them; name foreign keys under "fkeys" of a table`},
	"a table without a file": {"manifest.yaml", "  users:", "  people: {pkey: id}\n  users:", "manifest.yaml", "",
		-1, "db/NAME.parquet"},
	"a file that is not there": {"manifest.yaml", "users: {", "users: {file: db/people.csv, ", "manifest.yaml", "",
		-1, "files are named"},
	"a time that is none": {"db/orders.csv", "1823-05-06", "yesterday", "db/orders.csv", "at", 3, "such as"},
	"a task of no table": {"tasks/churn/manifest.yaml", "entity_table: users", "entity_table: people",
		"manifest.yaml", "", -1, "correct the task"},
	"a task that recommends no table": {"tasks/next/manifest.yaml", "dst_entity_table: items",
		"dst_entity_table: things", "manifest.yaml", "", -1, "correct the task"},
	"a task without its column": {"tasks/churn/manifest.yaml", "entity_col: user", "entity_col: usr",
		"tasks/churn/train.csv", "", -1, "there are: "},
	"a label that is missing": {"tasks/churn/train.csv", "ann,1", "ann,", "tasks/churn/train.csv", "gone", 3,
		"leave the row out"},
	"labels that are missing": {"tasks/churn/train.csv", "", "at,user\n2024-01-02,ann\n", "tasks/churn/train.csv",
		"", -1, "there are: "},
	"labels that are text": {"tasks/churn/train.csv", "", "at,user,gone\n2024-01-02,ann,no\n2024-01-04,ann,yes\n",
		"tasks/churn/train.csv", "gone", -1, "number the classes"},
	"a row without a time": {"tasks/churn/train.csv", "2024-01-04", "", "tasks/churn/train.csv", "at", 3,
		"leave the row out"},
	"a target of another type": {"tasks/next/train.csv", "7|5", "7|five", "tasks/next/train.csv", "item", 2,
		"is not a number"},
}

// A fault in a database is an error that names the file, the column, the row if there is one, and what to do, and it
// leaves nothing behind. These are no faults: tables that name each other, and times before 1970 and beyond 2262.
func TestWhatIsWrongWithADatabaseIsNamed(t *testing.T) {
	for what, c := range faults {
		dir := t.TempDir()
		for name, text := range small {
			if name == c.file && c.old != "" {
				expect.Ensure(t, strings.Contains(text, c.old), "%s: no %q in %s", what, c.old, name)
				text = strings.Replace(text, c.old, c.text, 1)
			} else if name == c.file {
				text = c.text
			}
			expect.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700),
				os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		tree := expect.Must(source.OpenTree(dir, nil))(t)
		g, err := Reader.Read(context.Background(), tree.At("manifest.yaml"), &source.Request{
			Budget: &source.Budget{Memory: &pinned.Ledger{}, Dir: dir}})
		if c.in == "" {
			expect.OK(t, err)
			expect.OK(t, g.Close())
			continue
		}
		var at *formats.Error
		expect.Ensure(t, errors.As(err, &at), "%s: %v", what, err)
		expect.That(t, at.Path == filepath.Join(dir, c.in) && at.Column == c.column && at.Row == c.row &&
			strings.Contains(err.Error(), c.says), "%s: %s, column %q, row %d: %v", what, at.Path, at.Column, at.Row,
			err)
		left := 0
		expect.OK(t, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				left++
			}
			return err
		}))
		expect.That(t, left == len(small), "%s: %d files, of %d", what, left, len(small))
	}
}

// Tables of a database, and of its tasks, may be folders of parts, whatever these are called.
func TestTablesOfADatabaseMayBeFolders(t *testing.T) {
	const users, orders, churn = "db/users.csv", "db/orders.csv", "tasks/churn/train.csv"
	head := func(text string) (string, string) {
		lines := strings.SplitAfterN(text, "\n", 3)
		return lines[0] + lines[1], lines[0] + lines[2]
	}
	parts := maps.Clone(small)
	parts["db/users.csv/part-9.csv"], parts["db/users.csv/part-10.csv"] = head(small[users])
	parts["db/orders/a/0.csv"], parts["db/orders/b/0.csv"] = head(small[orders])
	parts["tasks/churn/train/9.csv"], parts["tasks/churn/train/10.csv"] = head(small[churn])
	parts["db/users.csv/_SUCCESS"] = ""
	for _, name := range []string{users, orders, churn} {
		delete(parts, name)
	}
	var spelled []string
	for _, files := range []map[string]string{small, parts} {
		at := sourcetest.Folder(t, "shop", files)
		g := expect.Must(Reader.Read(t.Context(), at, &source.Request{}))(t)
		spelled = append(spelled, sourcetest.Spell(t, g))
		expect.OK(t, g.Close())
	}
	expect.That(t, spelled[0] == spelled[1], "files: %s\nfolders: %s", spelled[0], spelled[1])
}

// A task whose labels are a column of the table takes key and time from the database's manifest, of a table without a
// key the numbers of the rows. The column is left out for the task that predicts it, and a note says so for others.
func TestATaskMayPredictAColumnOfItsTable(t *testing.T) {
	dir := t.TempDir()
	for name, text := range small {
		if name == "db/orders.csv" {
			text = "user,item,at,price\nann,7,2024-01-01,3\nbob,5,2024-01-02,4\nann,5,2024-01-03,7\n"
		}
		expect.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	expect.OK(t, os.MkdirAll(filepath.Join(dir, "tasks/price"), 0o700),
		os.WriteFile(filepath.Join(dir, "tasks/price/manifest.yaml"), []byte("name: price\nkind: autocomplete\n"+
			"task_type: regression\nentity_table: orders\ntarget_col: price\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "tasks/price/train.csv"), []byte("at,primary_key,price\n2024-01-02,1,4\n"+
			"2024-01-03,2,7\n"), 0o600))
	tree := expect.Must(source.OpenTree(dir, nil))(t)
	for _, name := range []string{"", "price"} {
		g := expect.Must(Reader.Read(context.Background(), tree.At("manifest.yaml"), &source.Request{Task: name,
			Budget: &source.Budget{Memory: &pinned.Ledger{}, Dir: dir}}))(t)
		k := slices.IndexFunc(g.Splits, func(s source.Split) bool { return s.Task == "price" })
		s := g.Splits[k]
		expect.That(t, slices.Equal(s.IDs, []int64{1, 2}) && s.Labels[0] == 4 && s.Labels[8] == 7 && len(s.Times) == 2,
			"%+v", s)
		stored := slices.ContainsFunc(g.Nodes[2].Columns, func(c source.Column) bool { return c.Name == "numerical" })
		told := strings.Contains(source.Text(g.Notes), `predicts the column "price"`)
		expect.That(t, stored == (name == "") && told == stored, "task %q: stored %t, told %t", name, stored, told)
		expect.OK(t, g.Close())
	}
}

// A task's manifest may name a column of first times, which a row may lack. They are in the unit of times.
func TestRowsOfATaskMayHaveFirstTimes(t *testing.T) {
	files := maps.Clone(small)
	files["tasks/churn/manifest.yaml"] += "time_from_col: since\n"
	files["tasks/churn/train.csv"] = "at,user,gone,since\n2024-01-02,ann,0,2024-01-01\n2024-01-04,ann,1,\n"
	read := func() (*source.Graph, error) {
		return Reader.Read(t.Context(), sourcetest.Folder(t, "shop", files), &source.Request{})
	}
	g := expect.Must(read())(t)
	s := g.Splits[slices.IndexFunc(g.Splits, func(s source.Split) bool { return s.Task == "churn" })]
	expect.That(t, slices.Equal(s.From, []int64{s.Times[0] - 24*60*60*1_000_000, source.NoTime}), "%+v", s)
	expect.OK(t, g.Close())
	for _, bad := range []string{"5\n2024-01-04,ann,1,6\n", "0.5\n2024-01-04,ann,1,1.5\n",
		"never\n2024-01-04,ann,1,\n"} {
		files["tasks/churn/train.csv"] = "at,user,gone,since\n2024-01-02,ann,0," + bad
		_, err := read()
		var at *formats.Error
		expect.That(t, errors.As(err, &at) && at.Column == "since", "first times %q: %v", bad, err)
	}
}

// A lookback is in seconds where times have a unit, and in the unit of times that are plain numbers.
func TestALookbackOfATaskIsATimeBeforeItsRows(t *testing.T) {
	for _, x := range []struct {
		unit, rows string
		want       func(times []int64) []int64
		bad        string // the column at fault
	}{
		{"us", "2024-01-02,ann,0,86400\n2024-01-04,ann,1,\n2024-01-05,ann,1,9300000000000\n",
			func(times []int64) []int64 {
				return []int64{times[0] - 86400*1_000_000, source.NoTime, source.NoTime}
			}, ""},
		{"", "100,ann,0,7\n-5,ann,1,0\n-9,ann,1,9223372036854775807\n", func([]int64) []int64 {
			return []int64{93, -5, source.NoTime}
		}, ""},
		{"", "100,ann,0,-7\n", nil, "back"}, {"", "100,ann,0,2024-01-01\n", nil, "back"},
		{"", "100,ann,0,0.5\n", nil, "back"}, {"both", "100,ann,0,5\n", nil, "back"},
	} {
		files := maps.Clone(small)
		files["tasks/churn/manifest.yaml"] += "lookback_col: back\n"
		if x.unit == "both" {
			files["tasks/churn/manifest.yaml"] += "time_from_col: gone\n"
		}
		files["tasks/churn/train.csv"] = "at,user,gone,back\n" + x.rows
		g, err := Reader.Read(t.Context(), sourcetest.Folder(t, "shop", files), &source.Request{})
		if x.want == nil {
			var at *formats.Error
			expect.That(t, errors.As(err, &at) && at.Column == x.bad, "%q: %v", x.rows, err)
			continue
		}
		expect.Ensure(t, err == nil, "%q: %v", x.rows, err)
		s := g.Splits[slices.IndexFunc(g.Splits, func(s source.Split) bool { return s.Task == "churn" })]
		expect.That(t, s.Unit == x.unit && slices.Equal(s.From, x.want(s.Times)), "%q: %+v", x.rows, s)
		expect.OK(t, g.Close())
	}
}

// notesOf reads the small database with other files, and spells its notes: "CHANGE COUNT NAME: TEXT".
func notesOf(t *testing.T, others map[string]string, r *source.Request) string {
	t.Helper()
	dir, files := t.TempDir(), maps.Clone(small)
	maps.Copy(files, others)
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
	}
	tree := expect.Must(source.OpenTree(dir, nil))(t)
	r.Budget = &source.Budget{Dir: dir}
	g := expect.Must(Reader.Read(context.Background(), tree.At("manifest.yaml"), r))(t)
	var b strings.Builder
	for _, n := range g.Notes {
		fmt.Fprintf(&b, "%s %d %s: %s\n", n.Change, n.Count, n.Name, n.Text)
	}
	expect.OK(t, g.Close(), tree.Close())
	return b.String()
}

// TestTimesBeyond2200AreDoubted has milliseconds in a CSV, which are taken for seconds.
func TestTimesBeyond2200AreDoubted(t *testing.T) {
	orders := map[string]string{"db/orders.csv": "user,item,at\nann,7,1704103200000\nbob,5,1704103200\n"}
	const doubt = `guessed 1 at: db/orders.csv: "at": 1 time is after the year 2200, if they are seconds; TimesIn`
	said := notesOf(t, orders, &source.Request{UpTo: "all"})
	expect.That(t, strings.Contains(said, doubt), "%s", said)
	said = notesOf(t, orders, &source.Request{UpTo: "all", TimesIn: "ms"})
	expect.That(t, !strings.Contains(said, "after the year 2200"), "%s", said)
}

// TestCellsThatKeepADatabasesColumnFromBeingNumbersAreNamed has NULL among numbers.
func TestCellsThatKeepADatabasesColumnFromBeingNumbersAreNamed(t *testing.T) {
	users := map[string]string{"db/users.csv": "user,boss,age\nann,bob,41\nbob,ann,NULL\n"}
	said := notesOf(t, users, &source.Request{})
	expect.That(t, strings.Contains(said, `guessed 1 age: db/users.csv: "age" is text: 1 of 2 cells are unlike `+
		`the others, such as "NULL" in line 3; Null NULL takes it`), "%s", said)
	said = notesOf(t, users, &source.Request{Null: []string{"NULL"}})
	expect.That(t, !strings.Contains(said, `"age" is text`), "%s", said)
}

// TestWhatComesOfAnyDatabase: see sourcetest.Outcomes.
func TestWhatComesOfAnyDatabase(t *testing.T) {
	sourcetest.Outcomes(t, sourcetest.Case{Name: "shop", Reader: Reader, At: "manifest.yaml", Lines: true,
		Files: sourcetest.Within(t, "testdata/shop"),
		Keep: []string{"db/returns.csv", "db/users.csv", "tasks/next/manifest.yaml", "tasks/next/test.csv",
			"tasks/churn/val.csv",
			"tasks/churn/test.csv"},
		Requests: []source.Request{{}, {UpTo: "all"}, {UpTo: "2024-01-03T10:00:00", Task: "churn"}}})
}
