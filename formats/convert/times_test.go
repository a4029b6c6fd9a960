package convert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// missingTime stands for a row without a time in tables of tests.
const missingTime = math.MinInt64

// timeTable writes a table of edges 0 -> 1, 1 -> 2, .. with timestamps in "at" as an Arrow file.
func timeTable(t *testing.T, dir, name string, unit arrow.TimeUnit, times []int64) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "src", Type: arrow.PrimitiveTypes.Int64},
		{Name: "dst", Type: arrow.PrimitiveTypes.Int64}, {Name: "at", Type: &arrow.TimestampType{Unit: unit},
			Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for i, at := range times {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.Int64Builder).Append(int64(i) + 1)
		if at == missingTime {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(at))
		}
	}
	f := expect.Must(os.Create(filepath.Join(dir, name)))(t)
	defer f.Close()
	w := expect.Must(ipc.NewFileWriter(f, ipc.WithSchema(schema)))(t)
	expect.OK(t, w.Write(b.NewRecord()), w.Close())
}

// edgeTimes returns the times of the edges by type and source, and their unit.
func edgeTimes(t *testing.T, ds *formats.Dataset) (times map[string][]int64, unit string) {
	t.Helper()
	g := ds.Graph()
	for _, c := range g.Schema().EdgeColumns {
		if c.Name == "time" {
			unit = c.Unit
		}
	}
	column, _ := g.EdgeColumn("time")
	list := expect.Must(unified.View[int64](column))(t)
	types := make([]uint8, len(list))
	if len(g.Schema().Edges) > 1 {
		types = expect.Must(unified.View[uint8](g.Types()))(t)
	}
	times = map[string][]int64{}
	for pos, at := range list {
		typ := g.Schema().Edges[types[pos]].Relation
		times[typ] = append(times[typ], at)
	}
	return times, unit
}

// Tables in milliseconds and nanoseconds are compared as what they mean: in seconds, or the coarsest unit that holds
// all of them.
func TestTimesOfSeveralUnitsBecomeThoseOfOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		ms, ns []int64
		opt    Options
		unit   string
		a, b   []int64
		notes  []string
	}{
		{"whole seconds", []int64{5000, -7000}, []int64{5e9, missingTime}, Options{}, "s", []int64{5, -7},
			[]int64{5, missingTime}, []string{`"time" of edges: 1 row has no time, which is stored as -2^63`}},
		{"milliseconds", []int64{5001}, []int64{5e9}, Options{}, "ms", []int64{5001}, []int64{5000},
			[]string{`times are stored in the unit "ms"`}},
		{"nanoseconds", []int64{5001}, []int64{1}, Options{}, "ns", []int64{5001e6}, []int64{1}, nil},
		{"by request", []int64{5999, -1}, []int64{-1}, Options{TimeUnit: "s"}, "s", []int64{5, -1}, []int64{-1},
			[]string{"3 times are rounded down to s, by request"}},
	} {
		dir := t.TempDir()
		timeTable(t, dir, "a.arrow", arrow.Millisecond, c.ms)
		timeTable(t, dir, "b.arrow", arrow.Nanosecond, c.ns)
		put(t, dir, map[string]string{"m.yaml": "nodes: {n: {count: 4}}\n" +
			"edges: {a: {file: a.arrow, time: at}, b: {file: b.arrow, time: at}}\n"})
		res, ds := convert(t, filepath.Join(dir, "m.yaml"), c.opt)
		times, unit := edgeTimes(t, ds)
		expect.That(t, unit == c.unit && fmt.Sprint(times["a"], times["b"]) == fmt.Sprint(c.a, c.b),
			"%s: %v in %q, want %v, %v in %q", c.name, times, unit, c.a, c.b, c.unit)
		for _, note := range c.notes {
			expect.That(t, strings.Contains(noteText(res), note), "%s: notes %q lack %q", c.name, res.Notes, note)
		}
	}
}

// Numbers without a unit do not stand beside those that have one, unless an option says what they are.
func TestTimesWithoutAUnitAreNotComparedWithOthers(t *testing.T) {
	dir := files(t, map[string]string{"b.csv": "src,dst,at\n0,1,6000\n", "n.csv": "id,born\n0,7\n1,8\n"})
	timeTable(t, dir, "a.arrow", arrow.Millisecond, []int64{5000})
	for _, m := range []string{"edges: {a: {file: a.arrow, time: at}, b: {file: b.csv, time: at}}\n",
		"nodes: {n: {file: n.csv, time: born}}\nedges: {a: {file: a.arrow, time: at}}\n"} {
		path := filepath.Join(dir, "m.yaml")
		put(t, dir, map[string]string{"m.yaml": m})
		_, err := Run(context.Background(), path, filepath.Join(t.TempDir(), "x"), Options{})
		expect.That(t, errors.Is(err, source.ErrTimes) && strings.Contains(err.Error(), "TimesIn"), "%s: %v", m, err)
		_, ds := convert(t, path, Options{TimesIn: "ms"})
		if times, unit := edgeTimes(t, ds); strings.Contains(m, "b.csv") {
			expect.That(t, unit == "s" && times["b"][0] == 6, "%v in %q", times, unit)
		} else {
			expect.That(t, unit == "ms" && times["a"][0] == 5000, "%v in %q", times, unit)
		}
	}
}

// Fractions are seconds to the nearest microsecond, and a note says that this is a guess.
func TestTimesWithFractionsAreSeconds(t *testing.T) {
	src := write(t, "e.csv", "src,dst,time\n0,1,1289241911.72836\n1,2,3\n")
	for _, c := range []struct {
		opt  Options
		unit string
		want []int64
		note string
	}{
		{Options{}, "us", []int64{1289241911728360, 3e6}, "1 of 2 numbers have fractions, and are taken for seconds"},
		{Options{TimeUnit: "s"}, "s", []int64{1289241911, 3}, "1 time is rounded down to s"},
		{Options{TimesIn: "ms", TimeUnit: "us"}, "us", []int64{1289241911728, 3000}, "(ms in the source)"},
	} {
		res, ds := convert(t, src, c.opt)
		times, unit := edgeTimes(t, ds)
		expect.That(t, unit == c.unit && fmt.Sprint(times["edge"]) == fmt.Sprint(c.want) &&
			strings.Contains(noteText(res), c.note), "%+v: %v in %q, notes %q", c.opt, times, unit, res.Notes)
	}
	res, _ := convert(t, write(t, "e.csv", "src,dst,time\n0,1,1704103200000\n1,2,3.5\n"), Options{})
	expect.That(t, strings.Contains(noted(res, source.Guessed), `guessed 1 time: "time" of edges: 1 time is after the `+
		`year 2200, if they are seconds; TimesIn ms`), "%s", noted(res, source.Guessed))
	_, ds := convert(t, write(t, "e.csv", "src,dst,time\n0,1,4.0\n1,2,3\n"), Options{})
	times, unit := edgeTimes(t, ds)
	expect.That(t, unit == "" && fmt.Sprint(times["edge"]) == "[4 3]", "whole numbers: %v in %q", times, unit)
}

// Dates as text, with and without a time, zone or fraction, are times in UTC.
func TestDatesOfATextAreTimes(t *testing.T) {
	dir := files(t, map[string]string{"e.csv": "src,dst,when\n0,1,1970-01-02\n" +
		"1,2,1970-01-01T00:00:01Z\n2,3,1969-12-31 23:59:59\n3,4,1970-01-01 02:00:00+01:00\n4,5,\n",
		"m.yaml": "edges: {e: {file: e.csv, time: when}}\n"})
	_, ds := convert(t, filepath.Join(dir, "m.yaml"), Options{})
	times, unit := edgeTimes(t, ds)
	expect.That(t, unit == "s" && fmt.Sprint(times["e"]) == fmt.Sprint([]int64{86400, 1, -1, 3600, missingTime}),
		"%v in %q", times, unit)
}

// A time that int64 does not hold names its row; a coarser unit holds it.
func TestATimeBeyondTheUnitNamesItsRow(t *testing.T) {
	path := write(t, "m.yaml", "edges: {a: {file: a.arrow, time: at}}\n")
	timeTable(t, filepath.Dir(path), "a.arrow", arrow.Second, []int64{1, 1 << 40})
	_, err := Run(context.Background(), path, filepath.Join(t.TempDir(), "x"), Options{TimeUnit: "ns"})
	at := (*formats.Error)(nil)
	expect.That(t, errors.As(err, &at) && at.Row == 1 && strings.Contains(err.Error(), "TimeUnit"), "%v", err)
	_, ds := convert(t, path, Options{})
	times, _ := edgeTimes(t, ds)
	expect.That(t, times["a"][1] == 1<<40, "%v", times)
}

// Times of nodes keep their unit through a numbering and a share, and drawn ones are what integer arithmetic says.
func TestDrawnTimesAreRoundedDown(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	per := map[arrow.TimeUnit]int64{arrow.Second: 1, arrow.Millisecond: 1e3, arrow.Microsecond: 1e6,
		arrow.Nanosecond: 1e9}
	for range 20 {
		unit := arrow.TimeUnit(r.IntN(4))
		times, want := make([]int64, 20), make([]int64, 20)
		for i := range times {
			times[i] = (r.Int64N(1<<33) - 1<<32) * per[unit] / (1 + r.Int64N(3))
			if r.IntN(5) == 0 {
				times[i] = missingTime
			}
			if want[i] = times[i]; times[i] != missingTime {
				rest := (times[i]%per[unit] + per[unit]) % per[unit]
				want[i] = (times[i] - rest) / per[unit]
			}
		}
		path := write(t, "m.yaml", "edges: {a: {file: a.arrow, time: at}}\n")
		timeTable(t, filepath.Dir(path), "a.arrow", unit, times)
		_, ds := convert(t, path, Options{TimeUnit: "s"})
		got, in := edgeTimes(t, ds)
		expect.That(t, in == "s" && fmt.Sprint(got["a"]) == fmt.Sprint(want), "seed %d, %v: %v\nwant %v", seed, unit,
			got["a"], want)
	}
}
