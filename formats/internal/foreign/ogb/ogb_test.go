package ogb

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// folder writes files, those that end in .gz compressed, and returns their place.
func folder(t testing.TB, name string, files map[string]string) source.Place {
	t.Helper()
	packed := map[string][]byte{}
	for name, text := range files {
		packed[name] = []byte(text)
		if strings.HasSuffix(name, ".gz") {
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			_, err := w.Write([]byte(text))
			expect.Ensure(t, err == nil && w.Close() == nil, "%v", err)
			packed[name] = z.Bytes()
		}
	}
	return sourcetest.Folder(t, name, packed)
}

// splitFile was written by torch.save's old layout, as OGB's files of splits are: three pickles that say so, then
// pickle.dumps({'edge': np.array([[0, 1]]), 'edge_neg': np.array([[2, 0], [1, 2]])}, 2) of Python 3 and NumPy.
const splitFile = "" +
	"gAKKCmz8nEb5IGqoUBkugAJN6QMugAJ9cQAoWBAAAABwcm90b2NvbF92ZXJzaW9ucQFN6QNYDQAAAGxpdHRsZV9lbmRpYW5x" +
	"AohYCgAAAHR5cGVfc2l6ZXNxA31xBChYBQAAAHNob3J0cQVLAlgDAAAAaW50cQZLBFgEAAAAbG9uZ3EHSwR1dS6AAn1xAChY" +
	"BAAAAGVkZ2VxAWNudW1weS5jb3JlLm11bHRpYXJyYXkKX3JlY29uc3RydWN0CnECY251bXB5Cm5kYXJyYXkKcQNLAIVxBGNf" +
	"Y29kZWNzCmVuY29kZQpxBVgBAAAAYnEGWAYAAABsYXRpbjFxB4ZxCFJxCYdxClJxCyhLAUsBSwKGcQxjbnVtcHkKZHR5cGUK" +
	"cQ1YAgAAAGk4cQ6JiIdxD1JxEChLA1gBAAAAPHERTk5OSv////9K/////0sAdHESYoloBVgQAAAAAAAAAAAAAAABAAAAAAAA" +
	"AHETaAeGcRRScRV0cRZiWAgAAABlZGdlX25lZ3EXaAJoA0sAhXEYaAmHcRlScRooSwFLAksChnEbaBCJaAVYIAAAAAIAAAAA" +
	"AAAAAAAAAAAAAAABAAAAAAAAAAIAAAAAAAAAcRxoB4ZxHVJxHnRxH2J1Lg=="

func files() map[string]string {
	text, _ := base64.StdEncoding.DecodeString(splitFile)
	return map[string]string{
		"raw/edge.csv.gz": "0,1\n1,2\n", "raw/num-node-list.csv.gz": "3\n", "raw/num-edge-list.csv.gz": "2\n",
		"raw/node-feat.csv.gz": "1,2.5\n3,4\n5,nan\n", "raw/node-label.csv.gz": "0.0\nnan\n4\n",
		"split/time/train.csv.gz": "0\n2\n", "split/time/valid.csv.gz": "1\n", "split/time/test.pt": string(text),
		"split/zoo/train.csv": "1\n", "mapping/nodeidx2word.csv.gz": "node idx,word\n0,a\n1,\n2,b,c\n",
		"RELEASE_v1.txt": "",
	}
}

func TestADatasetOfOGBIsRead(t *testing.T) {
	at := folder(t, "ogbl_ddi", files())
	found := Reader.Find(at.Tree)
	expect.Ensure(t, fmt.Sprint(found) == "[.]", "found %v", found)
	sourcetest.Reads(t, Reader, at, source.Request{Budget: &source.Budget{Dir: t.TempDir()}}, "3 node, 5 classes; "+
		`feature float32[2]: [1,2.5,3,4,5,NaN]; label int64[]: [0,-1,4]; id: ["a" "" "b,c"]; node:edge:node 0>1 1>2; `+
		"train 0 of node: [0 2]; val 0 of node: [1]; "+
		"test 0 links: [0 2 1] > [1 0 2], types [], labels [1 0 0]; undirected")
}

func TestWhatIsWrongInADatasetOfOGBIsNamed(t *testing.T) {
	for _, c := range []struct{ file, text, says string }{
		{"raw/num-node-list.csv.gz", "3\n4\n", "2 graphs"},
		{"raw/num-node-list.csv.gz", "2\n", "id 2 is not below the 2 nodes"},
		{"raw/num-edge-list.csv.gz", "5\n", "2 edges in the table, not 5"},
		{"raw/node-feat.csv.gz", "1,2\n3\n", "node-feat.csv.gz: row 2: the row has 1 numbers, not 2"},
		{"raw/node-feat.csv.gz", "1\n2\n", "2 rows, but 3 nodes"},
		{"raw/node-label.csv.gz", "1\nx\n3\n", "node-label.csv.gz: row 2"},
		{"split/time/train.csv.gz", "0\n3\n", "train.csv.gz: row 2: node 3 is not in 0 .. 2"},
		{"mapping/nodeidx2word.csv.gz", "a,b\n1,x\n", "nodeidx2word.csv.gz: row 2"},
	} {
		all := files()
		all[c.file] = c.text
		sourcetest.Refuses(t, Reader, folder(t, "x", all), c.file+" "+c.text, c.says)
	}
	all := files()
	all["split/time/test.pt"] = strings.Replace(all["split/time/test.pt"], "cnumpy.core.multiarray\n_reconstruct",
		"cos\nsystem", 1)
	g, err := Reader.Read(context.Background(), folder(t, "x", all), &source.Request{})
	expect.That(t, errors.Is(err, pickle.ErrForbidden) && strings.Contains(err.Error(), "test.pt"),
		"a split that runs a command: %v, %v", g, err)
}

// TestReadingATableStops: tables have a row a node, of which there may be very many.
func TestReadingATableStops(t *testing.T) {
	all := files()
	all["raw/node-label.csv.gz"] = strings.Repeat("0\n", 5000)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	d := &dataset{at: folder(t, "x", all), r: &source.Request{}, g: source.Plain()}
	expect.Is(t, d.labels(ctx), stop, "reading labels after the context ended")
}

func FuzzRead(f *testing.F) {
	f.Add("0,1\n1,2\n", "3\n", "1,2.5\n3,4\n5,nan\n", "0\n1\n2\n", "0\n2\n")
	f.Fuzz(func(t *testing.T, edges, nodes, feat, labels, train string) {
		at := folder(t, "x", map[string]string{"raw/edge.csv": edges, "raw/num-node-list.csv": nodes,
			"raw/node-feat.csv": feat, "raw/node-label.csv": labels, "split/a/train.csv": train})
		sourcetest.SoundAt(t, Reader, t.TempDir(), "dataset", at)
	})
}

// TestAProcessedGraphTakesItsSplits: the graphs are those that PyG and DGL wrote for the tests of their readers, under
// the names that OGB gives them, and splits are OGB's.
func TestAProcessedGraphTakesItsSplits(t *testing.T) {
	for name, from := range map[string]string{"geometric_data_processed.pt": "../torch/testdata/processed.pt",
		"dgl_data_processed": "../dgl/testdata/coo.bin"} {
		graph := expect.Must(os.ReadFile(from))(t)
		at := folder(t, "ogbn_x", map[string]string{"processed/" + name: string(graph), "processed/pre_filter.pt": "x",
			"split/time/valid.csv.gz": "4\n2\n", "mapping/nodeidx2word.csv.gz": "node idx,word\n0,a\n"})
		found := Reader.Find(at.Tree)
		expect.Ensure(t, fmt.Sprint(found) == "[.]", "%s: found %v", name, found)
		g, err := Reader.Read(context.Background(), at, &source.Request{Budget: &source.Budget{Dir: t.TempDir()}})
		expect.OK(t, err)
		got := sourcetest.Spell(t, g)
		expect.That(t, strings.Contains(got, "val 0 of node: [4 2]") && strings.Contains(got, "feature float32"),
			"%s: %s", name, got)
		expect.OK(t, g.Close())
	}
}

// gzipped compresses what has a name of compressed files.
func gzipped(t *testing.T) func(map[string]string) map[string]string {
	packed := map[string]string{}
	return func(files map[string]string) map[string]string {
		for name, text := range files {
			if z, ok := packed[text]; ok && strings.HasSuffix(name, ".gz") {
				files[name] = z
			} else if strings.HasSuffix(name, ".gz") {
				var z bytes.Buffer
				w := gzip.NewWriter(&z)
				_, err := w.Write([]byte(text))
				expect.Ensure(t, err == nil && w.Close() == nil, "%v", err)
				files[name], packed[text] = z.String(), z.String()
			}
		}
		return files
	}
}

// TestWhatComesOfAnyDatasetOfOGB: see sourcetest.Outcomes.
func TestWhatComesOfAnyDatasetOfOGB(t *testing.T) {
	plain, timed := files(), maps.Clone(files())
	timed["raw/edge-feat.csv.gz"] = "1,2\n3,4\n"
	timed["raw/node_year.csv.gz"] = "1999\n2000\n2001\n"
	timed["raw/edge_weight.csv.gz"] = "0.5\n2\n"
	made := expect.Must(os.ReadFile("../torch/testdata/processed.pt"))(t)
	sourcetest.Outcomes(t, sourcetest.Case{Name: "plain", Reader: Reader, Files: plain, Pack: gzipped(t),
		Lines: true},
		sourcetest.Case{Name: "compressed", Reader: Reader, Files: gzipped(t)(files()), Keep: []string{
			"raw/node-feat.csv.gz", "raw/node-label.csv.gz", "split/time/valid.csv.gz", "raw/num-node-list.csv.gz",
			"split/time/test.pt", "split/zoo/train.csv", "RELEASE_v1.txt", "split/time/train.csv.gz",
			"mapping/nodeidx2word.csv.gz", "raw/num-edge-list.csv.gz"}},
		sourcetest.Case{Name: "with columns", Reader: Reader, Files: timed, Pack: gzipped(t)}.Whole(),
		sourcetest.Case{Name: "types", Reader: Reader, Files: mag(), Pack: gzipped(t), Lines: true},
		sourcetest.Case{Name: "arrays", Reader: Reader, Files: papers(t), Pack: gzipped(t),
			Keep: []string{"split/time/valid.csv.gz", "split/time/test.csv.gz"}},
		sourcetest.Case{Name: "made", Reader: Reader, Pack: gzipped(t), Files: map[string]string{
			"processed/geometric_data_processed.pt": string(made), "processed/pre_filter.pt": "x",
			"split/time/valid.csv.gz": "4\n2\n", "mapping/nodeidx2word.csv.gz": "node idx,word\n0,a\n"},
			Keep: []string{"processed/geometric_data_processed.pt"}})
}

var _ source.Reader = Reader
