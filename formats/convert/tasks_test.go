package convert

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/depot"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/underway"
)

// inTasks converts in tasks for n processes, one after the other.
func inTasks(ctx context.Context, src, dst string, n int, opt Options) (res *Result, err error) {
	stages, err := PlanTasks(ctx, src, dst, n, opt)
	if err != nil {
		return nil, err
	}
	for _, stage := range stages {
		for _, task := range stage {
			if res, err = RunTask(ctx, task, opt); err != nil {
				return nil, err
			}
		}
	}
	return res, CleanTasks(ctx, dst)
}

// tasksMake converts in tasks, and expects the dataset that converting at once made.
func tasksMake(t *testing.T, whole *formats.Dataset, src string, n int, opt Options) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "tasks")
	_, err := inTasks(t.Context(), src, dst, n, opt)
	expect.Ensure(t, err == nil, "%d tasks of %s, %+v: %v", n, src, opt, err)
	got := expect.Must(formats.Open(dst))(t)
	expect.That(t, got.ID() == whole.ID(), "%d tasks of %s, %+v, make\n%s\nnot\n%s", n, src, opt, spell(t, got),
		spell(t, whole))
	expect.OK(t, got.Close())
	_, err = os.Stat(workOf(dst))
	expect.That(t, errors.Is(err, os.ErrNotExist), "tasks leave a folder: %v", err)
}

// TestTasksMakeWhatConvertingAtOnceWrites, of several types, with columns, splits and names.
func TestTasksMakeWhatConvertingAtOnceWrites(t *testing.T) {
	typed := newLibrary(5).write(t)
	names := write(t, "edges.csv", "src,dst,weight\nada,bob,1\ncal,bob,2\nbob,dan,3\neve,cal,4\nada,ada,5\nada,bob,6\n")
	numbers := write(t, "numbers.txt", "\xef\xbb\xbf# a comment\r\n0 1 5\r\n3 1 6\r1 1 7\n7 2 5.5\n0 1 4\n1 0 1\n")
	words := write(t, "words.csv", "a,b,time,note\n0,1,5,6\n1,2,5,7\n2,0,6,x\n0,2,9.25,1\n")
	for i, c := range []struct {
		src string
		opt Options
	}{{typed, Options{}}, {names, Options{Direction: Symmetrise, Loops: AddLoops}}, {names, Options{Merge: MergeSum}},
		{names, Options{Direction: Symmetrise}}, {names, Options{Reorder: ByDegree}}, {numbers, Options{}},
		{numbers, Options{Columns: []string{"src", "dst", "weight"}, Direction: Symmetrise, Reorder: ByDegree}},
		{numbers, Options{Columns: []string{"src:user", "dst:item", "x"}, Keep: []string{"x"}}},
		{names, Options{Columns: []string{"src:user", "dst:item", "x"}}},
		{words, Options{}}, {words, Options{ByTime: true, TimesIn: "ms", Loops: DropLoops}},
		{numbers, Options{Strict: true, Columns: []string{"src", "dst", "x"}, IDs: "numbers"}}} {
		_, whole := convert(t, c.src, c.opt)
		for _, n := range []int{1 + i%2, 5, 16}[:2+i/11] {
			tasksMake(t, whole, c.src, n, c.opt)
		}
	}
}

// TestATaskThatPanickedIsNotDone: a mapped source that becomes shorter ends a task like that, before there is an error.
func TestATaskThatPanickedIsNotDone(t *testing.T) {
	src := write(t, "edges.txt", "0 1\n1 2\n2 0\n3 0\n")
	_, whole := convert(t, src, Options{})
	dst := filepath.Join(t.TempDir(), "tasks")
	stages := expect.Must(PlanTasks(t.Context(), src, dst, 2, Options{}))(t)
	panics := 0
	for _, stage := range stages {
		for _, task := range stage {
			func() {
				defer func() {
					if recover() != nil {
						panics++
					}
				}()
				_, _ = RunTask(t.Context(), task, Options{Progress: func(string, int64, int64) { panic("a fault") }})
			}()
			_, err := RunTask(t.Context(), task, Options{})
			expect.Ensure(t, err == nil, "%s after a panic: %v", task, err)
		}
	}
	got := expect.Must(formats.Open(dst))(t)
	expect.That(t, panics > 0 && got.ID() == whole.ID(), "after %d panics: %s, not %s", panics, got.ID(), whole.ID())
	expect.OK(t, got.Close())
}

// A task that makes the dataset, and is started again while it does, waits for the other and returns as that does; it
// makes the dataset where the other one dies.
func TestATaskThatIsStartedTwiceMakesTheDatasetOnce(t *testing.T) {
	src := write(t, "edges.txt", "0 1\n1 2\n2 0\n3 0\n")
	for _, opt := range []Options{{}, {Force: true}} {
		dst := filepath.Join(t.TempDir(), "tasks")
		stages := expect.Must(PlanTasks(t.Context(), src, dst, 1, opt))(t)
		tasks := slices.Concat(stages...)
		last := tasks[len(tasks)-1]
		for _, task := range tasks[:len(tasks)-1] {
			_, err := RunTask(t.Context(), task, opt)
			expect.OK(t, err)
		}
		dies := expect.Must(formats.Create(dst, formats.WriterOptions{}))(t)
		const twice = 4
		ended := make(chan error, twice)
		for range twice {
			go func() {
				_, err := RunTask(t.Context(), last, opt)
				ended <- err
			}()
		}
		for len(underway.Look().Waits) < twice {
			expect.Ensure(t, len(ended) == 0, "one did not wait")
			runtime.Gosched()
		}
		expect.OK(t, dies.Abort())
		for range twice {
			expect.OK(t, <-ended)
		}
		ds := expect.Must(formats.Open(dst))(t)
		expect.That(t, ds.Manifest().Generation == 1, "the dataset was made %d times", ds.Manifest().Generation)
		expect.OK(t, ds.Close(), CleanTasks(t.Context(), dst))
	}
}

// parquetEdges writes edges to a file of Parquet, in groups of rows.
func parquetEdges(t *testing.T, path string, groups, rows int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	root := expect.Must(schema.NewGroupNode("schema", parquet.Repetitions.Required, schema.FieldList{
		schema.NewInt64Node("src", parquet.Repetitions.Required, -1),
		schema.NewInt64Node("dst", parquet.Repetitions.Required, -1)}, -1))(t)
	f := expect.Must(os.Create(path))(t)
	w := file.NewParquetWriter(f, root, file.WithWriterProps(parquet.NewWriterProperties(
		parquet.WithDictionaryDefault(false))))
	for range groups {
		g := w.AppendRowGroup()
		for range 2 {
			ids := make([]int64, rows)
			for i := range ids {
				ids[i] = r.Int64N(20_000)
			}
			c := expect.Must(g.NextColumn())(t)
			_, err := c.(*file.Int64ColumnChunkWriter).WriteBatch(ids, nil, nil)
			expect.OK(t, err, c.Close())
		}
	}
	expect.OK(t, w.Close())
}

// TestTasksReadAFolderOfParquetOnce: its bytes, and as much again as footers are.
func TestTasksReadAFolderOfParquetOnce(t *testing.T) {
	dir, size := t.TempDir(), int64(0)
	for i := range 3 {
		path := filepath.Join(dir, fmt.Sprintf("e%d.parquet", i))
		parquetEdges(t, path, 10, 20_000, uint64(i))
		size += expect.Must(os.Stat(path))(t).Size()
	}
	mapping := filepath.Join(dir, "graph.yaml")
	put(t, dir, map[string]string{"graph.yaml": "edges:\n  n:e:n: {file: 'e*.parquet', src: src, dst: dst}\n"})
	_, whole := convert(t, mapping, Options{})
	dst := filepath.Join(t.TempDir(), "x")
	for _, stage := range expect.Must(PlanTasks(t.Context(), mapping, dst, 5, Options{}))(t) {
		for _, task := range stage {
			expect.Must(RunTask(t.Context(), task, Options{}))(t)
		}
	}
	read, edges, most := int64(0), int64(0), int64(0)
	for _, task := range []string{"read-0", "read-1", "read-2", "read-3", "read-4", "nodes-0", "range-0", "range-1",
		"range-2", "range-3", "range-4"} {
		var d done
		expect.OK(t, readJSON(expect.Must(depot.Of(t.Context(), workOf(dst)))(t), doneFile(task), &d))
		if read += d.Read; d.Range != nil {
			edges, most = edges+d.Range.Edges, max(most, d.Range.Edges)
		}
	}
	expect.That(t, read >= size && read <= size*105/100, "%d bytes were read, of %d", read, size)
	expect.That(t, most*5 <= edges*125/100, "a range has %d of %d edges", most, edges)
	got := expect.Must(formats.Open(dst))(t)
	expect.That(t, got.ID() == whole.ID(), "another dataset")
	expect.OK(t, got.Close(), CleanTasks(t.Context(), dst))
}

// TestATableThatChangesBetweenTasksIsNoticed, also where the mapping is named, and not its folder.
func TestATableThatChangesBetweenTasksIsNoticed(t *testing.T) {
	dir := files(t, map[string]string{"graph.yaml": "edges:\n  n:e:n: {file: e.csv, src: src, dst: dst}\n",
		"e.csv": "src,dst\n0,1\n1,2\n"})
	mapping := filepath.Join(dir, "graph.yaml")
	dst := filepath.Join(t.TempDir(), "x")
	stages := expect.Must(PlanTasks(t.Context(), mapping, dst, 2, Options{}))(t)
	put(t, dir, map[string]string{"e.csv": "src,dst\n0,1\n1,2\n2,0\n"})
	_, err := RunTask(t.Context(), stages[0][0], Options{})
	expect.That(t, errors.Is(err, source.ErrChanged), "%v", err)
	expect.OK(t, CleanTasks(t.Context(), dst))
}

// parquetText writes columns of text to a file of Parquet, in groups of this number of rows.
func parquetText(t *testing.T, path string, group int, names []string, columns ...[]string) {
	var fields schema.FieldList
	for _, name := range names {
		fields = append(fields, schema.NewByteArrayNode(name, parquet.Repetitions.Required, -1))
	}
	root := expect.Must(schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1))(t)
	w := file.NewParquetWriter(expect.Must(os.Create(path))(t), root)
	for from := 0; from < len(columns[0]); from += group {
		g := w.AppendRowGroup()
		for _, column := range columns {
			var text []parquet.ByteArray
			for _, s := range column[from:min(from+group, len(column))] {
				text = append(text, parquet.ByteArray(s))
			}
			c := expect.Must(g.NextColumn())(t)
			_, err := c.(*file.ByteArrayColumnChunkWriter).WriteBatch(text, nil, nil)
			expect.OK(t, err, c.Close())
		}
	}
	expect.OK(t, w.Close())
}

// TestTasksOfTypedTablesWithKeysOfText, of nodes that have a table and of some that edges alone name.
func TestTasksOfTypedTablesWithKeysOfText(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(8, 8))
	draw := func(of string, n, rows int) (list []string) {
		for range rows {
			list = append(list, fmt.Sprintf("%s-%d", of, r.IntN(n)))
		}
		return list
	}
	var users []string
	for _, i := range r.Perm(200) {
		users = append(users, fmt.Sprintf("user-%d", i))
	}
	parquetText(t, filepath.Join(dir, "users.parquet"), 60, []string{"name"}, users)
	for i := range 2 {
		parquetText(t, filepath.Join(dir, fmt.Sprintf("buys-%d.parquet", i)), 100, []string{"who", "what"},
			draw("user", 200, 700), draw("item", 90, 700))
	}
	parquetText(t, filepath.Join(dir, "knows.parquet"), 70, []string{"a", "b"}, draw("user", 200, 800),
		draw("user", 200, 800))
	mapping := filepath.Join(dir, "graph.yaml")
	put(t, dir, map[string]string{"graph.yaml": "nodes:\n  user: {file: users.parquet, id: name}\nedges:\n" +
		"  user:buys:item: {file: 'buys-*.parquet', src: who, dst: what}\n" +
		"  user:knows:user: {file: knows.parquet, src: a, dst: b}\n"})
	_, whole := convert(t, mapping, Options{})
	for _, n := range []int{1, 2, 5, 16} {
		tasksMake(t, whole, mapping, n, Options{})
	}
}

// tarred returns an archive of one file.
func tarred(t *testing.T, name, text string) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	expect.OK(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}))
	_, err := w.Write([]byte(text))
	expect.OK(t, err, w.Close())
	return b.String()
}

// TestPlanningSaysWhyOneTaskReadsASource, of each kind that is not read in parts.
func TestPlanningSaysWhyOneTaskReadsASource(t *testing.T) {
	edges := "src,dst\n0,1\n1,2\n2,0\n3,1\n"
	mapped := func(table string) string {
		return filepath.Join(files(t, map[string]string{"edges.csv": edges,
			"graph.yaml": "nodes: {n: {count: 20000}}\nedges:\n  n:e:n: {file: " + table + ", src: src, dst: dst}\n"}),
			"graph.yaml")
	}
	table := mapped("edges.arrow")
	timeTable(t, filepath.Dir(table), "edges.arrow", arrow.Second, []int64{1, 2, 3})
	database := filepath.Join(files(t, map[string]string{"a.csv": "id,other\n5,7\n7,5\n",
		"graph.yaml": "nodes:\n  a: {file: a.csv, id: id, keys: {other: a}, kinds: {}}\n"}), "graph.yaml")
	rows := mapped("edges.parquet")
	parquetEdges(t, filepath.Join(filepath.Dir(rows), "edges.parquet"), 3, 5, 1)
	for said, c := range map[string]struct {
		src string
		opt Options
	}{
		"it is compressed by gzip":     {src: write(t, "edges.csv.gz", zipped(edges))},
		"edges.csv is not Parquet":     {src: mapped("edges.csv")},
		"edges.arrow is not Parquet":   {src: table},
		`"a" is a table of a database`: {src: database},
		"it is an archive":             {src: write(t, "edges.tar", tarred(t, "edges.csv", edges))},
		`parts of the kind "mtx" are not read`: {src: write(t, "a.mtx",
			"%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n")},
		"to be strict takes all of it":         {src: write(t, "edges.csv", edges), opt: Options{Strict: true}},
		"bad lines are counted over all of it": {src: write(t, "edges.csv", edges), opt: Options{SkipBad: 1}},
		`the order "community" takes all edges`: {src: write(t, "edges.csv", edges),
			opt: Options{Reorder: ByCommunity}},
		"text without quotes: parts are read": {src: write(t, "edges.csv", edges)},
		"text with quotes around fields: parts are read": {src: write(t, "edges.csv",
			"src,dst\n\"a, b\",\"c\"\n\"c\",\"d\"\"\"\n")},
		"a table of Parquet with groups of rows: so is that": {src: rows},
	} {
		var log []string
		opt := c.opt
		opt.Log = func(line string) { log = append(log, line) }
		_, whole := convert(t, c.src, c.opt)
		dst := filepath.Join(t.TempDir(), "x")
		stages := expect.Must(PlanTasks(t.Context(), c.src, dst, 3, opt))(t)
		if strings.Contains(said, ": ") {
			expect.That(t, len(log) == 0 && len(stages[0]) == 4, "%s: %q, %q", said, log, stages[0])
		} else {
			expect.That(t, len(log) == 1 && strings.HasPrefix(log[0], "one task reads the source: ") &&
				strings.HasSuffix(log[0], said) && len(stages[0]) == 1,
				"%s: %q, %q", said, log, stages[0])
		}
		expect.OK(t, CleanTasks(t.Context(), dst))
		tasksMake(t, whole, c.src, 3, c.opt)
	}
}
