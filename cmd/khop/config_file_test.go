package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// arraySchema has nodes and edges of two types.
func arraySchema() *graph.Schema {
	return &graph.Schema{
		Nodes: []graph.NodeType{{Name: "paper", Count: 10}, {Name: "author", Count: 4}},
		Edges: []graph.EdgeType{{Relation: "cites", Src: 0, Dst: 0}, {Relation: "writes", Src: 1, Dst: 0}},
	}
}

// arrayFile is an .npy file as a configuration names it.
func arrayFile(t *testing.T, v any, shape ...int) string {
	t.Helper()
	return rawFile(t, expect.NPY(v, shape...))
}

func rawFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.npy")
	expect.OK(t, os.WriteFile(path, data, 0o600))
	return fmt.Sprintf(`{"path": %q}`, path)
}

func TestSeedsOfArraysAreThoseOfLists(t *testing.T) {
	ids, times := arrayFile(t, []int32{3, 0, 3}), arrayFile(t, []int64{7, -1, 9})
	mask, whole := arrayFile(t, []bool{true, false, false, true}), arrayFile(t, []uint8{5, 6, 7, 8})
	pairs := arrayFile(t, []int64{1, 3, 2, 9}, 2, 2)
	labels := arrayFile(t, []bool{true, false})
	lists := arrayFile(t, []int32{5, -1, 0, 9, 9, -1}, 2, 3)
	i64 := func(v ...int64) unified.Tensor { return unified.FromSlice(v) }
	table := func(v ...int64) unified.Tensor {
		return expect.Must(unified.New(unified.Int64, i64(v...).Bytes(), int64(len(v)/3), 3))(t)
	}
	for _, c := range []struct {
		text string
		want graph.Seeds
	}{
		{`{"nodes": [{"ids": ` + ids + `}]}`, graph.Seeds{Sets: []graph.SeedSet{{IDs: i64(3, 0, 3)}}}},
		{`{"nodes": [{"type": "paper", "ids": ` + ids + `, "times": ` + times + `}, {"type": "author", "ids": ` + mask +
			`, "times": ` + whole + `}]}`, graph.Seeds{Sets: []graph.SeedSet{{IDs: i64(3, 0, 3, 0, 3),
			Types: []int32{0, 0, 0, 1, 1}, Times: []int64{7, -1, 9, 5, 8}}}}},
		{`{"nodes": [{"type": "author", "ids": ` + mask + `, "times": ` + whole + `, "from": ` + whole + `}]}`,
			graph.Seeds{Sets: []graph.SeedSet{{IDs: i64(0, 3), Types: []int32{1, 1}, Times: []int64{5, 8},
				From: []int64{5, 8}}}}},
		{`{"edges": [{"edges": ` + pairs + `, "times": ` + labels + `, "from": ` + labels + `}]}`, graph.Seeds{
			Edges: []graph.EdgeSet{{Sources: i64(1, 3), Targets: i64(2, 9), Labels: []int64{1, 1},
				Times: []int64{1, 0}, From: []int64{1, 0}}}}},
		{`{"edges": [{"type": "writes", "edges": ` + pairs + `, "labels": ` + labels + `}]}`, graph.Seeds{
			Edges: []graph.EdgeSet{{Types: []int32{1, 1}, Sources: i64(1, 3), Targets: i64(2, 9),
				Labels: []int64{1, 0}}}}},
		{`{"edges": [{"edges": ` + pairs + `, "times": ` + labels + `}]}`, graph.Seeds{Edges: []graph.EdgeSet{{
			Sources: i64(1, 3), Targets: i64(2, 9), Labels: []int64{1, 1}, Times: []int64{1, 0}}}}},
		{`{"edges": [{"edges": ` + pairs + `, "negatives": ` + lists + `}, {"type": "writes", "edges": ` + pairs +
			`, "negatives": ` + lists + `}]}`, graph.Seeds{Edges: []graph.EdgeSet{{Types: []int32{0, 0, 1, 1},
			Sources: i64(1, 3, 1, 3), Targets: i64(2, 9, 2, 9),
			Negatives: table(5, -1, 0, 9, 9, -1, 5, -1, 0, 9, 9, -1)}}}},
	} {
		got := expect.Must(expect.Must(parseSeedArrays([]byte(c.text)))(t).seeds(arraySchema()))(t)
		expect.That(t, reflect.DeepEqual(got, c.want), "%s:\n%+v, not\n%+v", c.text, got, c.want)
		expect.OK(t, got.Check(arraySchema()))
	}
}

func TestArraysThatAreNoSeedsAreRefusedWithTheirPlace(t *testing.T) {
	good, pairs := arrayFile(t, []int64{1, 2}), arrayFile(t, []int64{1, 3, 2, 10}, 2, 2)
	endless := []byte(strings.Replace(string(expect.NPY([]int64{1, 2})), "(2,)", "(1152921504606846975,)", 1))
	node := func(type_, ids, more string) string {
		return fmt.Sprintf(`{"nodes": [{"type": %q, "ids": %s%s}]}`, type_, ids, more)
	}
	for _, c := range []struct{ text, key, part, row, says string }{
		{node("paper", arrayFile(t, []int64{4, -1}), ""), "paper", "ids", "1", "seed out of range: node -1"},
		{node("author", arrayFile(t, []int64{4}), ""), "author", "ids", "0", "node 4 is not in 0 .. 3"},
		{node("", arrayFile(t, []uint64{1 << 63}), ""), "", "ids", "", "too large"},
		{node("", arrayFile(t, []float64{1}), ""), "", "ids", "", "whole numbers are wanted"},
		{node("", arrayFile(t, []int64{1, 2}, 2, 1), ""), "", "ids", "", "must have 1 dimensions"},
		{node("", arrayFile(t, []bool{true}), ""), "", "ids", "", "of which type? There are paper, author"},
		{node("paper", arrayFile(t, []bool{true}), ""), "paper", "ids", "", "a mask of 1 entries, where there are 10"},
		{node("", rawFile(t, endless), ""), "", "ids", "", "too large"},
		{node("", rawFile(t, []byte("ids")), ""), "", "ids", "", "not a .npy array"},
		{node("", rawFile(t, expect.NPY([]int64{1, 2})[:140]), ""), "", "ids", "", "unexpected EOF"},
		{node("", `{"path": "/nowhere"}`, ""), "", "ids", "", "no such file"},
		{node("", fmt.Sprintf(`{"path": %q}`, t.TempDir()), ""), "", "ids", "", "no regular file"},
		{node("", `{}`, ""), "", "ids", "", "a path or an fd"},
		{node("none", good, ""), "none", "", "", `no node type "none"`},
		{node("", good, `, "times": `+arrayFile(t, []int64{1})), "", "times", "", "for each of 2 seeds"},
		{node("", good, `, "times": `+good+`, "from": `+arrayFile(t, []int64{1})), "", "from", "",
			"for each of 2 seeds"},
		{node("", arrayFile(t, []int64{}), ""), "", "", "", "there are none"},
		{`{"nodes": [{"ids": ` + good + `}, {"ids": ` + good + `, "times": ` + good + `}]}`, "", "times", "",
			"or none has"},
		{`{"edges": [{"type": "writes", "edges": ` + pairs + `}]}`, "writes", "edges", "1", "node 10 is not in 0 .. 9"},
		{`{"edges": [{"type": "cites", "edges": ` + good + `}]}`, "cites", "edges", "", "must have 2 dimensions"},
		{`{"edges": [{"edges": ` + arrayFile(t, []int64{1, 3, 2, 9}, 2, 2) + `, "labels": ` + pairs + `}]}`, "",
			"labels", "", "must have 1 dimensions"},
		{`{"nodes": [], "edges": []}`, "", "", "", "one of both"},
		{`{"nodes": [{"idz": 1}]}`, "", "", "", "unknown field"},
	} {
		wantRefused(t, c.text, c.key, c.part, c.row, c.says)
	}
}

// wantRefused refuses seeds that are arrays, with an error of this place.
func wantRefused(t *testing.T, text, key, part, row, says string) {
	t.Helper()
	a, err := parseSeedArrays([]byte(text))
	if err == nil {
		_, err = a.seeds(arraySchema())
	}
	expect.Ensure(t, err != nil, "%s: no error", text)
	p, at := asProblem(err), ""
	if p.Row != nil {
		at = fmt.Sprint(*p.Row)
	}
	expect.That(t, p.Option == "seeds" && p.Usage && p.Key == key && p.Part == part && row == at &&
		strings.Contains(p.Text, says) && strings.HasPrefix(p.Text, ": "), "%s: %+v, row %q", text, p, at)
}

func TestNegativesThatAreNoListsAreRefusedWithTheirPlace(t *testing.T) {
	ends, pairs, lists := arrayFile(t, []int64{1, 3, 2, 9}, 2, 2), arrayFile(t, []int64{1, 3, 2, 10}, 2, 2),
		arrayFile(t, []int64{1, 2, 3}, 3, 1)
	listed := func(negatives string) string {
		return `{"edges": [{"edges": ` + ends + `, "negatives": ` + negatives + `}]}`
	}
	for _, c := range []struct{ text, row, says string }{
		{listed(lists), "", "must be whole numbers [2, k]"},
		{listed(arrayFile(t, []int64{1, 2})), "", "must have 2 dimensions"},
		{listed(arrayFile(t, []int64{1, 3, 2, -2}, 2, 2)), "1", "node -2"},
		{listed(pairs), "1", "node 10 is not in 0 .. 9"},
		{strings.Replace(listed(ends), "]}", `, {"edges": `+ends+`}]}`, 1), "", "0 an edge"},
	} {
		wantRefused(t, c.text, "", "negatives", c.row, c.says)
	}
}

func TestAConfigurationSaysWhatFlagsSay(t *testing.T) {
	data, file := small(t), filepath.Join(t.TempDir(), "c.json")
	for _, c := range []struct{ text, option, says string }{
		{`{"batchsize": 3}`, "batchsize", "did you mean batch_size?"},
		{`{"nothing_like_it": 3}`, "nothing_like_it", "is no option of khop serve"},
		{`{"reader_timeout": -1, "batch_size": 1.5}`, "batch_size", "is not a whole number"},
		{`{"fanouts": {"cites": [1, [2]]}}`, "fanouts", `fanouts["cites"][1]: [2]: must be a number`},
		{`{"fanouts": {"cites": "1,x"}}`, "fanouts", "must be a number"},
		{`{"seeds": 3}`, "seeds", "cannot unmarshal number"},
		{`{"time": 3, "sampler": "temporal"}`, "time", "3: must be a text"},
		{`{"batch_size": [3]}`, "batch_size", "[3]: must be one value"},
		{`{"node_columns": [3]}`, "node_columns", "[3]: must be a list of texts"},
		{`{"shuffle": "maybe"}`, "shuffle", "is neither true nor false"},
		{`{"residence": 3}`, "residence", "must be one of mapped"},
		{`{"sampler": "walk", "replace": true}`, "replace", "is not for sampler walk"},
		{`{"sampler": "walk", "replace": false, "length": 3, "seeds": "nosuch"}`, "seeds", "no such split"},
		{`{"metrics": 7}`, "metrics", "7: must be a text"},
		{`{"metrics": {"port": 7}}`, "metrics", "must be a text"},
		{`{"json": 7}`, "json", `but got "7"`},
		{`[]`, "", "no JSON object"},
	} {
		expect.OK(t, os.WriteFile(file, []byte(c.text), 0o600))
		socket := filepath.Join(t.TempDir(), "feed", "socket")
		_, stderr, code := khop(t, "serve", data, "--config", file, "--socket", socket)
		var p problem
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		expect.OK(t, json.Unmarshal([]byte(lines[len(lines)-1]), &p))
		if code != exitUsage || p.Option != c.option || !strings.Contains(p.Message, c.says) ||
			!strings.HasPrefix(p.Message, p.Option) || !strings.HasSuffix(p.Message, p.Text) {
			t.Errorf("%s: status %d, %+v", c.text, code, p)
		}
	}
	remedy := asProblem(option.Textf("%s float16, or numactl --membind=1", option.Named("FeatureDType")))
	expect.That(t, remedy.Message == "feature_dtype float16, or numactl --membind=1", "%+v", remedy)
	long := problem{Text: strings.Repeat("x", 5000), Message: strings.Repeat("é", 5000)}
	line := long.line(4092)
	expect.That(t, len(line) < 4092 && json.Valid([]byte(line)), "%d bytes: %s", len(line), line)
}
