package tables

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// readNulls reads a mapping and its tables, of which cells stand for missing values.
func readNulls(t *testing.T, files map[string]string, null ...string) (string, *source.Graph) {
	t.Helper()
	g := expect.Must(Reader.Read(context.Background(), sourcetest.Folder(t, "g", files).In("m.yaml"),
		&source.Request{Budget: &source.Budget{Dir: t.TempDir()}, Null: null}))(t)
	text := sourcetest.Spell(t, g)
	t.Cleanup(func() { expect.OK(t, g.Close()) })
	return text, g
}

// TestCellsThatKeepAColumnFromBeingNumbersAreNamed reads columns that are numbers, dates or truths but for some cells.
func TestCellsThatKeepAColumnFromBeingNumbersAreNamed(t *testing.T) {
	table := "id,age,day,flag,name\n0,1,2020-01-01,true,x\n1,\\N,2020-01-02,NULL,y\n2,3,NULL,false,NA\n3,4.5,,true,z\n"
	files := map[string]string{"n.csv": table, "e.csv": "src,dst\n0,1\n1,2\n", "m.yaml": "nodes: {n: {file: n.csv, " +
		"columns: [age, day, flag, name]}}\nedges: {e: e.csv}\n"}
	_, g := readNulls(t, files)
	said := source.Text(g.Notes)
	const unlike = "cells are unlike the others, such as"
	for _, want := range []string{`n.csv: "age" is text: 1 of 4 ` + unlike + ` "\\N" in line 3`,
		`"day" is text: 1 of 3 ` + unlike + ` "NULL" in line 4`, `"flag" is text: 1 of 4`} {
		expect.That(t, strings.Contains(said, want), "%s is not in\n%s", want, said)
	}
	expect.That(t, !strings.Contains(said, `"name" is text`), "%s", said)
	const want = "age float64[]: [1,NaN,3,4.5]\n  day int64[]us"
	got, g := readNulls(t, files, "NULL", `\N`)
	expect.That(t, strings.Contains(got, "flag float64[]: [1,NaN,0,1]"), "%s", got)
	expect.That(t, strings.Contains(got, want) && !strings.Contains(source.Text(g.Notes), "is text"), "%s\n%s", got,
		source.Text(g.Notes))
	for _, null := range []string{`null: ['\N', NULL]`, `null: ["\\N", "NULL"]`} {
		files["m.yaml"] = strings.Replace(files["m.yaml"], "file: n.csv", "file: n.csv, "+null, 1)
		got, g = readNulls(t, files)
		expect.That(t, strings.Contains(got, want) && !strings.Contains(source.Text(g.Notes), "is text"), "%s: %s\n%s",
			null, got, source.Text(g.Notes))
		files["m.yaml"] = strings.Replace(files["m.yaml"], ", "+null, "", 1)
	}
	files["m.yaml"] = strings.Replace(files["m.yaml"], "[age, day, flag, name]", "[age], null: NULL", 1)
	_, g = readNulls(t, files, `\N`) // the mapping counts
	expect.That(t, strings.Contains(source.Text(g.Notes), `"age" is text`), "%s", source.Text(g.Notes))
}

// TestMissingWholeNumbersOfTextAreNaN stores whole numbers of a CSV as floats where some are missing; labels and ids
// stay whole.
func TestMissingWholeNumbersOfTextAreNaN(t *testing.T) {
	files := map[string]string{"n.csv": "id,age,y,a,b\n0,1,2,1,0.5\n1,,,2,1.5\n2,3,1,,2.5\n",
		"e.csv":  "src,dst,k\n0,1,7\n1,2,\n",
		"m.yaml": "nodes: {n: {file: n.csv, features: [a, b]}}\nedges: {e: e.csv}\n"}
	got, _ := readNulls(t, files)
	for _, want := range []string{"age float64[]: [1,NaN,3]", "label int64[]: [2,-1,1]",
		"feature float64[2]: [1,0.5,2,1.5,NaN,2.5]", "edge k float64[]", "0>1:7 1>2:NaN"} {
		expect.That(t, strings.Contains(got, want), "%s is not in\n%s", want, got)
	}
	files["n.csv"] = "id,age\n0,9007199254740993\n1,\n2,3\n" // which floats do not hold
	g, err := Reader.Read(context.Background(), sourcetest.Folder(t, "g", files).In("m.yaml"),
		&source.Request{Budget: &source.Budget{Dir: t.TempDir()}})
	if err == nil {
		err = errors.Join(g.Nodes[0].Columns[0].Write(context.Background(), new(strings.Builder)), g.Close())
	}
	expect.That(t, err != nil, "no error")
}

// TestColumnsThatCannotKeepTheirNameOrValuesAreNamed has a name twice among edges, names that kinds take, and whole
// numbers that float32 does not hold.
func TestColumnsThatCannotKeepTheirNameOrValuesAreNamed(t *testing.T) {
	files := map[string]string{"e.csv": "src,dst,when,time\n0,1,5,6\n1,2,7,8\n",
		"m.yaml": "edges: {e: {file: e.csv, time: when}}\n"}
	_, g := readNulls(t, files)
	said := source.Text(g.Notes)
	expect.That(t, strings.Contains(said, `e.csv: the column "time" is not stored: another has its name`), "%s", said)
	files = map[string]string{"n.csv": "n,boss,numerical,big\n1,2,some words,16777217\n2,1,other words,16777216\n",
		"m.yaml": "nodes: {n: {file: n.csv, id: n, kinds: {numerical: text, big: numerical}, keys: {boss: n}}}\n"}
	_, g = readNulls(t, files)
	said = source.Text(g.Notes)
	for _, want := range []string{`n.csv: the column "numerical" is stored as "numerical_"`,
		`"big": 1 whole number that float32 does not hold, and rounds`} {
		expect.That(t, strings.Contains(said, want), "%s is not in\n%s", want, said)
	}
}

// What a manifest says of elements: the deviation of all rows (not of a sample), quartiles between values as NumPy's,
// and categories with the most frequent first, of equal ones that which appears first.
func TestElementsAreDescribedByWhatTheyHold(t *testing.T) {
	numbers := &meant{f: &columnar.Field{Name: "price"}, kind: numerical, missing: 2}
	for _, x := range []float64{8, 1, 4, 2} {
		numbers.moments.add(x)
		numbers.values = append(numbers.values, x)
	}
	kinds := &meant{f: &columnar.Field{Name: "kind"}, kind: categorical, counts: []int64{2, 5, 1, 5}}
	kinds.number()
	expect.Same(t, string(describe([]*meant{numbers, kinds})),
		`[{"name":"price","kind":"numerical","missing":2,"mean":3.75,"std":2.680951323690902,`+
			`"quantiles":[1,1.75,3,5,8]},{"name":"kind","kind":"categorical","missing":0,"counts":[5,5,2,1]}]`)
	expect.Same(t, kinds.codes, []int32{2, 0, 3, 1})
}

// TestEachEncodingOfPagesHoldsTheSame compares a table in all encodings, which pyarrow wrote, with itself in Arrow.
func TestEachEncodingOfPagesHoldsTheSame(t *testing.T) {
	read := func(name string) (says []string) {
		at := source.Local(filepath.Join("testdata", name))
		p := expect.Must(openPart(context.Background(), at, Format{}, &source.Request{}))(t)
		for i, f := range p.Fields() {
			if f.Name == "ragged" {
				p.Fields()[i].Ragged = true
			}
			text := f.Name
			expect.OK(t, p.Scan(context.Background(), []int{i}, func(b *columnar.Batch) error {
				for v, k := &b.Columns[0], 0; k < b.Rows; k++ {
					lo, hi := int64(k)*f.Width, int64(k+1)*f.Width
					if v.Offsets != nil {
						lo, hi = v.Offsets[k], v.Offsets[k+1]
					}
					switch {
					case v.Null(k):
						text += " -"
					case f.Text:
						text += fmt.Sprintf(" %q", v.Texts[k])
					default:
						text += fmt.Sprintf(" %x", v.Data[lo*f.DType.Size():hi*f.DType.Size()])
					}
				}
				return nil
			}))
			says = append(says, text)
		}
		return says
	}
	want := read("all.arrow")
	for _, name := range []string{"all.1.parquet", "all.2.parquet", "all.lz4.arrow", "all.arrows"} {
		for i, got := range read(name) {
			expect.That(t, got == want[i], "%s: %s\nwant %s", name, got, want[i])
		}
	}
}
