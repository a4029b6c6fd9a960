//go:build !race

package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// grownTable is a table of a drawn database in parts: each row is text, cell by cell.
type grownTable struct {
	name, key string
	timed     bool
	first     int         // rows of the first part, of which alone keys that are text have letters
	fkeys     [][2]string // column, table
	parts     [][][]string
}

// header returns the names of the columns.
func (g *grownTable) header() []string {
	list := []string{"price", "colour", "seen", "note", "vector"}
	if g.timed {
		list = append(list, "at")
	}
	if g.key != "" {
		list = append(list, "key")
	}
	for _, k := range g.fkeys {
		list = append(list, k[0])
	}
	return list
}

// csv returns some parts as a file.
func (g *grownTable) csv(parts ...int) string {
	text := strings.Join(g.header(), ",") + "\n"
	for _, p := range parts {
		for _, row := range g.parts[p] {
			text += strings.Join(row, ",") + "\n"
		}
	}
	return text
}

// growTables draws a database whose rows come in this number of parts: keys are text, numbers or the numbers of rows,
// foreign keys name rows of their own part or of one before, or none. Times of a part are later than those before, if
// in order.
func growTables(r *rand.Rand, parts int) (list []*grownTable) {
	n := 1 + r.IntN(4)
	for t := range n {
		g := &grownTable{name: fmt.Sprint("t", t), timed: r.IntN(3) > 0}
		if t == 0 || r.IntN(4) > 0 {
			g.key = []string{"text", "number", "row", "broken"}[r.IntN(4)]
		}
		list = append(list, g)
	}
	for t, g := range list {
		for k := range 1 + r.IntN(2) {
			if to := r.IntN(n); list[to].key != "" {
				g.fkeys = append(g.fkeys, [2]string{fmt.Sprint("to", k), list[to].name})
			}
		}
		if t == 0 && g.fkeys == nil {
			g.fkeys = [][2]string{{"self", g.name}}
		}
	}
	ordered := r.IntN(2) == 0
	rows := make([]int, n) // so far
	for p := range parts {
		var fresh []int
		for t := range list {
			fresh = append(fresh, r.IntN(15))
			if p == 0 {
				fresh[t]++
			}
			if rows[t] += fresh[t]; p == 0 {
				list[t].first = rows[t]
			}
		}
		for t, g := range list {
			g.parts = append(g.parts, nil)
			for i := range fresh[t] {
				g.parts[p] = append(g.parts[p], g.draw(r, list, rows, rows[t]-fresh[t]+i, p, ordered))
			}
		}
	}
	return list
}

// draw draws a row.
func (g *grownTable) draw(r *rand.Rand, list []*grownTable, rows []int, row, part int, ordered bool) (cells []string) {
	or := func(s string) string {
		if r.IntN(6) == 0 && row > 0 {
			return ""
		}
		return s
	}
	for _, column := range g.header() {
		switch column {
		case "price":
			cells = append(cells, or(strconv.FormatFloat(float64(r.IntN(1000))/8, 'g', -1, 64)))
		case "colour":
			cells = append(cells, or([]string{"red", "green", "blue", "007", "7"}[r.IntN(3+part%3)]))
		case "seen":
			cells = append(cells, or(fmt.Sprintf("2023-01-%02d 10:00:0%d", 1+r.IntN(20), r.IntN(9))))
		case "note":
			cells = append(cells, or([]string{"good", "12", "x y"}[r.IntN(3)*min(row, 1)]))
		case "vector":
			cells = append(cells, fmt.Sprintf("%d %d.5", r.IntN(9), r.IntN(9)))
		case "at":
			day := 1 + r.IntN(9)
			if ordered {
				day = 1 + part*5 + row/8
			}
			cells = append(cells, fmt.Sprintf("2024-01-%02d", day))
		case "key":
			cells = append(cells, g.id(row))
		default:
			k := slices.IndexFunc(g.fkeys, func(k [2]string) bool { return k[0] == column })
			to := list[slices.IndexFunc(list, func(o *grownTable) bool { return o.name == g.fkeys[k][1] })]
			at := slices.Index(list, to)
			id := to.id(r.IntN(rows[at]))
			if r.IntN(8) == 0 {
				if id = to.id(9000 + r.IntN(5)); to.key == "text" {
					id = "k" + id // numbers alone, of which no text is called so, are refused
				}
			}
			cells = append(cells, or(id))
		}
	}
	return cells
}

// id returns the key of a row.
func (g *grownTable) id(row int) string {
	switch g.key {
	case "text":
		if row < g.first {
			return fmt.Sprint("k", row)
		}
	case "number":
		return strconv.Itoa(3*row - 20)
	case "broken":
		if row > 20 {
			return strconv.Itoa(row * 2)
		}
	}
	return strconv.Itoa(row)
}

// writeGrown writes the manifest and some parts of each table.
func writeGrown(t *testing.T, tables []*grownTable, parts ...int) string {
	list, text := map[string]string{}, "name: drawn\nval_timestamp: 2024-01-05\ntest_timestamp: '2024-01-15'\ntables:\n"
	for _, g := range tables {
		list[g.name+".csv"] = g.csv(parts...)
		pkey, at, keys := "null", "null", []string{}
		if g.key != "" {
			pkey = "key"
		}
		if g.timed {
			at = "at"
		}
		for _, k := range g.fkeys {
			keys = append(keys, k[0]+": "+k[1])
		}
		text += fmt.Sprintf("  %s:\n    pkey: %s\n    time_col: %s\n    fkeys: {%s}\n    kinds: {price: numerical, "+
			"colour: categorical, seen: timestamp, note: text, vector: embedding}\n", g.name, pkey, at,
			strings.Join(keys, ", "))
	}
	list["manifest.yaml"] = text
	return files(t, list)
}

// TestRowsThatAreAddedStandWhereConversionPutsThem: a drawn database converted whole is the same as its first rows with
// the others added in one to three steps. KHOP_DRAWS says how many are drawn.
func TestRowsThatAreAddedStandWhereConversionPutsThem(t *testing.T) {
	seed, draws := expect.Seed(t), expect.Draws(t, 12)
	r := rand.New(rand.NewPCG(seed, 0))
	for draw := range draws {
		steps := 1 + r.IntN(3)
		list := growTables(r, steps+1)
		narrow := [][]string{nil, nil, {"float16"}, {"int8"}, {"int4"}}[r.IntN(5)]
		if narrow != nil && strings.HasPrefix(narrow[0], "int") { // which no number may lack
			for _, g := range list {
				for _, part := range g.parts {
					for _, row := range part {
						row[0] = "1"
					}
				}
			}
		}
		var all []int
		for p := range steps + 1 {
			all = append(all, p)
		}
		opt := Options{UpTo: "all", FeatureDType: narrow, IDs: "names",
			Reorder:   []Reorder{AsListed, AsListed, 0, ByNodeTime, ByDegree, ReverseCuthillMcKee}[r.IntN(6)],
			RowStride: []int64{0, 0, 32, 64}[r.IntN(4)]}
		if opt.Reorder == ByNodeTime && !slices.ContainsFunc(list, func(g *grownTable) bool { return g.timed }) {
			opt.Reorder = 0
		}
		_, whole := convert(t, writeGrown(t, list, all...), opt)
		grown := filepath.Join(t.TempDir(), "grown")
		expect.Must(Run(context.Background(), writeGrown(t, list, 0), grown, opt))(t)
		for p := 1; p <= steps; p++ {
			dir := writeGrown(t, list, p)
			o := AddOptions{}
			for _, g := range list {
				if len(g.parts[p]) > 0 || r.IntN(2) == 0 {
					o.Rows = append(o.Rows, Addition{Name: g.name, Path: filepath.Join(dir, g.name+".csv")})
				}
			}
			if o.Rows == nil {
				continue
			}
			_, err := Add(context.Background(), grown, o)
			expect.Ensure(t, err == nil, "seed %d, draw %d, step %d: %v", seed, draw, p, err)
		}
		report, err := formats.Check(context.Background(), grown, formats.CheckOptions{})
		expect.Ensure(t, err == nil && report.OK(), "seed %d, draw %d: %v, %v", seed, draw, err, report)
		ds := expect.Must(formats.Open(grown))(t)
		diff := differs(t, whole, ds, "colour")
		expect.Ensure(t, diff == "", "seed %d, draw %d, %d steps, %+v: %s", seed, draw, steps, opt, diff)
		expect.OK(t, ds.Close())
	}
}

// listed returns what there is of each node in the order of the source.
func listed[E any](t *testing.T, ds *formats.Dataset, n int, of []E) []E {
	if _, anew := ds.Graph().NodeColumn(n, oldIDs); !anew || of == nil {
		return of
	}
	in := make([]E, len(of))
	for v := range of {
		in[inSource(t, ds, n, int64(v))] = of[v]
	}
	return in
}

// differs says what of two datasets of databases is not the same; "": nothing. Categories are compared by name, and
// nodes that were numbered anew by the numbers that they had.
func differs(t *testing.T, a, b *formats.Dataset, category string) string {
	t.Helper()
	ga, gb := a.Graph(), b.Graph()
	sa, sb := ga.Schema(), gb.Schema()
	if x, y := fmt.Sprint(sa.Edges), fmt.Sprint(sb.Edges); x != y {
		return "edge types " + x + " and " + y
	}
	former := func(c graph.Column) bool { return c.Name == oldIDs } // which one alone may have
	anew := slices.ContainsFunc(slices.Concat(sa.Nodes, sb.Nodes), func(n graph.NodeType) bool {
		return slices.ContainsFunc(n.Columns, former)
	})
	for _, two := range [][2]unified.Tensor{{unified.FromSlice(ga.Indptr()), unified.FromSlice(gb.Indptr())},
		{ga.Indices(), gb.Indices()}, {ga.Types(), gb.Types()}} {
		if !anew && !slices.Equal(two[0].Bytes(), two[1].Bytes()) {
			return fmt.Sprintf("edges: %v and %v", two[0], two[1])
		}
	}
	if x, y := edgesInSource(t, a), edgesInSource(t, b); !maps.EqualFunc(x, y, slices.Equal) {
		return fmt.Sprintf("edges: %v and %v", x, y)
	}
	for n := range sa.Nodes {
		x, y := sa.Nodes[n], sb.Nodes[n]
		x.Columns = slices.DeleteFunc(slices.Clone(x.Columns), former)
		y.Columns = slices.DeleteFunc(slices.Clone(y.Columns), former)
		if x.Count != y.Count || len(x.Columns) != len(y.Columns) {
			return fmt.Sprintf("%s: %d and %d nodes, columns %v and %v", x.Name, x.Count, y.Count, x.Columns, y.Columns)
		}
		for _, col := range x.Columns {
			i := slices.IndexFunc(y.Columns, func(c graph.Column) bool { return c.Name == col.Name })
			if i < 0 {
				return x.Name + " lacks " + col.Name
			}
			ca, _ := ga.NodeColumn(n, col.Name)
			cb, _ := gb.NodeColumn(n, col.Name)
			other := y.Columns[i]
			if col.Ascending != other.Ascending && !anew || col.Unit != other.Unit || ca.DType() != cb.DType() ||
				!slices.Equal(col.Shape, other.Shape) {
				return fmt.Sprintf("%s.%s: %+v and %+v", x.Name, col.Name, col, other)
			}
			if diff := sameFields(col.Fields, other.Fields); diff != "" {
				return fmt.Sprintf("%s.%s: %s: %s and %s", x.Name, col.Name, diff, col.Fields, other.Fields)
			}
			p, q := rowsOfNodes(t, a, n, category, ca), rowsOfNodes(t, b, n, category, cb)
			if !slices.EqualFunc(p, q, bytes.Equal) {
				return fmt.Sprintf("%s.%s: %q and %q", x.Name, col.Name, p, q)
			}
		}
		for _, list := range []string{"id", "note"} {
			if p, q := listed(t, a, n, strs(a, n, list)), listed(t, b, n, strs(b, n, list)); !slices.Equal(p, q) {
				return fmt.Sprintf("%s.%s: %q and %q", x.Name, list, p, q)
			}
		}
	}
	return ""
}

// rowsOfNodes returns the rows of a column; of the only one with categories, of which a list of strings has the names,
// these.
func rowsOfNodes(t *testing.T, ds *formats.Dataset, n int, list string, col unified.Tensor) (rows [][]byte) {
	if col.DType() == unified.Int32 {
		for _, name := range named(t, ds, n, list, col) {
			rows = append(rows, []byte(name))
		}
	} else {
		rows = slices.Collect(slices.Chunk(col.Bytes(), max(1, len(col.Bytes())/int(max(1, col.Len())))))
	}
	return listed(t, ds, n, rows)
}

// sameFields says which statistics differ: codes may, and sums by rounding.
func sameFields(a, b []byte) string {
	var x, y []struct {
		Name, Kind string
		Width      int64
		Missing    int64
		Mean, Std  *float64
		Quantiles  []float64
		Counts     []int64
		Times      []int64
	}
	if len(a) == 0 && len(b) == 0 {
		return ""
	}
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil || len(x) != len(y) {
		return "fields"
	}
	near := func(p, q *float64) bool {
		return p == nil && q == nil || p != nil && q != nil && math.Abs(*p-*q) <= 1e-9*(1+math.Abs(*p))
	}
	for i := range x {
		p, q := &x[i], &y[i]
		slices.Sort(p.Counts)
		slices.Sort(q.Counts)
		same := len(p.Quantiles) == len(q.Quantiles)
		for k := range min(len(p.Quantiles), len(q.Quantiles)) {
			same = same && math.Abs(p.Quantiles[k]-q.Quantiles[k]) <= 1e-2*(1+math.Abs(p.Quantiles[k]))
		}
		if !same || !near(p.Mean, q.Mean) || !near(p.Std, q.Std) || p.Missing != q.Missing || p.Name != q.Name ||
			p.Kind != q.Kind || p.Width != q.Width || !slices.Equal(p.Counts, q.Counts) ||
			!slices.Equal(p.Times, q.Times) {
			return p.Name
		}
	}
	return ""
}
