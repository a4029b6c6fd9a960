//go:build !race

package tables

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// library tables of one kind, with their mapping. Those that are not named in damage are kept.
func libraryOf(t *testing.T, ext string, damage ...string) sourcetest.Case {
	all, files := sourcetest.Within(t, "testdata"), map[string]string{}
	for name, text := range all {
		if strings.HasSuffix(name, ext) && !strings.Contains(name, "/") && !strings.HasPrefix(name, "types") {
			files[name] = text
		}
	}
	files["graph.yaml"] = strings.ReplaceAll(library, "{}", ext)
	c := sourcetest.Case{Name: "library" + ext, Reader: Reader, At: "graph.yaml", Files: files, Lines: true}
	for name := range files {
		if !slices.Contains(damage, name) {
			c.Keep = append(c.Keep, name)
		}
	}
	return c
}

// TestWhatComesOfAnyTables: see sourcetest.Outcomes.
func TestWhatComesOfAnyTables(t *testing.T) {
	cases := []sourcetest.Case{libraryOf(t, ".csv", "graph.yaml", "authors.csv", "writes.csv"),
		libraryOf(t, ".arrow", "authors.arrow"), libraryOf(t, ".arrows", "authors.arrows"),
		libraryOf(t, ".snappy.parquet", "authors.snappy.parquet"), libraryOf(t, ".zstd.parquet", "writes.zstd.parquet")}
	for _, ext := range []string{".arrow", ".parquet"} {
		b := sourcetest.Within(t, "testdata")["types"+ext]
		cases = append(cases, sourcetest.Case{Name: "types" + ext, Reader: Reader, At: "edges" + ext,
			Files: map[string]string{"edges" + ext: b}})
	}
	small := func(name, mapping string, files map[string]string) sourcetest.Case {
		files = maps.Clone(files)
		files["m.yaml"] = mapping
		return sourcetest.Case{Name: name, Reader: Reader, At: "m.yaml", Files: files, Lines: true,
			Requests: []source.Request{{}, {IDs: "names"}, {IDs: "numbers"}}}
	}
	people := map[string]string{"p.csv": "" +
		"k,x,y,s,l,t,w\na,1,2.5,train,red,7,1 2\nb,3,,val,blue,8,3 4\n\"c,d\",5,6,test," +
		"red,9,5 6\n", "e.csv": "from,to,w,when,z\na,b,1,20,7\nb,\"c,d\",.5,21,8\n"}
	cases = append(cases, small("people", "nodes: {p: {file: p.csv, id: k, features: [x, y], label: l, split: s, "+
		"time: t, columns: [w]}}\nedges: {e: {file: e.csv, src: from, dst: to, weight: w, time: when, columns: [z]}}\n",
		people), small("keys", "nodes:\n  p: {file: p.csv, id: k, keys: {l: {to: c, relation: has, reverse: of}}}\n"+
		"  c: {count: 2}\nedges: {e: {file: [e.csv, e.csv], src: from, dst: to, source: p, target: p, reverse: r}}\n",
		map[string]string{"p.csv": "k,l\na,0\nb,1\nc,\n", "e.csv": "from;to\na;b\nc;a\n"}),
		small("keys and commas", "nodes:\n  p: {file: p.csv, id: k, keys: {l: {to: c, relation: has}}}\n"+
			"  c: {count: 2}\nedges: {e: {file: e.tsv, delimiter: '\\t', src: from, dst: to, source: p, target: p}}\n",
			map[string]string{"p.csv": "k,l\na,0\nb,1\nc,\n", "e.tsv": "from\tto\na\tb\nc\ta\n"}))
	var e, p strings.Builder
	e.WriteString("src,dst,weight,at\n")
	p.WriteString("id,x,label\n")
	for i := range 5000 {
		fmt.Fprintf(&e, "n%d,n%d,%d.5,%d\n", i, i*7%5000, i%9, i)
		fmt.Fprintf(&p, "n%d,%d.25,c%d\n", i, i%31, i%7)
	}
	large := small("large", "nodes: {p: {file: p.csv, id: id, features: x, label: label}}\nedges: {e: e.csv}\n",
		map[string]string{"p.csv": p.String(), "e.csv": e.String()})
	sourcetest.Outcomes(t, append(cases, large.Whole())...)
}
