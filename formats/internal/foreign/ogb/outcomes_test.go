package ogb

import (
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

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
