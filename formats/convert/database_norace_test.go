//go:build !race

package convert

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// drawnTable is a table of a drawn database, cell by cell; "" is missing.
type drawnTable struct {
	name, key, time string
	fkeys           [][2]string // column, table
	columns         []string
	rows            [][]string
}

// drawTables draws tables with keys in no order, keys of themselves, missing and dangling ones, and times without
// order.
func drawTables(r *rand.Rand) (list []drawnTable) {
	n := 1 + r.IntN(4)
	for t := range n {
		d := drawnTable{name: fmt.Sprint("t", t)}
		if t == 0 || r.IntN(4) > 0 {
			d.key, d.columns = "key", append(d.columns, "key")
		}
		if r.IntN(3) > 0 {
			d.time, d.columns = "at", append(d.columns, "at")
		}
		list = append(list, d)
	}
	for t := range list {
		d := &list[t]
		for k := range r.IntN(3) {
			if to := r.IntN(n); list[to].key != "" {
				column := fmt.Sprint("to", k)
				d.fkeys, d.columns = append(d.fkeys, [2]string{column, list[to].name}), append(d.columns, column)
			}
		}
		d.columns = append(d.columns, "value")
	}
	if list[0].fkeys == nil { // an edge type at least
		list[0].fkeys, list[0].columns = [][2]string{{"self", list[0].name}}, append(list[0].columns, "self")
	}
	text := r.IntN(2) == 0
	id := func(v int) string {
		if text {
			return fmt.Sprint("k", v)
		}
		return strconv.Itoa(3 * v)
	}
	for t := range list {
		d := &list[t]
		keys := r.Perm(20)[:r.IntN(20)]
		for _, key := range keys {
			var row []string
			for _, c := range d.columns {
				switch {
				case c == "key":
					row = append(row, id(key))
				case c == "value":
					row = append(row, strconv.Itoa(r.IntN(100)))
				case r.IntN(6) == 0:
					row = append(row, "")
				case c == "at":
					row = append(row, fmt.Sprintf("2024-01-%02d", 1+r.IntN(20)))
				default:
					row = append(row, id(r.IntN(22)))
				}
			}
			d.rows = append(d.rows, row)
		}
	}
	return list
}

func (d *drawnTable) column(name string) int { return slices.Index(d.columns, name) }

// write writes the table and its part of the manifest.
func (d *drawnTable) write(t *testing.T, dir string) string {
	var b strings.Builder
	b.WriteString(strings.Join(d.columns, ",") + "\n")
	for _, row := range d.rows {
		b.WriteString(strings.Join(row, ",") + "\n")
	}
	put(t, dir, map[string]string{d.name + ".csv": b.String()})
	or := func(s string) string {
		if s == "" {
			return "null"
		}
		return s
	}
	text := fmt.Sprintf("  %s:\n    pkey: %s\n    time_col: %s\n    fkeys: {", d.name, or(d.key), or(d.time))
	for i, k := range d.fkeys {
		text += []string{"", ", "}[min(i, 1)] + k[0] + ": " + k[1]
	}
	return text + "}\n"
}

// kept returns the rows that are no later than a day, and by their keys which node they are.
func (d *drawnTable) kept(last string) (rows [][]string, node map[string]int) {
	node = map[string]int{}
	for _, row := range d.rows {
		if d.time != "" {
			if at := row[d.column(d.time)]; last != "" && (at == "" || at > last) {
				continue
			}
		}
		if d.key != "" {
			node[row[d.column(d.key)]] = len(rows)
		}
		rows = append(rows, row)
	}
	return rows, node
}

// numbers returns the node that each row is: those that are not in the order of their times may be numbered by them.
func (d *drawnTable) numbers(rows [][]string, how Reorder) (numbers []int) {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	if d.time != "" && (how == ByNodeTime || how == 0 && d.key == "") {
		at := d.column(d.time)
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(rows[a][at], rows[b][at]) })
	}
	numbers = make([]int, len(rows))
	for i, row := range order {
		numbers[row] = i
	}
	return numbers
}

// followsItsRows says that a node type has the times of its rows, and their numbers where they are not its own.
func (d *drawnTable) followsItsRows(t *testing.T, g *graph.Graph, node int, rows [][]string, numbers []int) {
	old, anew := g.NodeColumn(node, oldIDs)
	expect.That(t, anew != slices.IsSorted(numbers), "%s: numbered anew: %v; nodes %v", d.name, anew, numbers)
	times, _ := g.NodeColumn(node, "time")
	for row, v := range numbers {
		if anew {
			expect.Same(t, expect.Must(unified.View[int64](old))(t)[v], int64(row))
		}
		if d.time != "" && rows[row][d.column(d.time)] != "" {
			day := expect.Must(time.Parse("2006-01-02", rows[row][d.column(d.time)]))(t)
			expect.Same(t, expect.Must(unified.View[int64](times))(t)[v], day.Unix())
		}
	}
}

// TestADatabaseIsItsRowsAndKeys: of drawn databases each row that is no later than the time asked for is a node, in
// their order or that of their times, each key that names one an edge both ways, and nothing else is there. KHOP_DRAWS
// says how many are drawn.
func TestADatabaseIsItsRowsAndKeys(t *testing.T) {
	seed, draws := expect.Seed(t), expect.Draws(t, 30)
	r := rand.New(rand.NewPCG(seed, 0))
	for range draws {
		tables, last := drawTables(r), []string{"", "2024-01-10", "2024-01-31"}[r.IntN(3)]
		dir := t.TempDir()
		text := "name: drawn\nval_timestamp: 2024-01-05\ntest_timestamp: '2024-01-15'\ntables:\n"
		for i := range tables {
			text += tables[i].write(t, dir)
		}
		put(t, dir, map[string]string{"manifest.yaml": text})
		opt := Options{UpTo: last}
		if slices.ContainsFunc(tables, func(d drawnTable) bool { return d.time != "" }) {
			opt.Reorder = []Reorder{0, 0, AsListed, ByNodeTime}[r.IntN(4)]
		}
		if last == "" {
			opt.UpTo = "all"
		}
		_, ds := convert(t, dir, opt)
		nodes, numbers := map[string]map[string]int{}, map[string][]int{}
		for i := range tables {
			rows, by := tables[i].kept(last)
			nodes[tables[i].name], numbers[tables[i].name] = by, tables[i].numbers(rows, opt.Reorder)
			tables[i].followsItsRows(t, ds.Graph(), i, rows, numbers[tables[i].name])
			if n := ds.Graph().Schema().Nodes[i]; n.Count != int64(len(rows)) {
				t.Fatalf("seed %d, %s: %d nodes %q, want %d\n%s", seed, last, n.Count, n.Name, len(rows), text)
			}
		}
		got := edgesByName(t, ds)
		for i := range tables {
			d := &tables[i]
			rows, _ := d.kept(last)
			for _, k := range d.fkeys {
				forth, back := d.name+":f2p_"+k[0]+":"+k[1], k[1]+":rev_f2p_"+k[0]+":"+d.name
				var want, reversed [][2]int64
				for at, row := range rows {
					if to, ok := nodes[k[1]][row[d.column(k[0])]]; ok {
						from, to := int64(numbers[d.name][at]), int64(numbers[k[1]][to])
						want, reversed = append(want, [2]int64{from, to}), append(reversed, [2]int64{to, from})
					}
				}
				sortPairs(want)
				sortPairs(reversed)
				if !slices.Equal(got[forth], want) || !slices.Equal(got[back], reversed) {
					t.Fatalf("seed %d: %s is %v, want %v; the other way %v\n%s", seed, forth, got[forth], want,
						got[back], text)
				}
			}
		}
	}
}

// Plain numbers of times count what a person says, else seconds; a task's table needs neither times nor labels, and
// tasks make the same of it.
func TestPlainTimesOfADatabaseCountWhatIsSaid(t *testing.T) {
	dir := files(t, map[string]string{
		"manifest.yaml": "name: x\nval_timestamp: '1970-01-01'\ntest_timestamp: '1970-01-02'\ntables:\n" +
			"  a: {pkey: id, time_col: at, fkeys: {to: a}}\n",
		"a.csv": "id,at,to\n0,5000,1\n1,7999,0\n",
		"tasks/of/manifest.yaml": "name: of\nkind: external\ntask_type: regression\nentity_table: a\nentity_col: id\n" +
			"target_col: y\n",
		"tasks/of/test.csv": "id\n1\n0\n1\n",
	})
	for in, want := range map[string][]int64{"": {5000, 7999}, "ms": {5, 7}} {
		_, ds := convert(t, dir, Options{TimesIn: in, UpTo: "all"})
		col, _ := ds.Graph().NodeColumn(0, "time")
		got := expect.Must(unified.View[int64](col))(t)
		expect.That(t, slices.Equal(got, want), "in %q: %v, want %v", in, got, want)
		seeds := expect.Must(ds.Graph().Split("of:test", 0))(t)
		expect.That(t, seeds.Len() == 3 && !seeds.Sets[0].Labels.Valid(), "seeds %v", seeds)
	}
	_, once := convert(t, dir, Options{UpTo: "all"})
	tasksMake(t, once, dir, 2, Options{UpTo: "all"})
}
