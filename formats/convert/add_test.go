package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// adding is a dataset to add to: 30 authors and 80 papers.
func adding(t *testing.T) string {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "data")
	expect.Must(Run(context.Background(), newLibrary(9).write(t), dst, Options{}))(t)
	return dst
}

func numpy(t *testing.T, data []byte) string { t.Helper(); return write(t, "x.npy", string(data)) }

func counted8(n int, first uint8) []uint8 {
	v := make([]uint8, n)
	for i := range v {
		v[i] = first + uint8(i)
	}
	return v
}

// extra is an addition and what it is.
type extra struct {
	sort
	name, typ, path string
}

// adds returns options that add these, too.
func adds(o AddOptions, list ...extra) AddOptions {
	for _, x := range list {
		to := map[sort]*[]Addition{nodeColumn: &o.Columns, edgeColumn: &o.EdgeColumns, split: &o.Splits}[x.sort]
		*to = append(*to, Addition{x.name, x.typ, x.path})
	}
	return o
}

func TestANameThatIsNotTextIsRefusedBeforeAnythingIsReplaced(t *testing.T) {
	data := adding(t)
	id := func() [16]byte {
		ds := open(t, data)
		return ds.ID()
	}
	before := id()
	for _, name := range []string{"s\xf1", "a\x1b[2J", "a\u202e", "a;b"} {
		for _, a := range []extra{{split, name, "author", numpy(t, expect.NPY([]int64{1}))},
			{nodeColumn, name, "author", numpy(t, expect.NPY(counted8(30, 1)))},
			{edgeColumn, name, "", numpy(t, expect.NPY(counted8(140, 1)))}} {
			_, err := Add(context.Background(), data, adds(AddOptions{Force: true}, a))
			expect.That(t, errors.Is(err, graph.ErrSchema), "%q: %v", name, err)
			expect.That(t, id() == before, "the dataset is another one")
		}
	}
}

func TestArraysAreAddedAsTheyAre(t *testing.T) {
	data := adding(t)
	mask := make([]bool, 80)
	mask[0], mask[7], mask[79] = true, true, true
	list := []extra{
		{nodeColumn, "wide", "paper", numpy(t, expect.NPY(counted8(240, 1), 80, 3))},
		{nodeColumn, "thin", "author", numpy(t, expect.NPY(counted8(30, 2), 30, 1))},
		{nodeColumn, "label", "author", numpy(t, expect.NPY(counted8(30, 3)))},
		{edgeColumn, "weight", "", numpy(t, expect.NPY(counted8(140, 4)))},
		{split, "masked", "paper", numpy(t, expect.NPY(mask))},
		{split, "listed", "author", numpy(t, expect.NPY([]int64{29, 0, 28}))},
	}
	progress := 0
	s, err := Add(context.Background(), data,
		adds(AddOptions{Progress: func(string, int64, int64) { progress++ }}, list...))
	expect.OK(t, err)
	ds := open(t, data)
	report, err := formats.Check(context.Background(), data, formats.CheckOptions{})
	expect.Ensure(t, err == nil && report.Found <= 0, "%v: %v", err, report)
	g := ds.Graph()
	wide, _ := g.NodeColumn(2, "wide")
	thin, _ := g.NodeColumn(0, "thin")
	label, _ := g.NodeColumn(0, "label")
	weight, _ := g.EdgeColumn("weight")
	expect.That(t, slices.Equal(wide.Bytes(), counted8(240, 1)) && wide.Rank() == 2 && slices.Equal(thin.Bytes(),
		counted8(30, 2)) && thin.Rank() == 1 && slices.Equal(weight.Bytes(), counted8(140, 4)) &&
		label.DType() == unified.Int64, "%v, %v, %v, %v", wide, thin, weight, label)
	if v, _ := unified.View[int64](label); v[0] != 3 || v[29] != 32 || ds.Manifest().Provenance["classes"] != "33" {
		t.Errorf("labels %v of %s classes", v, ds.Manifest().Provenance["classes"])
	}
	for name, want := range map[string][]int32{"masked": {0, 7, 79}, "listed": {29, 0, 28}} {
		seeds := expect.Must(g.Split(name, 0))(t)
		got, _ := unified.View[int32](seeds.Sets[0].IDs)
		expect.That(t, slices.Equal(got, want), "%s: %v", name, got)
	}
	if n := len(s.Nodes[0].Columns); n != 3 || progress == 0 || len(s.EdgeColumns) != 1 {
		t.Errorf("the schema has %d columns of authors, told %d times", n, progress)
	}
}

// TestForceReplacesTheColumnAndTheSplitOfThatNameAlone
func TestForceReplacesTheColumnAndTheSplitOfThatNameAlone(t *testing.T) {
	data := adding(t)
	add := func(force bool, list ...extra) error {
		_, err := Add(context.Background(), data, adds(AddOptions{Force: force}, list...))
		return err
	}
	both := []extra{{nodeColumn, "x", "paper", numpy(t, expect.NPY(counted8(80, 1)))},
		{nodeColumn, "x", "author", numpy(t, expect.NPY(counted8(30, 2)))},
		{edgeColumn, "x", "", numpy(t, expect.NPY(counted8(140, 3)))},
		{split, "x", "paper", numpy(t, expect.NPY([]int64{1, 2}))}}
	expect.OK(t, add(false, both...))
	for i, says := range []string{`there is a column "x" already: choose another name, or replace it (Force)`,
		`there is a column "x" already`, `there is a column "x" already`, ""} {
		expect.Says(t, add(false, both[i]), formats.ErrExist, says, "addition %d once more", i)
	}
	contents := func() map[string]string {
		ds := open(t, data)
		g, all := ds.Graph(), map[string]string{}
		for name, of := range map[string]func() (unified.Tensor, bool){
			"paper":  func() (unified.Tensor, bool) { return g.NodeColumn(2, "x") },
			"author": func() (unified.Tensor, bool) { return g.NodeColumn(0, "x") },
			"edges":  func() (unified.Tensor, bool) { return g.EdgeColumn("x") }} {
			if c, ok := of(); ok {
				all[name] = string(c.Bytes())
			}
		}
		if seeds, err := g.Split("x", 0); err == nil {
			all["split"] = string(seeds.Sets[0].IDs.Bytes())
		}
		return all
	}
	want := contents()
	for i, x := range []struct {
		what string
		data []byte
		is   string
	}{{"paper", expect.NPY(counted8(80, 9)), string(counted8(80, 9))},
		{"author", expect.NPY(counted8(30, 9)), string(counted8(30, 9))},
		{"edges", expect.NPY(counted8(140, 9)), string(counted8(140, 9))},
		{"split", expect.NPY([]int64{5}), "\x05\x00\x00\x00"}} {
		both[i].path = numpy(t, x.data)
		expect.Is(t, add(true, both[i]), nil, x.what)
		want[x.what] = x.is
		got := contents()
		expect.That(t, maps.Equal(got, want), "%s: %q, want %q", x.what, got, want)
	}
}

func TestAdditionsThatDoNotFitChangeNothing(t *testing.T) {
	data := adding(t)
	before := expect.Must(os.ReadFile(filepath.Join(data, "dataset.json")))(t)
	ids := expect.NPY([]int64{3, 80})
	cut := expect.NPY(counted8(80, 1))
	for _, c := range []struct {
		sort      sort
		name, typ string
		data      []byte
		want      error
		says      string
	}{
		{nodeColumn, "x", "", ids, ErrOptions, `"": there are several types of nodes, or none of that name: name ` +
			"one, as in author:x="},
		{nodeColumn, "x", "paer", ids, ErrOptions, `"paer": there are several types of nodes, or none of that name`},
		{split, "x", "", ids, ErrOptions, `"": there are several types of nodes`},
		{nodeColumn, "x", "paper", ids, nil, "has the shape [2], but there are 80 nodes"},
		{nodeColumn, "x", "paper", expect.NPY([]int64{1}), nil, "has the shape [1], but there are 80 nodes"},
		{nodeColumn, "x", "author", expect.NPY(counted8(30, 1), 30, 1, 1, 1, 1), nil,
			"has the shape [30 1 1 1 1], but there are 30 nodes"},
		{edgeColumn, "x", "", ids, nil, "has the shape [2], but there are 140 edges"},
		{nodeColumn, "x", "paper", cut[:len(cut)-1], nil, "79 of 80 bytes: unexpected EOF"},
		{nodeColumn, "x", "paper", expect.NPY(make([]int64, 3200), 80, 40)[:300], nil,
			"elements take 25600 bytes, but the file has 300: it is cut short"},
		{nodeColumn, "x", "paper", []byte("\x93NUMPY\x01\x00\x3a\x00{'descr': '<U4', 'fortran_order': False, " +
			"'shape': (80,), }\n  \n"), nil, `"<U4": numbers are wanted`},
		{nodeColumn, "x", "paper", []byte("text"), nil, "x.npy"},
		{split, "x", "paper", expect.NPY(make([]bool, 79)), nil, "a mask has a boolean a node, not "},
		{split, "x", "paper", expect.NPY(make([]bool, 80), 80, 1), nil, "a mask has a boolean a node, not "},
		{split, "x", "paper", expect.NPY([]int64{1, 2}, 2, 1), nil,
			"a split is a list of ids, or a boolean a node, not "},
		{split, "x", "paper", ids, nil, "row 1: node 80 is not below 80"},
		{split, "x", "paper", expect.NPY([]int64{-1}), nil, "row 0: node -1 is not below 80"},
		{split, "train", "paper", expect.NPY([]int64{1}), formats.ErrExist, ""},
	} {
		a := extra{c.sort, c.name, c.typ, numpy(t, c.data)}
		_, err := Add(context.Background(), data, adds(AddOptions{}, a))
		expect.That(t, err != nil && (c.want == nil || errors.Is(err, c.want)) && strings.Contains(err.Error(),
			c.says) && (c.want != nil || strings.Contains(err.Error(), a.path)), "got %v\nwant %s", err, c.says)
	}
	unchanged(t, data, before)
}

// unchanged sees that a dataset is as it was, and that nothing is left beside it.
func unchanged(t *testing.T, data string, before []byte) {
	t.Helper()
	after, err := os.ReadFile(filepath.Join(data, "dataset.json"))
	expect.That(t, err == nil && string(after) == string(before), "the manifest changed: %v", err)
	report, err := formats.Check(context.Background(), data, formats.CheckOptions{})
	expect.That(t, err == nil && report.Found <= 0, "%v: %v", err, report)
	left, _ := filepath.Glob(data + "?*")
	expect.That(t, len(left) == 0, "left behind: %v", left)
}

func TestAdditionsThatFailHalfwayChangeNothing(t *testing.T) {
	data := adding(t)
	before := expect.Must(os.ReadFile(filepath.Join(data, "dataset.json")))(t)
	good := extra{nodeColumn, "y", "paper", numpy(t, expect.NPY(make([]int64, 80)))}
	if _, err := Add(context.Background(), data, adds(AddOptions{}, good,
		extra{nodeColumn, "x", "paper", "none.npy"})); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	good.name = "label"
	expect.Is(t, expect.Err(Add(context.Background(), data, adds(AddOptions{MemoryLimit: 600}, good))),
		pinned.ErrLimit, "in 600 bytes")
	stopped, stop := context.WithCancel(context.Background())
	stop()
	good.name = "y"
	expect.Is(t, expect.Err(Add(stopped, data, adds(AddOptions{}, good))), context.Canceled, "stopped")
	_, err := Add(context.Background(), t.TempDir(), adds(AddOptions{}, good))
	expect.That(t, err != nil, "a folder that is no dataset was added to")
	unchanged(t, data, before)
}

func TestAdditionsAreNamedInOneWay(t *testing.T) {
	for text, want := range map[string]Addition{"a=b": {Name: "a", Path: "b"}, "a=p:b": {Name: "a", Path: "p:b"},
		"p:a=b=c": {Name: "a", Type: "p", Path: "b=c"}} {
		got := Addition{}
		err := got.UnmarshalText([]byte(text))
		expect.That(t, got == want && err == nil, "%q: %+v, %v", text, got, err)
	}
	for _, text := range []string{"", "a", "a=", "=b", "p:=b"} {
		err := new(Addition).UnmarshalText([]byte(text))
		expect.That(t, err != nil && strings.HasSuffix(err.Error(), `: write name=file.npy, or type:name=file.npy `+
			`for nodes of a type`), "%q: %v", text, err)
	}
	for says, o := range map[string]AddOptions{
		`EdgeColumns: "p" is a type of nodes: write name=file.npy`: adds(AddOptions{},
			extra{edgeColumn, "a", "p", "b"}),
		"Columns, EdgeColumns, Splits, Rows: name what to add": {},
	} {
		_, err := Add(t.Context(), "", o)
		expect.Says(t, err, ErrOptions, says, "what is no addition")
	}
}

func TestForceReplacesTheSetOfItsNodeTypeAlone(t *testing.T) {
	data := adding(t)
	add := func(typ string, ids ...int64) {
		_, err := Add(t.Context(), data, adds(AddOptions{Force: true},
			extra{split, "x", typ, numpy(t, expect.NPY(ids))}))
		expect.OK(t, err)
	}
	add("paper", 1, 2)
	add("author", 3)
	add("author", 4, 5)
	ds := open(t, data)
	seeds := expect.Must(ds.Split("x", 0))(t)
	got := map[int]int64{}
	for _, set := range seeds.Sets {
		got[set.Type] += set.Len()
	}
	expect.That(t, maps.Equal(got, map[int]int64{0: 2, 2: 2}), "%v", got)
}

// TestRowsOfADatasetAreStoredNarrow: as a conversion would have stored them, and those that are added with it.
func TestRowsOfADatasetAreStoredNarrow(t *testing.T) {
	src, values := write(t, "edges.txt", "0 1\n1 2\n"), make([]float64, 3*40)
	for i := range values {
		values[i] = float64(i*i%97) - 40
	}
	features := write(t, "x.npy", string(expect.NPY(values, 3, 40)))
	for _, to := range []string{"int4", "int8", "float16", "feature=int4"} {
		_, want := convert(t, src, Options{Features: features, FeatureDType: []string{to}})
		_, old := convert(t, src, Options{Features: features})
		dir := old.Path()
		s := expect.Must(Add(t.Context(), dir, AddOptions{FeatureDType: []string{to},
			Columns: []Addition{{Name: "more", Path: features}}}))(t)
		ds := expect.Must(formats.Open(dir))(t)
		for _, c := range want.Graph().Schema().Nodes[0].Columns {
			a, _ := ds.Graph().NodeColumn(0, c.Name)
			b, _ := want.Graph().NodeColumn(0, c.Name)
			expect.That(t, bytes.Equal(a.Bytes(), b.Bytes()) && len(b.Bytes()) > 0,
				"%s: %s is %v, not %v", to, c.Name, a,
				b)
		}
		kinds := map[string]string{}
		for _, c := range s.Nodes[0].Columns {
			kinds[c.Name] = c.TypeName()
		}
		more := map[string]string{"feature=int4": "float64"}[to]
		if more == "" {
			more = to
		}
		expect.That(t, kinds["more"] == more, "%s: %v", to, kinds)
		expect.OK(t, ds.Close())
	}
}

func TestNarrowRowsThatCannotBeAreRefused(t *testing.T) {
	_, ds := convert(t, write(t, "edges.txt", "0 1\n1 2\n"), Options{})
	dir := ds.Path()
	for to, says := range map[string]string{"int3": "is none of", "x=int4": `no nodes have a column "x"`} {
		_, err := Add(t.Context(), dir, AddOptions{FeatureDType: []string{to}})
		expect.That(t, errors.Is(err, ErrOptions) && bytes.Contains([]byte(err.Error()), []byte(says)), "%s: %v",
			to, err)
	}
	_, err := Add(t.Context(), dir, AddOptions{FeatureDType: []string{"int4"},
		Rows: []Addition{{Name: "t", Path: "x.csv"}}})
	expect.Is(t, err, ErrOptions, "with new rows")
}

// TestCodesThatDoNotFitTheirRowsAreRefused: what a manifest says of rows is checked before any is read.
func TestCodesThatDoNotFitTheirRowsAreRefused(t *testing.T) {
	good := expect.Must(graph.Column{Name: "x", Shape: []int64{100}}.Coded("int4"))(t)
	schema := func(change func(c *graph.Column)) error {
		c, code := good, *good.Code
		c.Code = &code
		change(&c)
		s := graph.Schema{Nodes: []graph.NodeType{{Name: "n", Count: 1, Columns: []graph.Column{c}}},
			Edges: []graph.EdgeType{{Source: "n", Relation: "r", Target: "n"}}}
		return s.Init()
	}
	expect.OK(t, schema(func(*graph.Column) {}))
	for name, change := range map[string]func(c *graph.Column){
		"too short":  func(c *graph.Column) { c.Shape = []int64{57} },
		"no width":   func(c *graph.Column) { c.Code.Shape = nil },
		"negative":   func(c *graph.Column) { c.Code.Shape = []int64{-100} },
		"immense":    func(c *graph.Column) { c.Code.Shape = []int64{1 << 40, 1 << 40} },
		"other type": func(c *graph.Column) { c.DType++ },
		"unknown":    func(c *graph.Column) { c.Code.Name = "int3" },
		"a matrix":   func(c *graph.Column) { c.Shape = []int64{8, 8} },
	} {
		expect.Is(t, schema(change), graph.ErrSchema, name)
	}
}

// dates writes numbers as a .npy file of a type of NumPy, "<M8[ms]" or "<i8".
func dates(t *testing.T, of string, list ...int64) string {
	t.Helper()
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", of, len(list))
	text := []byte("\x93NUMPY\x01\x00")
	text = binary.LittleEndian.AppendUint16(text, uint16(len(head)))
	text = append(text, head...)
	for _, v := range list {
		text = binary.LittleEndian.AppendUint64(text, uint64(v))
	}
	return write(t, "t.npy", string(text))
}

// Times that are added count as those of the dataset do, or are refused.
func TestAddedTimesAreInTheUnitOfTheDataset(t *testing.T) {
	dir := files(t, map[string]string{"m.yaml": "nodes: {n: {count: 3}}\nedges: {a: {file: a.arrow, time: at}}\n"})
	timeTable(t, dir, "a.arrow", arrow.Millisecond, []int64{5000, 6000})
	add := func(name, path, in string) ([]int64, string, error) {
		data := filepath.Join(t.TempDir(), "x")
		expect.Must(Run(context.Background(), filepath.Join(dir, "m.yaml"), data, Options{}))(t)
		_, err := Add(context.Background(), data, adds(AddOptions{TimesIn: in}, extra{nodeColumn, name, "", path}))
		if err != nil {
			return nil, "", err
		}
		ds := open(t, data)
		col, _ := ds.Graph().NodeColumn(0, name)
		for _, c := range ds.Graph().Schema().Nodes[0].Columns {
			if c.Name == name {
				return slices.Clone(expect.Must(unified.View[int64](col))(t)), c.Unit, nil
			}
		}
		return nil, "", errors.New("it is not there")
	}
	want := []int64{5, -1, missingTime}
	for _, c := range []struct{ name, path, in string }{
		{"time", dates(t, "<M8[ms]", 5999, -1, missingTime), ""},
		{"born", dates(t, "<M8[us]", 5e6, -1e6, missingTime), ""},
		{"time", dates(t, "<i8", 5000, -1, missingTime), "ms"},
	} {
		got, unit, err := add(c.name, c.path, c.in)
		expect.That(t, err == nil && unit == "s" && slices.Equal(got, want), "%+v: %v in %q, %v", c, got, unit, err)
	}
	_, _, err := add("time", dates(t, "<i8", 1, 2, 3), "")
	expect.That(t, errors.Is(err, source.ErrTimes), "numbers of no unit: %v", err)
}
