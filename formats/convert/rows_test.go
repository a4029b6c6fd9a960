package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// shopFiles are a database: keys that are text, numbers, numbers of rows, and none.
var shopFiles = map[string]string{
	"manifest.yaml": "name: shop\nval_timestamp: '2024-01-05'\ntest_timestamp: '2024-01-08'\ntables:\n" +
		"  users: {pkey: user, time_col: null, fkeys: {}, kinds: {plan: categorical}}\n" +
		"  items: {pkey: item, time_col: null, fkeys: {}, kinds: {size: embedding}}\n" +
		"  visits: {pkey: visit, time_col: null, fkeys: {user: users}}\n" +
		"  orders: {pkey: null, time_col: at, fkeys: {user: users, item: items, visit: visits}}\n",
	"users.csv":  "user,age,plan\nann,41,free\nbob,,paid\n",
	"items.csv":  "item,size\n10,1 2\n20,3 4\n",
	"visits.csv": "visit,user,pages\n0,ann,3\n1,bob,5\n",
	"orders.csv": "user,item,visit,at,price\nann,10,0,2024-01-01,3\nbob,20,1,2024-01-02,4.5\n",
}

func shopFolder(t *testing.T) string {
	t.Helper()
	return files(t, shopFiles)
}

// shop converts it.
func shop(t *testing.T, opt Options) string {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "data")
	expect.Must(Run(context.Background(), shopFolder(t), dst, opt))(t)
	return dst
}

// rowsOf returns options that add rows of a CSV each, written as "TABLE: line, line, ..".
func rowsOf(t *testing.T, list ...string) (o AddOptions) {
	t.Helper()
	for _, text := range list {
		table, rows, _ := strings.Cut(text, ": ")
		o.Rows = append(o.Rows, Addition{Name: table,
			Path: write(t, table+".csv", strings.ReplaceAll(rows, "/", "\n")+"\n")})
	}
	return o
}

func TestRowsThatDoNotFitChangeNothing(t *testing.T) {
	data := shop(t, Options{})
	before := expect.Must(os.ReadFile(filepath.Join(data, "dataset.json")))(t)
	ann, orders := "users: user,age,plan/cid,1,free/ann,2,free", "orders: user,item,visit,at,price/"
	for _, c := range []struct {
		o    AddOptions
		want error
		says string
	}{
		{rowsOf(t, "uers: user/cid"), ErrOptions, `there is no table "uers"; there are: users, items, visits, orders`},
		{AddOptions{Rows: []Addition{{Name: "users", Path: "none.csv"}}}, fs.ErrNotExist, "none.csv"},
		{AddOptions{Rows: []Addition{{Name: "users", Path: t.TempDir()}}}, nil, "the folder has no table"},
		{AddOptions{Rows: []Addition{{Name: "users", Type: "x", Path: "y"}}}, ErrOptions, "write TABLE=FILE"},
		{rowsOf(t, ann), nil, `users.csv: column "user": row 3: the key "ann" is there already: node 0 of "users"; ` +
			"leave out the rows that the dataset has, and give new rows keys of their own"},
		{rowsOf(t, "items: item,size/30,1 1/20,2 2"), nil, `row 3: the key "20" is there already: node 1 of "items"`},
		{rowsOf(t, "visits: visit,user,pages/0,ann,1"), nil, `row 2: the key "0" is there already: node 0 of "visits"`},
		{rowsOf(t, "users: user,age,plan/cid,1,free/cid,2,free"), nil, `row 3: the id "cid" is there twice`},
		{rowsOf(t, "users: user,age,plan/,1,free"), nil, `column "user": row 2: the id is missing`},
		{rowsOf(t, "items: item,size/30,1 1/x,2 2"), nil, `column "item"`},
		{rowsOf(t, "users: age,plan/1,free"), nil, `there is no column "user"`},
		{rowsOf(t, "orders: user,item,visit,at/ann,10,0,2024-01-09"), nil, "the rows lack what the dataset has of " +
			`each row of "orders": "price"`},
		{rowsOf(t, "orders: user,item,at,price/ann,10,2024-01-09,1"), nil, `there is no column "visit"`},
		{rowsOf(t, orders+"ann,10,0,2024-01-09,cheap"), nil, `column "price": is text, which cannot be numerical`},
		{rowsOf(t, orders+"ann,10,0,2024-01-09,1/ann,10,0,today,1"), nil, `column "at": row 3: "today" is no date`},
		{rowsOf(t, orders+"ann,10,first,2024-01-09,1"), nil, `column "visit": row 2: "first" is text, and the ids of ` +
			`"visits" are numbers`},
		{rowsOf(t, "items: item,size/30,1 1 1"), nil, "is lists of 3 float32, and the dataset has rows of 2"},
		{rowsOf(t, "users: user,age,plan/cid"), nil, "row 2: the row has 1 cell, and there are 3 columns"},
		{AddOptions{Rows: []Addition{{Name: "users", Path: write(t, "u.parquet", "PAR1PAR1")}}}, nil, "damaged"},
		{AddOptions{Rows: rowsOf(t, "users: user,age,plan/cid,1,free").Rows, MemoryLimit: 600}, pinned.ErrLimit, ""},
	} {
		_, err := Add(context.Background(), data, c.o)
		expect.That(t, err != nil && (c.want == nil || errors.Is(err, c.want)) && strings.Contains(err.Error(),
			c.says), "got %v\nwant %s", err, c.says)
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	_, err := Add(stopped, data, rowsOf(t, "users: user,age,plan/cid,1,free"))
	expect.Is(t, err, context.Canceled, "stopped")
	unchanged(t, data, before)
}

func TestRowsAreAddedToDatasetsOfDatabasesAlone(t *testing.T) {
	rows := rowsOf(t, "users: user,age,plan/cid,1,free")
	_, err := Add(t.Context(), adding(t), rows)
	expect.Says(t, err, ErrOptions, "is not of a database", "a graph")
	data := shop(t, Options{})
	weight := numpy(t, expect.NPY(make([]float32, 16)))
	expect.Is(t, expect.Err(Add(t.Context(), data, adds(AddOptions{}, extra{edgeColumn, "weight", "", weight}))), nil,
		"a column of edges")
	_, err = Add(t.Context(), data, rows)
	expect.Says(t, err, ErrOptions, `has columns of edges, such as "weight"`, "a column of edges")
	for _, loops := range []Loops{DropLoops, AddLoops} {
		_, err = Add(t.Context(), shop(t, Options{Loops: loops}), rows)
		expect.Says(t, err, ErrOptions, "has other self-loops than its database", "self-loops")
	}
}

// TestNewRowsNameOldAndNewOnes: of several tables in one call, and what has no row is counted. Arrays of tables that
// get nothing are the same files.
func TestNewRowsNameOldAndNewOnes(t *testing.T) {
	data := shop(t, Options{})
	kept := expect.Must(os.Stat(filepath.Join(data, "nodes/n2/numerical.arrow")))(t)
	var said []string
	o := rowsOf(t, "orders: user,item,visit,at,price,more/cid,10,1,2024-01-09,7,x/ann,30,,2024-01-03,8,x/eve,20,0,,9,x",
		"users: user,age,plan/cid,9,gold", "items: item,size/30,5 6")
	o.Log = func(line string) { said = append(said, line) }
	s := expect.Must(Add(t.Context(), data, o))(t)
	ds := open(t, data)
	generation := ds.Manifest().Generation
	expect.That(t, generation == 2 && s.Nodes[3].Count == 5, "generation %d, %v", generation, s)
	got := edgesByName(t, ds)
	for name, want := range map[string][][2]int64{
		"orders:f2p_user:users":     {{0, 0}, {1, 1}, {2, 2}, {3, 0}},
		"users:rev_f2p_user:orders": {{0, 0}, {0, 3}, {1, 1}, {2, 2}},
		"orders:f2p_item:items":     {{0, 0}, {1, 1}, {2, 0}, {3, 2}, {4, 1}},
		"orders:f2p_visit:visits":   {{0, 0}, {1, 1}, {2, 1}, {4, 0}},
		"visits:f2p_user:users":     {{0, 0}, {1, 1}},
	} {
		expect.That(t, slices.Equal(got[name], want), "%s: %v, want %v", name, got[name], want)
	}
	text := strings.Join(said, "\n")
	for _, says := range []string{`5 new rows (1 of "users", 1 of "items", 3 of "orders") and 14 new edges come to 8 ` +
		"nodes and 16 edges: about ", `1 key has no row of "users", and no edge`, "1 row has no key, and no edge",
		"not stored, for the dataset does not have them: more"} {
		expect.That(t, strings.Contains(text, says), "not said: %s, but %s", says, text)
	}
	times, _ := ds.Graph().NodeColumn(3, "time")
	at := expect.Must(unified.View[int64](times))(t)
	expect.That(t, at[2] == 1704758400 && at[4] == -1<<63 && !ds.Graph().Schema().Nodes[3].Columns[0].Ascending,
		"times %v", at)
	expect.That(t, slices.Equal(strs(ds, 0, "plan"), []string{"free", "paid", "gold"}), "plans %q", strs(ds, 0, "plan"))
	now := expect.Must(os.Stat(filepath.Join(data, "nodes/n2/numerical.arrow")))(t)
	expect.That(t, os.SameFile(kept, now), "a column of a table without new rows was written again")
}

// TestDigitsAreTextWhereKeysAre: a CSV of new rows may have nothing but digits.
func TestDigitsAreTextWhereKeysAre(t *testing.T) {
	data := shop(t, Options{})
	expect.Must(Add(t.Context(), data, rowsOf(t, "users: user,age,plan/007,1,free",
		"orders: user,item,visit,at,price/007,10,0,2024-01-09,1")))(t)
	ds := open(t, data)
	got := edgesByName(t, ds)["orders:f2p_user:users"]
	expect.That(t, strs(ds, 0, "id")[2] == "007" && slices.Contains(got, [2]int64{2, 2}), "edges %v", got)
}

// TestAddedColumnsComeWithTheRowsOrAreGivenAgain
func TestAddedColumnsComeWithTheRowsOrAreGivenAgain(t *testing.T) {
	data := shop(t, Options{})
	column := func(rows int) extra {
		return extra{nodeColumn, "extra", "users", numpy(t, expect.NPY(make([]float32, 2*rows), rows, 2))}
	}
	expect.Is(t, expect.Err(Add(t.Context(), data, adds(AddOptions{}, column(2)))), nil, "a column")
	rows := rowsOf(t, "users: user,age,plan/cid,1,free")
	_, err := Add(t.Context(), data, rows)
	says := `the rows lack what the dataset has of each row of "users": "extra"; there are: "user", ` +
		`"age", "plan"; add the columns, empty where nothing is known; what Columns has brought may also be given ` +
		`for all nodes, by Columns with Force`
	expect.That(t, err != nil && strings.Contains(err.Error(), says), "without it: %v", err)
	again := adds(rows, column(3))
	again.Force = true
	expect.Is(t, expect.Err(Add(t.Context(), data, again)), nil, "given for all nodes")
	expect.Is(t, expect.Err(Add(t.Context(), data, rowsOf(t, "users: user,age,plan,extra/dan,1,free,7 8"))), nil,
		"a column of the rows")
	ds := open(t, data)
	col, _ := ds.Graph().NodeColumn(0, "extra")
	got := expect.Must(unified.View[float32](col))(t)
	expect.That(t, slices.Equal(got, []float32{0, 0, 0, 0, 0, 0, 7, 8}), "%v", got)
}

// TestRowsAreAddedToNodesThatWereNumberedAnew: keys are those of the source, whichever number their nodes have.
func TestRowsAreAddedToNodesThatWereNumberedAnew(t *testing.T) {
	for _, visit := range []string{"2", "7"} {
		var got []map[string][][2]int64
		for _, opt := range []Options{{}, {Reorder: ReverseCuthillMcKee}} {
			data := shop(t, opt)
			o := rowsOf(t, "visits: visit,user,pages/"+visit+",ann,1", "orders: user,item,visit,at,price/bob,10,"+visit+
				",2024-01-09,7/ann,10,0,2024-01-09,7")
			expect.Must(Add(t.Context(), data, o))(t)
			ds := expect.Must(formats.Open(data))(t)
			got = append(got, edgesInSource(t, ds))
			expect.OK(t, ds.Close())
		}
		expect.That(t, maps.EqualFunc(got[0], got[1], slices.Equal), "visit %s: %v and %v", visit, got[0], got[1])
	}
}

// edgesInSource returns source and target of the edges of each type, sorted, by their numbers in the source.
func edgesInSource(t *testing.T, ds *formats.Dataset) map[string][][2]int64 {
	t.Helper()
	got := edgesByName(t, ds)
	for _, e := range ds.Graph().Schema().Edges {
		for i, p := range got[e.String()] {
			got[e.String()][i] = [2]int64{inSource(t, ds, e.Src, p[0]), inSource(t, ds, e.Dst, p[1])}
		}
		sortPairs(got[e.String()])
	}
	return got
}

// inSource returns the number that a node has in the source.
func inSource(t *testing.T, ds *formats.Dataset, typ int, v int64) int64 {
	t.Helper()
	col, ok := ds.Graph().NodeColumn(typ, "old_id")
	if !ok {
		return v
	}
	return expect.Must(unified.View[int64](col))(t)[v]
}

// named returns the names of categories of the only categorical column, of which a list of strings has the names.
func named(t *testing.T, ds *formats.Dataset, n int, list string, col unified.Tensor) (all []string) {
	t.Helper()
	names := strs(ds, n, list)
	for _, k := range expect.Must(unified.View[int32](col))(t) {
		if k < 0 {
			all = append(all, "")
		} else {
			all = append(all, names[k])
		}
	}
	return all
}

// strs returns a list of strings; nil for none.
func strs(ds *formats.Dataset, n int, name string) (all []string) {
	list, err := ds.Strings(n, name)
	if err != nil {
		return nil
	}
	for i := range list.Len() {
		s, _ := list.At(i)
		all = append(all, s)
	}
	return all
}

// TestFieldsThatNoConversionWritesAreDamage: of a manifest whose checksum is right.
func TestFieldsThatNoConversionWritesAreDamage(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{`"kind": "numerical"`, `"kind": "timestamp"`}, {`"kind": "numerical"`, `"kind": "categorical"`},
		{`"kind": "categorical"`, `"kind": "timestamp"`}, {`"kind": "numerical"`, `"kind": "x"`},
		{`"missing": 1`, `"missing": -1`}, {`"missing": 1`, `"missing": 9`}, {`"name": "age",`, `"name": 1,`},
	} {
		data := shop(t, Options{})
		ds := expect.Must(formats.Open(data))(t)
		id := fmt.Sprintf("%x", ds.ID())
		expect.OK(t, ds.Close())
		path := filepath.Join(data, "dataset.json")
		text := string(expect.Must(os.ReadFile(path))(t))
		expect.That(t, strings.Contains(text, c.from), "no %s", c.from)
		text = strings.Replace(text, c.from, c.to, 1)
		content, end := strings.Index(text, `"content": `)+len(`"content": `), strings.Index(text, ",\n  \"checksum\"")
		text = strings.Replace(text, id, fmt.Sprintf("%x", xxh3.HashString128(text[content:end]).Bytes()), 1)
		at := strings.Index(text, "  \"checksum\"")
		text = fmt.Sprintf("%s  \"checksum\": \"%016x\"\n}\n", text[:at], xxh3.HashString(text[:at]))
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Add(t.Context(), data, rowsOf(t, "users: user,age,plan/cid,1,free"))
		expect.Says(t, err, formats.ErrCorrupt, "the fields of", c.to)
	}
}

// A draft of a database's manifest is one: saved beside the tables it converts.
func TestADraftOfAManifestIsOne(t *testing.T) {
	dir := files(t, map[string]string{
		"users.csv":    "userId,age,createdAt\n1,20,2024-01-01\n2,30,2024-01-02\n",
		"products.csv": "id,price\n7,2.5\n8,3.5\n",
		"orders-0.csv": "orderId,userId,productId,at\n100,1,7,2024-01-05 10:00:00\n",
		"orders-1.csv": "orderId,userId,productId,at\n101,2,8,2024-01-06 10:00:00\n",
	})
	target := filepath.Join(t.TempDir(), "x")
	res := expect.Must(Run(context.Background(), dir, target, Options{From: "relbench", DryRun: true}))(t)
	for _, says := range []string{
		`"users": {file: "users.csv", pkey: "userId", time_col: "createdAt", fkeys: {}}`,
		`"products": {file: "products.csv", pkey: "id", time_col: null, fkeys: {}}`,
		`"orders": {file: "orders-*.csv", pkey: "orderId", time_col: "at", fkeys: {"userId": "users", ` +
			`"productId": "products"}}`} {
		expect.That(t, strings.Contains(res.Draft, says), "no %s in\n%s", says, res.Draft)
	}
	put(t, dir, map[string]string{"manifest.yaml": res.Draft})
	res = expect.Must(Run(context.Background(), dir, target, Options{}))(t)
	expect.That(t, res.Kind == "relbench" && res.Nodes == 6 && res.Edges == 8, "%+v", res)
}

// countdown is a context that is cancelled after it has been asked this number of times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestRowsThatAreStoppedAtAnyMomentLeaveTheOldDatasetOrTheNewOne: by Ctrl-C, which cancels the context, at each place
// that looks at it.
func TestRowsThatAreStoppedAtAnyMomentLeaveTheOldDatasetOrTheNewOne(t *testing.T) {
	data := shop(t, Options{})
	before := expect.Must(os.ReadFile(filepath.Join(data, "dataset.json")))(t)
	rows := rowsOf(t, "users: user,age,plan/cid,1,free", "visits: visit,user,pages/2,cid,1")
	for n := 0; ; n++ {
		ctx := &countdown{context.Background(), n}
		_, err := Add(ctx, data, rows)
		if err == nil {
			expect.That(t, n > 5, "the context was asked %d times", n)
			return
		}
		expect.Is(t, err, context.Canceled, fmt.Sprint("stopped after ", n))
		unchanged(t, data, before)
	}
}

// rowsVictim makes this test add rows to a dataset, in a process that is killed.
const rowsVictim = "KHOP_TEST_ROWS_VICTIM"

// TestRowsWhoseWriterIsKilledLeaveTheOldDatasetOrTheNewOne at drawn moments. KHOP_KILLS is how many are killed.
func TestRowsWhoseWriterIsKilledLeaveTheOldDatasetOrTheNewOne(t *testing.T) {
	if dir := os.Getenv(rowsVictim); dir != "" {
		o := AddOptions{Rows: []Addition{{Name: "users", Path: filepath.Join(dir, "more.csv")}}}
		expect.Must(Add(context.Background(), filepath.Join(dir, "data"), o))(t)
		return
	}
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("KHOP_KILLS")); err == nil {
		kills = n
	}
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	source, more := shopFolder(t), "user,age,plan\n"
	for i := range 3000 {
		more += fmt.Sprintf("u%d,%d,%s\n", i, i, []string{"free", "paid", "gold"}[i%3])
	}
	var whole time.Duration
	counts := map[int64]int{}
	for i := range kills + 1 {
		dir := t.TempDir()
		data := filepath.Join(dir, "data")
		expect.Must(Run(context.Background(), source, data, Options{}))(t)
		put(t, dir, map[string]string{"more.csv": more})
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), rowsVictim+"="+dir, "GORACE=atexit_sleep_ms=0")
		begin := time.Now()
		expect.OK(t, cmd.Start())
		after := time.Minute // the first is not killed
		if i > 0 {
			after = time.Duration(r.Int64N(int64(whole)))
		}
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		whole = max(whole, time.Since(begin))
		report, err := formats.Check(context.Background(), data, formats.CheckOptions{Workers: 1})
		expect.Ensure(t, err == nil && report.OK(), "kill %d: %v, %v", i, err, report)
		ds := expect.Must(formats.Open(data))(t)
		n := ds.Graph().Schema().Nodes[0].Count
		expect.OK(t, ds.Close())
		expect.That(t, n == 2 || n == 3002, "kill %d: %d users", i, n)
		counts[n]++
		tidies := rowsOf(t, "users: user,age,plan/next,1,free")
		expect.Must(Add(context.Background(), data, tidies))(t)
		left := expect.Must(filepath.Glob(data + "?*"))(t)
		expect.That(t, len(left) == 0, "kill %d: left behind: %s", i, strings.Join(left, ", "))
	}
	t.Log("datasets by their users:", counts, "in", whole)
}
