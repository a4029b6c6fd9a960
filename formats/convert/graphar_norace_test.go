//go:build !race

package convert

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/export"
	"github.com/khop-gnn/khop/internal/expect"
)

// exported writes a graph in GraphAr's format: numbers, lists, texts, times, weights, splits, and two types of nodes.
func exported(t *testing.T) string {
	t.Helper()
	in := t.TempDir()
	put(t, in, map[string]string{
		"m.yaml": "nodes:\n  user: {file: u.csv, id: name, columns: [x, at, v], split: split}\n  item: {count: 4}\n" +
			"edges:\n  'user:buys:item': {file: b.csv, weight: w}\n  'user:knows:user': {file: k.csv}\n",
		"u.csv": "name,x,at,v,split\nann,1.5,2001-01-01T00:00:00.25Z,1 2,train\nbob,2,1969-12-31,3 4,val\n" +
			"cid,,,5 6,train\ndan,4,2001-01-02,7 8,\n",
		"b.csv": "src,dst,w\nann,0,1\nann,3,2\nbob,3,3\ncid,3,4\n", "k.csv": "src,dst\nann,bob\nbob,dan\n",
	})
	expect.Must(Run(t.Context(), filepath.Join(in, "m.yaml"), filepath.Join(in, "g.khop"), Options{}))(t)
	ds := expect.Must(formats.Open(filepath.Join(in, "g.khop")))(t)
	expect.Must(export.Run(t.Context(), ds, filepath.Join(in, "out"), export.Options{To: "graphar"}))(t)
	expect.OK(t, ds.Close())
	return filepath.Join(in, "out")
}

// ofChunks writes a graph in GraphAr's format whose vertices and edges lie in several chunks of CSV.
func ofChunks(t *testing.T) string {
	t.Helper()
	dir, count := t.TempDir(), func(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
	put(t, dir, map[string]string{"g.graph.yml": "vertices: [v.yml]\nedges: [e.yml]\nversion: gar/v1\n",
		"v.yml": "type: v\nchunk_size: 2\nproperty_groups: " +
			"[{file_type: csv, properties: [{name: s, data_type: string}]}," +
			"{file_type: csv, properties: [{name: n, data_type: int32}, {name: t, data_type: timestamp}]}]\n",
		"e.yml": "src_type: v\nedge_type: e\ndst_type: v\nchunk_size: 1\nsrc_chunk_size: 2\ndst_chunk_size: 2\n" +
			"adj_lists: [{ordered: true, aligned_by: src, file_type: csv}]\n" +
			"property_groups: [{file_type: csv, properties: [{name: w, data_type: double}]}]\n",
		"v/vertex_count": count(3), "v/s/chunk0": "s\na\n\"b,c\"\n", "v/s/chunk1": "s\nd\n",
		"v/n_t/chunk0": "_graphArVertexIndex,n,t\n0,1,2001-01-01\n1,,2001-01-02\n",
		"v/n_t/chunk1": "_graphArVertexIndex,n,t\n2,3,\n", "v_e_v/ordered_by_source/edge_count0": count(2),
		"v_e_v/ordered_by_source/edge_count1":           count(0),
		"v_e_v/ordered_by_source/offset/chunk0":         "_graphArOffset\n0\n1\n2\n",
		"v_e_v/ordered_by_source/adj_list/part0/chunk0": "_graphArSrcIndex,_graphArDstIndex\n0,1\n",
		"v_e_v/ordered_by_source/adj_list/part0/chunk1": "_graphArSrcIndex,_graphArDstIndex\n1,2\n",
		"v_e_v/ordered_by_source/w/part0/chunk0":        "w\n0.5\n",
		"v_e_v/ordered_by_source/w/part0/chunk1":        "w\n1\n",
	})
	return dir
}

// mutateText changes words and lines of a text.
func mutateText(r *rand.Rand, whole []byte) []byte {
	lines := strings.SplitAfter(string(whole), "\n")
	words := wordsOf.FindAllString(string(whole), -1)
	words = append(words, "-1", "0", "7", "9999999999999", "4611686018427387904", "1e9", "", "~", "csv", "orc", "true")
	for range 1 + r.IntN(2) {
		i, k := r.IntN(len(lines)), r.IntN(len(lines))
		switch r.IntN(8) {
		case 0:
			lines[i] = ""
		case 1:
			lines[i] += lines[k]
		case 2:
			lines[i], lines[k] = lines[k], lines[i]
		default:
			at := wordsOf.FindAllStringIndex(lines[i], -1)
			if len(at) == 0 {
				continue
			}
			one := at[r.IntN(len(at))]
			lines[i] = lines[i][:one[0]] + words[r.IntN(len(words))] + lines[i][one[1]:]
		}
	}
	return []byte(strings.Join(lines, ""))
}

var wordsOf = regexp.MustCompile(`[-\w.]+`)

// Graphs of GraphAr of which some bytes of some files are others are converted, or errors of a file, soon and within
// the limit of memory. KHOP_DRAWS says how many are drawn.
func TestDamagedGraphsOfGraphArNeitherHangNorPanic(t *testing.T) {
	seed, draws := expect.Seed(t), expect.Draws(t, 200)
	r := rand.New(rand.NewPCG(seed, 4))
	dst, good := filepath.Join(t.TempDir(), "d"), map[string]int{}
	for k, dir := range []string{exported(t), ofChunks(t)} {
		var files []string
		expect.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, path)
			}
			return err
		}))
		expect.OK(t, convertWatched(dir, dst, "", "the graph as it is"))
		for i := range draws / 2 {
			what, was := fmt.Sprintf("draw %d of seed %d, graph %d", i, seed, k), map[string][]byte{}
			for range 1 + r.IntN(2) {
				path := files[r.IntN(len(files))]
				if was[path] == nil {
					was[path] = expect.Must(os.ReadFile(path))(t)
				}
				what += " " + path[len(dir):]
				other := mutate
				if utf8.Valid(was[path]) && !bytes.Contains(was[path], []byte{0}) {
					other = mutateText
				}
				expect.OK(t, os.WriteFile(path, other(r, was[path]), 0o600))
			}
			expect.OK(t, os.RemoveAll(dst))
			good[outcome(t, convertWatched(dir, dst, "graphar", what), what)]++
			for path, b := range was {
				expect.OK(t, os.WriteFile(path, b, 0o600))
			}
		}
	}
	t.Logf("%d mutants of seed %d: %v", draws, seed, good)
}
