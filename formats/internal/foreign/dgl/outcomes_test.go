package dgl

import (
	"os"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestWhatComesOfAnyDatasetOfDGL: see sourcetest.Outcomes.
func TestWhatComesOfAnyDatasetOfDGL(t *testing.T) {
	cases := []sourcetest.Case{{Name: "csv", Reader: Reader, At: "meta.yaml", Lines: true,
		Files: sourcetest.Within(t, "testdata/csv")}}
	for _, name := range []string{"coo", "csr", "csc", "typed"} {
		b := expect.Must(os.ReadFile("testdata/" + name + ".bin"))(t)
		// The head is damaged apart from the rest: most of it is room that is not used.
		files := map[string]string{"head": string(b[:64]),
			"room": string(b[64:headBytes]), "rest": string(b[headBytes:])}
		cases = append(cases, sourcetest.Case{Name: name, Reader: BinReader, At: "g.bin", Files: files,
			Keep: []string{"room"}, Pack: func(files map[string]string) map[string]string {
				return map[string]string{"g.bin": files["head"] + files["room"] + files["rest"]}
			}})
	}
	sourcetest.Outcomes(t, cases...)
}

var _ source.Reader = Reader
