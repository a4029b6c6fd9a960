package formats

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/unified"
)

// openError opens and closes.
// parts returns all files that the content names.
func (c *Content) parts() (list []*Part) {
	for _, f := range c.files() {
		list = append(list, f.part)
	}
	return list
}

func openError(dir string) error {
	d, err := Open(dir)
	if err != nil {
		return err
	}
	return d.Close()
}

func isKnown(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) || errors.Is(err, ErrIncomplete)
}

// flips are the bits that tests change in each byte.
var flips = []byte{0x01, 0x20, 0x80}

// TestEveryFlippedBitOfManifestHeadAndFooterIsFound changes every bit in memory, and some in the files themselves.
func TestEveryFlippedBitOfManifestHeadAndFooterIsFound(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{Provenance: map[string]string{"source": "test"}})
	m := manifestOf(t, dir)
	checks := map[string]func(b []byte) error{manifestName: func(b []byte) error {
		_,
			err := parseManifest(b)
		return err
	}}
	elements := map[string][2]int64{}
	for i := range m.Columns {
		a, p := &m.Columns[i], &m.Columns[i].Parts[0]
		typ := expect.Must(a.arrayType())(t)
		elements[p.Path] = [2]int64{p.BodyOffset, p.BodyOffset + p.Bytes}
		checks[p.Path] = func(b []byte) error { _, err := checkFile(b, typ, p); return err }
	}
	all := expect.Files(t, dir)
	for name, check := range checks {
		b := all[name]
		expect.OK(t, check(b))
		good := slices.Clone(b)
		expect.EachByte(b, func(i int, was byte) []byte {
			if e := elements[name]; int64(i) >= e[0] && int64(i) < e[1] {
				return nil // Check reads them
			}
			return expect.Flips(was)
		}, func(i int) {
			err := check(b)
			expect.Ensure(t, errors.Is(err, ErrCorrupt), "%s: byte %d is %x: %v", name, i, b[i], err)
			if i%23 == 0 && b[i] == good[i]^1<<(i%8) {
				put(t, dir, name, b)
				err := openError(dir)
				expect.Ensure(t, errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), filepath.FromSlash(name)),
					"%s: byte %d is %x in the file: %v", name, i, b[i], err)
			}
		})
		put(t, dir, name, b)
	}
	err := openError(dir)
	expect.Ensure(t, err == nil, "restored: %v", err)
}

func TestOpenFindsEveryCutAndEveryTail(t *testing.T) {
	dir := write(t, randomArrays(t, 7, 20_000, 8), WriterOptions{})
	for name, b := range expect.Files(t, dir) {
		for n := 0; n < len(b); n += 4096 {
			put(t, dir, name, b[:n])
			if err := openError(dir); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s cut to %d of %d bytes: %v", name, n, len(b), err)
			}
			if n%(8*4096) != 0 {
				continue
			}
			report, err := Check(context.Background(), dir, CheckOptions{})
			if err != nil || report.OK() || !strings.Contains(report.Problems[0].Error(), filepath.FromSlash(name)) {
				t.Fatalf("check of %s cut to %d of %d bytes: %+v %v", name, n, len(b), report, err)
			}
		}
		for _, n := range []int{1, 5, len(b) - 1} {
			put(t, dir, name, b[:len(b)-n])
			err := openError(dir)
			expect.Ensure(t, errors.Is(err, ErrCorrupt), "%s cut by %d bytes: %v", name, n, err)
		}
		put(t, dir, name, append(b[:len(b):len(b)], 0))
		err := openError(dir)
		expect.Ensure(t, errors.Is(err, ErrCorrupt), "%s longer by a byte: %v", name, err)
		os.Remove(filepath.Join(dir, name))
		err = openError(dir)
		expect.Ensure(t, isKnown(err), "%s missing: %v", name, err)
		put(t, dir, name, b)
	}
	err := openError(dir)
	expect.Ensure(t, err == nil, "restored: %v", err)
}

// flip writes one byte to a file.
func flip(t testing.TB, f *os.File, b byte, at int64) {
	t.Helper()
	_, err := f.WriteAt([]byte{b}, at)
	expect.OK(t, err)
}

var byteRange = regexp.MustCompile(`bytes ([\d,]+) to ([\d,]+) \(chunk \d+ of \d+\) do not fit their checksum`)

func TestCheckFindsEveryFlippedByteAndSaysWhere(t *testing.T) {
	dir := write(t, randomArrays(t, 9, 3000, 3), WriterOptions{chunkBytes: 4096})
	m := manifestOf(t, dir)
	for _, p := range m.parts() {
		b := expect.Files(t, dir)[p.Path]
		f := expect.Must(os.OpenFile(filepath.Join(dir, filepath.FromSlash(p.Path)), os.O_WRONLY, 0))(t)
		step := int64(97)
		if invariants.Enabled {
			step = 701 // with -race
		}
		for k, i := 0, p.BodyOffset; i < p.BodyOffset+p.Bytes; k, i = k+1, i+step {
			flip(t, f, b[i]^flips[k%len(flips)], i)
			report, err := Check(context.Background(), dir, CheckOptions{Workers: 1 + k%3})
			expect.Ensure(t, err == nil && !report.OK(), "%s: byte %d changed: %+v, %v", p.Path, i, report, err)
			located := false
			for _, problem := range report.Problems {
				if r := byteRange.FindStringSubmatch(problem.Error()); r != nil {
					lo, hi := number(r[1]), number(r[2])
					located = located || lo <= i && i < hi && hi-lo <= 4096 &&
						strings.Contains(problem.Error(), filepath.FromSlash(p.Path))
				}
				expect.Ensure(t, errors.Is(problem, ErrCorrupt), "not ErrCorrupt: %v", problem)
			}
			expect.Ensure(t, located, "%s: byte %d changed: not located by %v", p.Path, i, report.Problems)
			flip(t, f, b[i], i)
		}
		f.Close()
	}
	if report, err := Check(context.Background(), dir, CheckOptions{}); err != nil || !report.OK() {
		t.Fatal("restored: ", report, err)
	}
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 64)
	return n
}

func manifestOf(t testing.TB, dir string) *Manifest {
	t.Helper()
	text := expect.Must(os.ReadFile(filepath.Join(dir, manifestName)))(t)
	return expect.Must(parseManifest(text))(t)
}

// brokenRules change a graph so that it breaks one rule, while all checksums are right. testdata/said/check.txt has the
// message and the place that is reported.
var brokenRules = []struct {
	name   string
	typed  bool
	change func(*graph.Arrays)
}{
	{"source too large", false, indices(1, 4, 5, 0, 0, 3)},
	{"source negative", false, indices(1, 4, 2, 0, 0, -1)},
	{"order", false, indices(4, 1, 2, 0, 0, 3)},
	{"order at the end", false, indices(1, 4, 2, 3, 0, 3)},
	{"indptr descends", false, func(a *graph.Arrays) { a.Indptr = unified.FromSlice([]int64{0, 2, 1, 3, 5, 6}) }},
	{"indptr out of range", false, func(a *graph.Arrays) { a.Indptr = unified.FromSlice([]int64{0, 2, 9, 3, 5, 6}) }},
	{"indptr negative", false, func(a *graph.Arrays) { a.Indptr = unified.FromSlice([]int64{0, -2, 2, 3, 5, 6}) }},
	{"seed out of range", false, func(a *graph.Arrays) { a.Splits[1].Seeds = graph.NodeIDs([]int32{0, 5}) }},
	{"wide seed out of range", false, func(a *graph.Arrays) { a.Splits[1].Seeds = graph.NodeIDs([]int64{0, 5}) }},
	{"seed negative", false, func(a *graph.Arrays) { a.Splits[1].Seeds = graph.NodeIDs([]int64{-1}) }},
	{"weight NaN", true, weights(nan())},
	{"weight infinite", true, weights(inf())},
	{"weight negative", true, weights(-1)},
	{"weight of two numbers, the last NaN", true, func(a *graph.Arrays) {
		w := make([]float64, 2*7)
		w[13] = nan()
		a.Schema.EdgeColumns[1].Shape = []int64{2}
		a.EdgeColumns["weight"], _ = unified.New(unified.Float64, unified.FromSlice(w).Bytes(), 7, 2)
	}},
	{"edge id negative", true, func(a *graph.Arrays) { a.EdgeIDs = unified.FromSlice([]int64{6, 0, 1, 2, 3, 4, -5}) }},
	{"type too large", true, types(0, 0, 1, 1, 0, 1, 4)},
	{"type in disorder", true, types(0, 1, 0, 1, 0, 1, 2)},
	{"type of other nodes", true, types(0, 0, 1, 1, 0, 2, 2)},
	{"source of another type", true, indices(3, 1, 4, 5, 2, 3, 0)},
	{"time in disorder", true, func(a *graph.Arrays) {
		a.EdgeColumns["time"] = unified.FromSlice([]int32{8, 7, 0, 0, 1, 0, 0})
	}},
	{"counts by type", true, func(a *graph.Arrays) {
		a.Types, a.Indices = unified.FromSlice([]uint8{0, 0, 0, 1, 0, 1, 2}),
			unified.FromSlice([]int32{3, 1, 2, 5, 2, 4, 0})
		a.EdgeColumns["time"] = unified.FromSlice([]int32{-5, 7, 8, 0, 1, 0, 0})
	}},
	{"parallel edges with one id", false, func(a *graph.Arrays) {
		a.Indices, a.EdgeIDs = unified.FromSlice([]int32{1, 1, 2, 0, 0, 3}),
			unified.FromSlice([]int64{4, 4, 0, 1, 2, 3})
	}},
}

func indices(v ...int32) func(*graph.Arrays) {
	return func(a *graph.Arrays) { a.Indices = unified.FromSlice(v) }
}

func weights(bad float64) func(*graph.Arrays) {
	return func(a *graph.Arrays) {
		a.EdgeColumns["weight"] = unified.FromSlice([]float64{0, 1, 2.5, bad, 1e300, 5, 6})
	}
}

func types(v ...uint8) func(*graph.Arrays) {
	return func(a *graph.Arrays) { a.Types = unified.FromSlice(v) }
}

func TestCheckReportsABoundedNumberOfProblems(t *testing.T) {
	c := &checker{}
	for i := range 10 * maxProblems {
		c.add(0, int64(i), ErrCorrupt)
	}
	expect.That(t, len(c.found) < 2*maxProblems, "%d problems are kept", len(c.found))
	a := randomArrays(t, 11, 40_000, 8)
	w, _ := unified.View[float32](a.EdgeColumns["weight"])
	dir := write(t, a, WriterOptions{chunkBytes: 4096})
	path := filepath.Join(dir, "graph/weight.arrow")
	b := expect.Files(t, dir)["graph/weight.arrow"]
	p := manifestOf(t, dir).Columns[2].Parts[0]
	for i := range int64(len(w)) {
		copy(b[p.BodyOffset+4*i:], "\xff\xff\xff\xff")
	}
	expect.OK(t, os.WriteFile(path, b, 0o666))
	report, err := Check(context.Background(), dir, CheckOptions{Workers: 3})
	expect.Ensure(t, err == nil && len(report.Problems) == maxProblems && report.Found > maxProblems,
		"%d problems listed of %d: %v", len(report.Problems), report.Found, err)
	again, _ := Check(context.Background(), dir, CheckOptions{Workers: 1})
	for i := range report.Problems {
		if report.Problems[i].Error() != again.Problems[i].Error() {
			t.Fatalf("problem %d depends on the number of workers: %v, %v", i, report.Problems[i], again.Problems[i])
		}
	}
}

func nan() float64 { var z float64; return z / z }
func inf() float64 { var z float64; return 1 / z }

// forge changes a dataset's manifest and makes id and checksum right again.
func forge(t testing.TB, dir string, change func(*Manifest)) {
	t.Helper()
	m := manifestOf(t, dir)
	change(m)
	text := expect.Must(m.encode())(t)
	put(t, dir, manifestName, text)
}

func part(f func(*Part)) func(*Manifest) { return func(m *Manifest) { f(&m.Columns[0].Parts[0]) } }

func column(i int, f func(*ArrayInfo)) func(*Manifest) { return func(m *Manifest) { f(&m.Columns[i]) } }

// lyingManifests change one field each. testdata/said/open.txt has what Open says of them.
var lyingManifests = map[string]func(*Manifest){
	"rows more":             part(func(p *Part) { p.Rows++ }),
	"rows huge":             part(func(p *Part) { p.Rows = 1 << 62 }),
	"rows negative":         part(func(p *Part) { p.Rows = -1 }),
	"body offset 0":         part(func(p *Part) { p.BodyOffset = 0 }),
	"body offset odd":       part(func(p *Part) { p.BodyOffset++ }),
	"body offset far":       part(func(p *Part) { p.BodyOffset = 1 << 40 }),
	"body offset negative":  part(func(p *Part) { p.BodyOffset = -128 }),
	"bytes more":            part(func(p *Part) { p.Bytes += 8 }),
	"bytes huge":            part(func(p *Part) { p.Bytes = 1<<63 - 1 }),
	"bytes negative":        part(func(p *Part) { p.Bytes = -8 }),
	"file bytes more":       part(func(p *Part) { p.FileBytes++ }),
	"file bytes huge":       part(func(p *Part) { p.FileBytes = 1<<63 - 1 }),
	"head sum":              part(func(p *Part) { p.HeadXXH3 = "0000000000000000" }),
	"head sum no number":    part(func(p *Part) { p.HeadXXH3 = "x" }),
	"path of another file":  part(func(p *Part) { p.Path = "graph/indices.arrow" }),
	"path out":              part(func(p *Part) { p.Path = "../x.khop/graph/indptr.arrow" }),
	"path in and out":       part(func(p *Part) { p.Path = "graph/../graph/indptr.arrow" }),
	"path absolute":         part(func(p *Part) { p.Path = "/etc/passwd.arrow" }),
	"path with a backslash": part(func(p *Part) { p.Path = `graph\indptr.arrow` }),
	"path empty":            part(func(p *Part) { p.Path = "" }),
	"path of a directory":   part(func(p *Part) { p.Path = "graph" }),
	"two parts": func(m *Manifest) {
		m.Columns[0].Parts = append(m.Columns[0].Parts, m.Columns[1].Parts[0])
	},
	"no parts":                 func(m *Manifest) { m.Columns[0].Parts = nil },
	"no indptr":                func(m *Manifest) { m.Columns = m.Columns[1:] },
	"no columns":               func(m *Manifest) { m.Columns = nil },
	"a column twice":           func(m *Manifest) { m.Columns = append(m.Columns, m.Columns[0]) },
	"owner":                    column(2, func(a *ArrayInfo) { a.Owner = "nodes/1" }),
	"owner negative":           column(2, func(a *ArrayInfo) { a.Owner = "nodes/-1" }),
	"owner huge":               column(2, func(a *ArrayInfo) { a.Owner = "nodes/99999999999999999999" }),
	"topology name":            column(0, func(a *ArrayInfo) { a.Name = "csr" }),
	"dtype of the same size":   column(2, func(a *ArrayInfo) { a.DType = "int32" }),
	"dtype unknown":            column(2, func(a *ArrayInfo) { a.DType = "complex64" }),
	"indptr of float64":        column(0, func(a *ArrayInfo) { a.DType = "float64" }),
	"numbers as strings":       column(3, func(a *ArrayInfo) { a.DType = "utf8" }),
	"shape":                    column(2, func(a *ArrayInfo) { a.Shape = []int64{1, 3} }),
	"shape zero":               column(2, func(a *ArrayInfo) { a.Shape = []int64{0} }),
	"shape negative":           column(2, func(a *ArrayInfo) { a.Shape = []int64{-3} }),
	"shape overflows":          column(2, func(a *ArrayInfo) { a.Shape = []int64{1 << 30, 1 << 30, 1 << 30} }),
	"shape of many dimensions": column(2, func(a *ArrayInfo) { a.Shape = []int64{1, 1, 1, 3} }),
	"nodes more":               func(m *Manifest) { m.NodeTypes[0].Count++ },
	"nodes negative":           func(m *Manifest) { m.NodeTypes[0].Count = -5 },
	"nodes overflow":           func(m *Manifest) { m.NodeTypes[0].Count = 1<<63 - 1 },
	"edges fewer":              func(m *Manifest) { m.EdgeTypes[0].Count-- },
	"no node types":            func(m *Manifest) { m.NodeTypes = nil },
	"no edge types":            func(m *Manifest) { m.EdgeTypes = nil },
	"two edge types": func(m *Manifest) {
		m.EdgeTypes = append(m.EdgeTypes, EdgeInfo{"node", "x", "node", 0, "source"})
	},
	"order":                     func(m *Manifest) { m.EdgeTypes[0].Order = "random" },
	"a long name":               func(m *Manifest) { m.NodeTypes[0].Name = strings.Repeat("x", 1<<20) },
	"a column's long name":      column(2, func(a *ArrayInfo) { a.Name = strings.Repeat("x", 1<<20) }),
	"order by time without it":  func(m *Manifest) { m.EdgeTypes[0].Order = "time" },
	"chunks of no bytes":        func(m *Manifest) { m.ChunkBytes = 0 },
	"chunks of negative length": func(m *Manifest) { m.ChunkBytes = -4096 },
	"split of another type":     func(m *Manifest) { m.Splits[0].Sets[0].NodeType = 1 },
	"split of negative type":    func(m *Manifest) { m.Splits[0].Sets[0].NodeType = -1 },
	"split of floats":           func(m *Manifest) { m.Splits[0].Sets[0].DType = "float32" },
	"split twice":               func(m *Manifest) { m.Splits[1].Name = "train" },
	"table of no task":          func(m *Manifest) { m.Splits[0].Task = "table" },
	"split without seeds":       func(m *Manifest) { m.Splits[1].Sets = nil },
	"task":                      func(m *Manifest) { m.Splits[0].Task = "link" },
	"format 2.0":                func(m *Manifest) { m.Format = [2]int{2, 0} },
	"format 0.9":                func(m *Manifest) { m.Format = [2]int{0, 9} },
}

// The arrays of the graph may stand anywhere among the columns.
func TestOpenChecksTheGraphBehindOtherColumns(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	forge(t, dir, func(m *Manifest) { slices.Reverse(m.Columns) })
	expect.OK(t, openError(dir))
	forge(t, dir, func(m *Manifest) { m.Columns[len(m.Columns)-1].DType = "uint64" })
	err := openError(dir)
	expect.That(t, errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), "it must be int64"), "%v", err)
}

func TestOpenOfAFileNamesIt(t *testing.T) {
	path := filepath.Join(scratchDir(t), "edges.txt")
	expect.OK(t, os.WriteFile(path, []byte("0 1\n"), 0o600))
	var e *Error
	err := openError(path)
	expect.That(t, errors.As(err, &e) && errors.Is(err, ErrIncomplete) && e.Path == path && strings.Contains(e.Remedy,
		"convert"), "%v", err)
}

func TestOpenReadsLaterMinorVersionsAndIgnoresUnknownKeys(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	forge(t, dir, func(m *Manifest) { m.Format[1] = 7 })
	rewrite(t, dir, `"generation": 1,`, `"generation": 1, "later": {"a": [1, 2, {"b": null}]},`)
	d := open(t, dir)
	expect.That(t, d.Manifest().Format == [2]int{1, 7}, "format %v", d.Manifest().Format)
}

func TestOpenRefusesLinksAndPipes(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	path := filepath.Join(dir, "graph/indptr.arrow")
	moved := filepath.Join(scratchDir(t), "moved")
	b, _ := os.ReadFile(path)
	if err := errors.Join(os.WriteFile(moved, b, 0o666), os.Remove(path), os.Symlink(moved, path)); err != nil {
		t.Skip("no links here: ", err)
	}
	expect.Is(t, openError(dir), ErrCorrupt, "a link out of the directory")
	expect.OK(t, os.Remove(path), os.Rename(filepath.Join(dir, "graph"), filepath.Join(dir, "away")),
		os.Symlink("away", filepath.Join(dir, "graph")))
	put(t, dir, "away/indptr.arrow", b)
	expect.Is(t, openError(dir), ErrCorrupt, "a link to a directory")
	expect.OK(t, os.Remove(filepath.Join(dir, "graph")),
		os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "graph")))
	err := openError(dir)
	expect.Ensure(t, err == nil, "restored: %v", err)
	os.Remove(path)
	if err := makePipe(path); err != nil {
		t.Skip("no pipes here: ", err)
	}
	expect.Is(t, openError(dir), ErrCorrupt, "a pipe")
}

// rewrite replaces text in a manifest and makes the checksum right again, but not the id.
func rewrite(t testing.TB, dir, old, new string) {
	t.Helper()
	text := string(expect.Files(t, dir)[manifestName])
	expect.Ensure(t, strings.Count(text, old) == 1, "%q is not there once", old)
	put(t, dir, manifestName, seal(strings.Replace(text, old, new, 1)))
}

func TestHostileJSONIsRefusedBeforeItIsDecoded(t *testing.T) {
	for name, body := range map[string]string{
		"deep":         strings.Repeat("[", 1<<20),
		"deep objects": strings.Repeat(`{"a":`, 1<<16),
		"many objects": `{"content": [` + strings.Repeat("{},", 1<<20) + "{}]}",
		"many values":  `{"content": {"columns": [{"shape": [1` + strings.Repeat(",1", 1<<22+1) + "]}]}}",
		"no object":    "[]",
		"a number":     "1",
		"cut":          `{"format": [1,`,
		"wrong types":  `{"format": "1.0", "requires": 3, "content": []}`,
		"no content":   `{"format": [1, 0]}`,
		"huge number":  `{"format": [1e999, 0]}`,
		"long version": `{"format": [1, 0, 0]}`,
	} {
		_, err := parseManifest(seal(body + "\n" + manifestChecksum + strings.Repeat("0", 16) + manifestEnd))
		big := len(body) > 1<<16
		expect.That(t, isKnown(err) && big == strings.Contains(err.Error(), "nested too deeply"), "%s: %v", name, err)
	}
}

// A manifest is not read that is longer than any may be.
func TestAManifestWithoutEndIsNotRead(t *testing.T) {
	dir := write(t, plainArrays(t), WriterOptions{})
	for size, says := range map[int64]string{64 << 20: "cut short", 64<<20 + 1: "of 64 MiB", 1 << 40: "of 1.0 TiB"} {
		expect.OK(t, os.Truncate(filepath.Join(dir, manifestName), size))
		expect.Says(t, openError(dir), ErrCorrupt, says, "%d bytes", size)
	}
}

func FuzzManifest(f *testing.F) {
	for _, a := range []graph.Arrays{plainArrays(f), typedArrays(f)} {
		text := expect.Files(f, write(f, a, WriterOptions{}))[manifestName]
		f.Add(text)
		var j manifestJSON
		expect.OK(f, json.Unmarshal(text, &j))
		f.Add([]byte(j.Content))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, try := range [][]byte{text, seal(string(text)), asContent(text)} {
			m, err := parseManifest(try)
			expect.Ensure(t, err == nil || isKnown(err), "%v", err)
			if err != nil {
				continue
			}
			for _, p := range m.parts() { // what is accepted stays in the directory and in the file
				expect.Ensure(t, filepath.IsLocal(filepath.FromSlash(p.Path)) && p.BodyOffset >= 0 && p.Bytes >= 0 &&
					p.BodyOffset+p.Bytes <= p.FileBytes, "accepted %+v", p)
			}
		}
	})
}
