package formats

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
)

var goldenNames = []string{"Ada", "", "Élise 名"}

// goldenID is the id of each golden dataset, which must never change.
var goldenID = map[string]string{
	"golden-v1-plain": "4f01e2b32fb9891a081c7e297ac97d0c",
	"golden-v1-typed": "f1a604db6e43bbe3c079e8acc7ffe159",
}

func goldenArrays(t *testing.T, name string) graph.Arrays {
	if name == "golden-v1-typed" {
		return typedArrays(t)
	}
	return plainArrays(t)
}

// writeGolden writes a golden dataset with everything that the format has.
func writeGolden(t *testing.T, name, dir string) {
	t.Helper()
	ctx, g := context.Background(), newGraph(t, goldenArrays(t, name))
	w, err := Create(dir, WriterOptions{Force: true, Provenance: map[string]string{"source": "made by a test"}})
	expect.OK(t, err)
	defer func() { expect.OK(t, w.Abort()) }()
	s, err := w.NodeStrings(0, "names", int64(len(goldenNames)))
	for _, v := range goldenNames {
		if err == nil {
			err = s.Write(v)
		}
	}
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		err = w.writeArrays(ctx, g)
	}
	if err == nil {
		err = w.Commit(*g.Schema())
	}
	expect.OK(t, err)
}

func TestGoldenDatasetsOfFormat1AreReadAndWrittenByteForByte(t *testing.T) {
	for name, id := range goldenID {
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("testdata", name)
			if expect.Rewriting() {
				expect.OK(t, os.RemoveAll(golden))
				writeGolden(t, name, golden)
			}
			d := open(t, golden)
			requireEqualGraphs(t, newGraph(t, goldenArrays(t, name)), d.Graph())
			list, err := d.Strings(0, "names")
			if err != nil || list.Len() != int64(len(goldenNames)) {
				t.Fatal(list, err)
			}
			for i, want := range goldenNames {
				got, err := list.At(int64(i))
				expect.That(t, err == nil && got == want, "string %d is %q, %v", i, got, err)
			}
			if report, err := Check(context.Background(), golden, CheckOptions{}); err != nil || !report.OK() {
				t.Errorf("check: %+v, %v", report, err)
			}
			if got := fmt.Sprintf("%x", d.ID()); got != id {
				t.Errorf("id is %s, it was %s", got, id)
			}
			dir := filepath.Join(scratchDir(t), name)
			writeGolden(t, name, dir)
			want, got := expect.Files(t, golden), expect.Files(t, dir)
			for file := range want {
				if !bytes.Equal(want[file], got[file]) {
					t.Errorf("%s is written otherwise today", file)
				}
			}
			expect.That(t, len(want) == len(got), "%d files are written, there were %d", len(got), len(want))
		})
	}
}
