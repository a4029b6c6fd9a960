package convert

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// odd is a source with oddities, and what a conversion is to say of them.
type odd struct {
	what  []string
	path  string
	opt   Options
	notes []formats.Note // by change, name and count; the text is a part of theirs
	fails string         // a part of the error, in place of a dataset
}

// has adds an oddity that a note speaks of.
func (o *odd) has(what string, change, name string, count int64, text string) {
	o.what = append(o.what, what)
	o.notes = append(o.notes, formats.Note{Change: change, Name: name, Count: count, Text: text})
}

// refuses adds an oddity that ends the conversion.
func (o *odd) refuses(what, says string) { o.what, o.fails = append(o.what, what), says }

// archive returns a .npz file.
func archive(t *testing.T, arrays map[string]any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, v := range arrays {
		w := expect.Must(z.Create(name + ".npy"))(t)
		shape := []int{}
		if pairs, ok := v.([][2]int64); ok {
			flat := []int64{}
			for _, p := range pairs {
				flat = append(flat, p[0], p[1])
			}
			v, shape = flat, []int{len(pairs), 2}
		}
		_, err := w.Write(expect.NPY(v, shape...))
		expect.OK(t, err)
	}
	expect.OK(t, z.Close())
	return b.Bytes()
}

// ring returns the edges of a ring of n nodes, whose ids count from first.
func ring(n, first int64) (list [][2]int64) {
	for i := range n {
		list = append(list, [2]int64{first + i, first + (i+1)%n})
	}
	return list
}

// oddEdgeList draws an edge list.
func oddEdgeList(t *testing.T, r *rand.Rand) *odd {
	o, n, first := &odd{}, 3+r.Int64N(20), int64(0)
	name := func(v int64) string { return fmt.Sprint(v) }
	switch r.IntN(3) {
	case 0:
		first = 1
		o.has("ids from 1", source.Guessed, "node", 1, "node 0 exists")
	case 1:
		name = func(v int64) string { return fmt.Sprintf("n%d", v) }
		o.has("names", source.Renumbered, "id", n, "ids are names")
	}
	header, third := "src dst\n", func(int64) string { return "" }
	switch r.IntN(4) {
	case 0:
		header, third = "", func(v int64) string { return fmt.Sprintf(" %d", v) }
		o.has("a field without a name", source.LeftOut, "edges", 1, "field 3 has no name")
	case 1:
		header, third = "src dst time\n", func(v int64) string { return fmt.Sprintf(" %d.25", v) }
		o.has("fractions of time", source.Guessed, "time", n, "taken for seconds")
	case 2:
		header, third = "src dst word\n", func(v int64) string { return fmt.Sprintf(" w%d", v) }
		o.has("a field of words", source.LeftOut, "word", n, `"word" is not stored`)
	}
	text := header
	for _, e := range ring(n, first) {
		text += name(e[0]) + " " + name(e[1]) + third(e[0]) + "\n"
	}
	o.path = write(t, "edges.txt", text)
	return o
}

// oddTables draws tables and a mapping.
func oddTables(t *testing.T, r *rand.Rand) *odd {
	o, n := &odd{}, 12+r.Int64N(20)
	dir := t.TempDir()
	nodes, edges := "id,score\n", "src,dst,at\n"
	mapping := "nodes: {n: {file: n.csv, label: score}}\nedges: {e: {file: e.csv, time: at}"
	kind := r.IntN(6)
	names, word, odd := kind == 0, r.IntN(2) == 0, r.IntN(2) == 0
	if names {
		o.has("ids that are no numbers of rows", source.Renumbered, "n", n, `"id" keeps their ids`)
	}
	if word {
		nodes = "id,score,word\n"
		o.has("a column of words", source.LeftOut, "n.csv", 1, "word (text)")
	}
	for i := range n {
		id := i
		if names {
			id = 100 + 3*i
		}
		nodes += fmt.Sprintf("%d,%d", id, i%3) + map[bool]string{true: ",w", false: ""}[word] + "\n"
	}
	for i, e := range ring(n, 0) {
		if names {
			e = [2]int64{100 + 3*e[0], 100 + 3*e[1]}
		}
		at := "2020-01-02"
		if odd && i == 0 {
			at = ""
		}
		edges += fmt.Sprintf("%d,%d,%s\n", e[0], e[1], at)
	}
	if odd && kind != 3 { // else all of another type are missing too
		o.has("a time that is missing", source.Said, "time", 1, "has no time")
	}
	if kind > 0 {
		o.spoilTables(t, kind, dir, n, &edges, &mapping)
	}
	put(t, dir, map[string]string{"n.csv": nodes, "e.csv": edges, "m.yaml": mapping + "}\n"})
	if o.path = filepath.Join(dir, "m.yaml"); kind == 4 {
		o.path = dir
	}
	return o
}

// spoilTables draws what is wrong with the tables as a whole.
func (o *odd) spoilTables(t *testing.T, kind int, dir string, n int64, edges, mapping *string) {
	switch kind {
	case 1:
		*edges = strings.Replace(*edges, "\n5,", "\nx,", 1)
		o.refuses("a bad row", `row 7: the id "x" is not a number, but most are`)
	case 2:
		*mapping = strings.Replace(*mapping, "label:", "lable:", 1)
		o.refuses("a key with a typo", `"lable" is not known here`)
	case 3:
		*mapping += ", typed: {file: t.csv, source: from1, target: from1}"
		text := "src,dst\n"
		for _, e := range ring(n, 1) {
			text += fmt.Sprintf("%d,%d\n", e[0], e[1])
		}
		put(t, dir, map[string]string{"t.csv": text})
		*mapping = strings.Replace(*mapping, "time: at}", "time: at, source: n, target: n}", 1)
		o.has("ids of a type from 1", source.Guessed, "from1", 1, "node 0 exists")
		o.has("edges without a time", source.Altered, "time", n, `"typed" have no column "time"`)
	case 4:
		*mapping = strings.Replace(*mapping, "file: e.csv", "file: ../e.csv", 1)
		o.refuses("a file beside the folder", "lies outside of the folder")
	}
}

// oddArchive draws a .npz archive.
func oddArchive(t *testing.T, r *rand.Rand) *odd {
	o, n, first := &odd{}, 3+r.Int64N(20), r.Int64N(2)
	arrays := map[string]any{}
	switch r.IntN(3) {
	case 0:
		arrays["edges"] = ring(n, 0)
		arrays["node_labels"] = make([]int64, n)
		o.has("edges of a format that doubles them", source.Doubled, "edges", n, "stored in both")
		first = 0
	case 1:
		arrays["edges"] = ring(n, first)
	case 2:
		arrays["edge_index"] = ring(n, first)
	}
	if first == 1 {
		o.has("ids from 1", source.Guessed, "node", 1, "node 0 exists")
	}
	if r.IntN(2) == 0 {
		arrays["what"] = make([]int64, n+first+7)
		o.has("an array of another length", source.LeftOut, "arrays", 1, "what (<i8")
	}
	o.path = write(t, "x.npz", string(archive(t, arrays)))
	return o
}

// oddCollection draws a collection of MUSAE.
func oddCollection(t *testing.T, r *rand.Rand) *odd {
	o, n := &odd{}, 3+r.Int64N(10)
	table, edges, features := "id,days,mature,new_id\n", "from,to\n", "{"
	o.has("edges that go both ways", source.Doubled, "edges", n, "stored in both")
	if r.IntN(2) == 0 {
		o.has("labels that nobody names", source.Guessed, "mature", n, "taken for the labels")
	} else {
		o.opt.Label = "days"
	}
	missing := r.Int64N(n)
	for i, e := range ring(n, 0) {
		table += fmt.Sprintf("%d,%d,%v,%d\n", 1000+i, i*7, i%2 == 0, i)
		edges += fmt.Sprintf("%d,%d\n", e[0], e[1])
		if int64(i) >= missing {
			features += fmt.Sprintf(`"%d":[%d],`, i, i%3)
		}
	}
	if missing > 0 {
		o.has("nodes without features", source.Altered, "feature", missing, "missing from")
	}
	o.path = files(t, map[string]string{"x_target.csv": table, "x_edges.csv": edges,
		"x_features.json": strings.TrimSuffix(features, ",") + "}"})
	return o
}

// Whatever of an odd source the dataset does not hold as it is there stands in the notes, with name and count; and with
// Strict there is no dataset. KHOP_DRAWS says how many sources are drawn.
func TestWhatADatasetDoesNotHoldIsSaid(t *testing.T) {
	seed := expect.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	kinds := []func(*testing.T, *rand.Rand) *odd{oddEdgeList, oddTables, oddArchive, oddCollection}
	met := map[string]int{}
	for i := range expect.Draws(t, 48) {
		o := kinds[i%len(kinds)](t, r)
		for _, w := range o.what {
			met[w]++
		}
		fails := func(opt Options) (*Result, error) {
			dst := filepath.Join(t.TempDir(), "x")
			res, err := Run(context.Background(), o.path, dst, opt)
			_, none := os.Stat(dst)
			expect.That(t, (err == nil) == (none == nil), "draw %d, %q: %v, and %v", i, o.what, err, none)
			return res, err
		}
		res, err := fails(o.opt)
		if o.fails != "" {
			expect.That(t, err != nil && strings.Contains(err.Error(), o.fails), "draw %d, %q: %v lacks %q", i, o.what,
				err, o.fails)
			continue
		}
		expect.Ensure(t, err == nil, "draw %d, %q: %v", i, o.what, err)
		guesses := 0
		for _, want := range o.notes {
			expect.That(t, slices.ContainsFunc(res.Notes, func(n formats.Note) bool {
				return n.Change == want.Change && n.Name == want.Name && n.Count == want.Count &&
					strings.Contains(n.Text, want.Text)
			}), "draw %d, %q: %+v is not in\n%+v", i, o.what, want, res.Notes)
		}
		for _, n := range res.Notes {
			if n.Change != source.Said {
				guesses++
			}
		}
		expect.That(t, guesses == len(slices.DeleteFunc(slices.Clone(o.notes), func(n formats.Note) bool {
			return n.Change == source.Said
		})), "draw %d, %q: other notes\n%+v", i, o.what, res.Notes)
		strict := o.opt
		strict.Strict = true
		_, err = fails(strict)
		expect.That(t, errors.Is(err, ErrStrict) == (guesses > 0) && (err == nil) == (guesses == 0),
			"draw %d, %q: strict: %v", i, o.what, err)
	}
	expect.That(t, len(met) >= 15, "only these oddities were met: %v", met)
}

// Any column of any kind of source may be the labels, and others be left out.
func TestLabelsAndColumnsAreChosen(t *testing.T) {
	o := oddCollection(t, rand.New(rand.NewPCG(1, 1)))
	_, ds := convert(t, o.path, Options{Label: "days", Keep: []string{"label", "source_label"}})
	columns := ds.Graph().Schema().Nodes[0].Columns
	var names []string
	for _, c := range columns {
		names = append(names, c.Name)
	}
	label, _ := ds.Graph().NodeColumn(0, "label")
	list := expect.Must(unified.View[int64](label))(t)
	expect.That(t, fmt.Sprint(names) == "[source_label label]" && list[1] == 7, "columns %v, labels %v", names, list)
	src := write(t, "e.csv", "src,dst,w,v\n0,1,2,3\n1,0,4,5\n")
	res, ds := convert(t, src, Options{Keep: []string{"v"}})
	v, ok := ds.Graph().EdgeColumn("v")
	kept := expect.Must(unified.View[int64](v))(t)
	expect.That(t, ok && len(ds.Graph().Schema().EdgeColumns) == 1 && kept[0]+kept[1] == 8 &&
		strings.Contains(noteText(res), "left out, by request: w"), "%v, notes %q", kept, res.Notes)
	for opt, says := range map[string]Options{"--label": {Label: "nothing"}, "--keep": {Keep: []string{"nothing"}}} {
		_, err := Run(context.Background(), src, filepath.Join(t.TempDir(), "x"), says)
		expect.That(t, errors.Is(err, ErrOptions), "%s: %v", opt, err)
	}
}

// TestFilesOfNoKindAreToBeExported: no --from reads a file of JSON or GML, so that none is named.
func TestFilesOfNoKindAreToBeExported(t *testing.T) {
	for text, says := range map[string]string{"{\"nodes\": []}": "a JSON file", "graph [\n]\n": "a GML file"} {
		_, err := Run(context.Background(), write(t, "g.txt", text), filepath.Join(t.TempDir(), "x"), Options{})
		expect.That(t, err != nil && strings.Contains(err.Error(), says) &&
			strings.Contains(err.Error(), "export its edges as a CSV") && !strings.Contains(err.Error(), "metis"), "%v",
			err)
	}
}
