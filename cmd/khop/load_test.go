package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// digests runs "khop sample --digest" and returns its lines by batch number.
func digests(t *testing.T, data string, more ...string) []string {
	t.Helper()
	out := must(t, append([]string{"sample", data, "--digest", "--fanouts", "5,3", "--batch-size", "100", "--seed", "7",
		"--shuffle"}, more...)...)
	return strings.Split(strings.TrimSpace(out), "\n")
}

func TestDigestsDoNotDependOnHowBatchesAreLoaded(t *testing.T) {
	data := small(t)
	want := digests(t, data)
	expect.Ensure(t, len(want) == 12, "%d batches of 100 of 1,200 train seeds", len(want))
	for i, line := range want {
		f := strings.Fields(line)
		expect.Ensure(t, len(f) == 3 && f[0] == fmt.Sprint(i) && len(f[1]) == 16 && len(f[2]) == 16 && f[1] != f[2],
			"line %d is %q", i, line)
	}
	for _, how := range []string{"--workers 1", "--workers 2", "--workers 8", "--prefetch 1", "--prefetch 8",
		"--resident", "--device cpu", "--max-memory 64MB"} {
		expect.Same(t, digests(t, data, strings.Fields(how)...), want, how)
	}
	expect.Same(t, digests(t, data, "--first", "10"), want[10:], "--first 10")
	expect.Same(t, digests(t, data, "--first", "3", "--batches", "2"), want[3:5], "--first 3 --batches 2")
	var both []string
	ranks := [2][]string{digests(t, data, "--world-size", "2", "--rank", "0"),
		digests(t, data, "--world-size", "2", "--rank", "1")}
	for i := range ranks[0] {
		both = append(both, ranks[0][i], ranks[1][i])
	}
	expect.Same(t, both, want, "two ranks")
	for _, how := range []string{"--seed 8", "--epoch 1", "--fanouts 5,4", "--replace", "--frontier all",
		"--instance 1", "--seeds val", "--seeds all", "--batch-size 99"} {
		got := digests(t, data, strings.Fields(how)...)
		expect.That(t, got[0] != want[0], "%s made the same first batch", how)
	}
}

func TestSampleOutputsAgree(t *testing.T) {
	data := small(t)
	args := []string{"sample", data, "--fanouts", "5,3", "--batch-size", "500", "--digest"}
	var whole sampleResult
	expect.OK(t, json.Unmarshal([]byte(must(t, append(args, "--json")...)), &whole))
	lines := strings.Split(strings.TrimSpace(must(t, append(args, "--jsonl")...)), "\n")
	text := strings.Split(strings.TrimSpace(must(t, args...)), "\n")
	table := strings.Split(strings.TrimSpace(must(t, args[:len(args)-1]...)), "\n")
	expect.Ensure(t, len(whole.Batches) == 3 && len(lines) == 3 && len(text) == 3 && len(table) == 4,
		"%d, %d, %d, %d batches", len(whole.Batches), len(lines), len(text), len(table)-1)
	seeds := int64(0)
	for i, b := range whole.Batches {
		var one batchRecord
		expect.OK(t, json.Unmarshal([]byte(lines[i]), &one))
		expect.Same(t, one, b, "--json and --jsonl differ")
		expect.Same(t, text[i], fmt.Sprintf("%d %s %s", b.Batch, b.Topology, b.Full))
		want := []string{fmt.Sprint(b.Batch), fmt.Sprint(b.Seeds), fmt.Sprint(b.Nodes), fmt.Sprint(b.Edges)}
		for _, n := range b.NodesPerHop {
			want = append(want, fmt.Sprint(n))
		}
		expect.Same(t, strings.Fields(table[i+1]), want)
		expect.That(t, b.NodesPerHop[0] == b.Seeds && b.NodesPerHop[2] == b.Nodes &&
			b.EdgesPerHop[0]+b.EdgesPerHop[1] == b.Edges, "sums do not fit: %+v", b)
		seeds += b.Seeds
	}
	expect.That(t, seeds == 1200, "%d seeds, want the 1,200 of the train split", seeds)
}

func TestEdgesAHopWithEitherFrontier(t *testing.T) {
	data := small(t)
	edges := map[string][]any{}
	for _, frontier := range []string{"all", "new"} {
		o := object(t, "sample", data, "--fanouts", "4,4,4", "--batch-size", "20", "--batches", "1", "--frontier",
			frontier, "--json")
		edges[frontier] = o["batches"].([]any)[0].(map[string]any)["edges_per_hop"].([]any)
	}
	all, fresh := edges["all"], edges["new"]
	expect.That(t, all[0] == fresh[0], "hop 1: %v and %v edges: out of the seeds there is no difference", all[0],
		fresh[0])
	for h := 1; h < 3; h++ {
		expect.That(t, all[h].(float64) > fresh[h].(float64), "hop %d: %v edges from all nodes, %v from new ones", h+1,
			all[h], fresh[h])
	}
}

func TestWithoutATrainSplitAllNodesAreSeeds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rmat.khop")
	must(t, "generate", "rmat", path, "--nodes", "500", "--edges", "2000")
	out, errOut, code := khop(t, "sample", path, "--jsonl", "--batch-size", "300")
	expect.That(t, code == exitDone && strings.Count(errOut, "all nodes") == 1 && strings.Count(out, "\n") == 2,
		"status %d, %q, %q", code, errOut, out)
	if _, errOut, _ := khop(t, "sample", path, "--seeds", "all", "--batches", "1"); strings.Contains(errOut, "nodes") {
		t.Errorf("it says %q where all nodes were asked for", errOut)
	}
	_, errOut, code = khop(t, "sample", path, "--seeds", "train")
	expect.That(t, code == exitUsage && strings.Contains(errOut, "--seeds train --split 0: no such split"),
		"a train split that is asked for and not there: status %d, %q", code, errOut)
}

func TestSeedFiles(t *testing.T) {
	schema := &graph.Schema{Nodes: []graph.NodeType{{Name: "paper", Count: 10}, {Name: "author", Count: 5}},
		Edges: []graph.EdgeType{{Source: "author", Relation: "writes", Target: "paper"}}}
	expect.OK(t, schema.Init())
	for text, want := range map[string]string{
		"3\n1\n3\n": "0:3 0:1 0:3",
		"# seeds\n\n 7 # the last\r\nauthor 4\n2": "0:7 1:4 0:2",
		"author\t0\nauthor 1":                     "1:0 1:1",
		"":                                        "error: no node in it",
		"1\n\nx2\n":                               `error: line 3: not a list of seeds: "x2" is not a node id`,
		"1\n10\n":                                 `node 10 is not in 0 .. 9, the nodes of type "paper"`,
		"-1":                                      "error: line 1: seed out of range",
		"author 5":                                `node 5 is not in 0 .. 4, the nodes of type "author"`,
		"venue 5":                                 `an id: no node type "venue"; there are: paper, author`,
		"1.5":                                     `error: line 1: not a list of seeds: "1.5" is not a node id`,
		"99999999999999999999":                    "error: line 1",
		"1\n" + strings.Repeat("9", 1<<17) + "\n2": "error: line 2",
	} {
		seeds, err := readSeeds(strings.NewReader(text), new(pinned.Ledger), schema, 0)
		var got []string
		for i := range seeds.Len() {
			nodeType, id := seeds.At(i)
			got = append(got, fmt.Sprintf("%d:%d", nodeType, id))
		}
		if err != nil {
			expect.That(t, strings.Contains(err.Error(), strings.TrimPrefix(want, "error: ")), "%.40q: %v, want %s",
				text, err, want)
		} else if strings.Join(got, " ") != want {
			t.Errorf("%.40q: %v, want %s", text, got, want)
		}
	}
}

func TestSeedsFromAFile(t *testing.T) {
	data := small(t)
	file := filepath.Join(t.TempDir(), "seeds.txt")
	expect.OK(t, os.WriteFile(file, []byte("5\n1999\n5\n"), 0o600))
	var b batchRecord
	err := json.Unmarshal([]byte(must(t, "sample", data, "--seeds", "@"+file, "--jsonl")), &b)
	expect.That(t, err == nil && b.Seeds == 3 && b.NodesPerHop[0] == 2, "%+v, %v", b, err)
	expect.OK(t, os.WriteFile(file, []byte("5\n2000\n"), 0o600))
	fails(t, exitFailed, file+": line 2", "sample", data, "--seeds", "@"+file)
}

// measureLittle has memory measured in little time, and in as much as a batch takes, until the test ends.
func measureLittle(t *testing.T) {
	t.Helper()
	round, source := measuringTime, copySource
	measuringTime, copySource = time.Millisecond, func(bytes int64) int64 { return bytes }
	t.Cleanup(func() { measuringTime, copySource = round, source })
}

func TestBenchTellsWhatScriptsRead(t *testing.T) {
	measureLittle(t)
	data := small(t)
	args := []string{"bench", data, "--fanouts", "5,3", "--batch-size", "100", "--batches", "20", "--warmup", "2",
		"--workers", "2"}
	r := object(t, append(args, "--json")...)
	for _, name := range []string{"batches_per_s", "edges_per_s", "rows_per_s", "gather_gb_per_s", "memcpy_gb_per_s",
		"nodes_per_batch", "memory_estimate"} {
		v, _ := r[name].(float64)
		expect.That(t, v > 0, "%s is %v", name, r[name])
	}
	for _, name := range []string{"anon_bytes", "file_bytes", "workers"} {
		_, ok := r[name].(float64)
		expect.That(t, ok, "%s is %v", name, r[name])
	}
	ms := r["ms_per_batch"].(map[string]any)
	lo, mid, hi := ms["min"].(float64), ms["median"].(float64), ms["max"].(float64)
	expect.That(t, lo <= mid && mid <= hi && mid > 0, "ms_per_batch %v", ms)
	h := r["edges_per_hop"].([]any)
	expect.That(t, len(h) == 2 && h[0].(float64) <= 500, "edges_per_hop %v", h)
	h = r["nodes_per_hop"].([]any)
	expect.That(t, len(h) == 3 && h[0].(float64) == 100, "nodes_per_hop %v", h)
	bare := object(t, append(args, "--json", "--no-features")...)
	expect.That(t, bare["rows_per_s"].(float64) == 0 && bare["memcpy_gb_per_s"].(float64) == 0,
		"rows without features: %v", bare)
	text, errOut, code := khop(t, args...)
	expect.That(t, code == exitDone && strings.Contains(text, "GB/s while gathering") &&
		strings.Contains(errOut, "the loader will need"), "status %d, %q, %q", code, text, errOut)
}

// TestBenchSaysWhatShareOfTheLimitIsReached: a batch of 100 seeds with 5 neighbours each reads what is counted here.
func TestBenchSaysWhatShareOfTheLimitIsReached(t *testing.T) {
	data := small(t)
	args := []string{"bench", data, "--fanouts", "5", "--batch-size", "100", "--batches", "4", "--warmup", "1",
		"--workers", "2", "--device", "cpu"}
	plain := object(t, append(args, "--json", "--no-memcpy")...)
	expect.That(t, plain["limit"] == nil, "a limit that nobody asked for: %v", plain["limit"])
	measureLittle(t)
	args = append(args, "--limit")
	r := object(t, append(args, "--json")...)
	var limit benchLimit
	expect.OK(t, json.Unmarshal(expect.Must(json.Marshal(r["limit"]))(t), &limit))
	edges := r["edges_per_batch"].(float64)
	expect.Ensure(t, len(limit.Reads) == 3, "%+v", limit)
	for i, most := range []float64{100, edges, edges} {
		if l := limit.Reads[i]; l.PerBatch <= 0 || l.PerBatch > most+1 || l.Bytes <= 0 || l.PerS <= 0 {
			t.Errorf("%+v, where a batch has %.1f edges", l, edges)
		}
	}
	expect.That(t, limit.Sample > 0 && limit.Gather > 0 && limit.Batch > 0 && limit.Disk == 0, "shares %+v", limit)
	text := must(t, args...)
	expect.That(t, strings.Contains(text, "sampling reaches"), "%s", text)
	_, errOut, code := khop(t, append(args, "--device", "cuda")...)
	expect.That(t, code == exitUsage && strings.Contains(errOut, "--device cuda"), "status %d: %s", code, errOut)
}

// TestLinesOfABlockAreCountedByDestination: neighbours that one line has are one read, of each destination.
func TestLinesOfABlockAreCountedByDestination(t *testing.T) {
	for _, size := range []int64{4, 8} {
		perLine := int32(64 / size)
		b := graph.Block{Indptr: unified.FromSlice([]int32{0, 3, 3, 5}),
			EdgePos: unified.FromSlice([]int32{0, perLine - 1, perLine, perLine, 9 * perLine})}
		if destinations, lines := readsOfBlock(&b, size); destinations != 2 || lines != 4 {
			t.Errorf("ids of %d bytes: %d destinations, %d lines", size, destinations, lines)
		}
	}
}

func TestInfoTellsWhatScriptsRead(t *testing.T) {
	data := small(t)
	r := object(t, "info", data, "--json")
	for name, want := range map[string]any{"nodes": 2000.0, "edges": 20000.0, "source_edges": 20000.0,
		"feature_dim": 9.0, "feature_dtype": "float32", "classes": 4.0} {
		expect.Same(t, r[name], want, name)
	}
	n, e := r["node_types"].([]any)[0].(map[string]any), r["edge_types"].([]any)[0].(map[string]any)
	expect.That(t, n["name"] == "node" && n["count"] == 2000.0, "node_types %v", n)
	expect.That(t, e["source"] == "node" && e["count"] == 20000.0, "edge_types %v", e)
	s := r["splits"].([]any)
	expect.That(t, len(s) == 3 && s[0].(map[string]any)["name"] == "train" && s[0].(map[string]any)["count"] == 1200.0,
		"splits %v", s)
	size := int64(0)
	err := filepath.WalkDir(data, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			st, _ := d.Info()
			size += st.Size()
		}
		return err
	})
	expect.That(t, err == nil && int64(r["bytes"].(float64)) == size, "bytes %v, but the files have %d (%v)",
		r["bytes"], size, err)
	text := must(t, "info", data)
	expect.That(t, strings.Contains(text, "feature float32[9]") && strings.Contains(text, "20,000"), "%v", text)
}

func TestCheckFindsAFlippedByte(t *testing.T) {
	data := small(t)
	file := filepath.Join(data, "nodes", "n0", "feature.arrow")
	b := expect.Must(os.ReadFile(file))(t)
	b[len(b)/2] ^= 1
	expect.OK(t, os.WriteFile(file, b, 0o600))
	out, errOut, code := khop(t, "check", data, "--json")
	var r checkResult
	err := json.Unmarshal([]byte(out), &r)
	expect.That(t, err == nil && code == exitFailed && !r.OK && r.Found == 1 && r.Problems[0].Path == file,
		"status %d, %+v, %v, %s", code, r, err, errOut)
}

// TestBenchSaysWhatMeasuringCopyingTakes: the copy is as large as several caches, and is left out where it has no room.
func TestBenchSaysWhatMeasuringCopyingTakes(t *testing.T) {
	data := small(t)
	args := []string{"bench", data, "--batches", "2", "--warmup", "0", "--device", "cpu", "--json"}
	_, notes, code := khop(t, append(args, "--max-memory", "36MB")...)
	expect.That(t, code == exitDone && strings.Contains(notes, "memory copies is not measured") &&
		strings.Contains(notes, "allow at least"), "status %d: %s", code, notes)
	r := object(t, append(args, "--max-memory", "36MB")...)
	expect.That(t, r["memcpy_bytes"] == 0. && r["memcpy_gb_per_s"] == 0.,
		"under a limit of 36 MB memcpy took %v bytes at %v", r["memcpy_bytes"], r["memcpy_gb_per_s"])
	_, notes, code = khop(t, append(args, "--no-memcpy")...)
	expect.That(t, code == exitDone && !strings.Contains(notes, "memory copies"), "without memcpy: status %d: %s", code,
		notes)
}

// Only where a GPU is here and makes no batches, though no device is named, does a line say why.
func TestARunSaysWhyAGPUDoesNothing(t *testing.T) {
	data, none, here := small(t), t.TempDir(), t.TempDir()
	expect.OK(t, os.Mkdir(filepath.Join(here, "0000:01:00.0"), 0o755))
	defer func(was string) { gpus = was }(gpus)
	why := "khop: cpu: no CUDA device: " + device.Reason() + "\n"
	full := "khop: cpu: the sampler sampling.Full runs on the CPU alone\n"
	if device.Count() > 0 {
		none, why = here, ""
	}
	for _, c := range []struct{ args, gpus, want string }{
		{"sample", none, ""},
		{"sample", here, why},
		{"sample --device cpu", here, ""},
		{"sample --sampler full", here, full},
		{"sample --sampler full --device cpu", here, ""},
		{"bench --no-memcpy --warmup 0", none, ""},
		{"bench --no-memcpy --warmup 0", here, why},
	} {
		gpus = c.gpus
		args := append(strings.Fields(c.args), data, "--batches", "1", "--json")
		_, text, code := khop(t, args...)
		said := strings.HasPrefix(text, "khop: cpu: ")
		expect.That(t, code == exitDone && said == (c.want != "") && strings.HasPrefix(text, c.want),
			"%s: status %d, %q, want %s", c.args, code, text, c.want)
	}
}

// TestARankSamplesFromAnyBatchOfTheEpoch: --first is a number of the epoch, whatever share of it a rank has.
func TestARankSamplesFromAnyBatchOfTheEpoch(t *testing.T) {
	data := small(t)
	o := object(t, "sample", data, "--fanouts", "2", "--batch-size", "10", "--seeds", "all", "--json")
	all := o["batches"].([]any)
	expect.Ensure(t, len(all) >= 8, "%d batches", len(all))
	first := len(all) - 4
	o = object(t, "sample", data, "--fanouts", "2", "--batch-size", "10", "--seeds", "all", "--json", "--rank", "1",
		"--world-size", "4", "--first", strconv.Itoa(first))
	got := o["batches"].([]any)
	expect.Ensure(t, len(got) == 1, "%d batches", len(got))
	expect.Same(t, got[0].(map[string]any)["batch"], any(float64(first+1)), "batch")
}
