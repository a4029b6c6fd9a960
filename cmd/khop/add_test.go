package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestColumnsAreAddedWithoutWritingTheOthersAgain adds to a dataset that is open meanwhile.
func TestColumnsAreAddedWithoutWritingTheOthersAgain(t *testing.T) {
	data := small(t)
	before := expect.Must(formats.Open(data))(t)
	defer before.Close()
	old := expect.Must(os.Stat(filepath.Join(data, "nodes/n0/feature.arrow")))(t)
	year := make([]int32, 2000)
	for i := range year {
		year[i] = int32(i * i)
	}
	file := textFile(t, "year.npy", string(expect.NPY(year)))
	weights := textFile(t, "w.npy", string(expect.NPY(make([]float32, 20000))))
	few := textFile(t, "few.npy", string(expect.NPY([]int64{7, 3})))
	must(t, "add", data, "--column", "year="+file, "--edge-column", "weight="+weights, "--split", "few="+few)
	must(t, "check", data)
	info := object(t, "info", data, "--json")
	expect.That(t, info["generation"] == 2.0, "generation %v", info["generation"])
	after := expect.Must(formats.Open(data))(t)
	defer after.Close()
	col, _ := after.Graph().NodeColumn(0, "year")
	got, _ := unified.View[int32](col)
	expect.That(t, slices.Equal(got, year), "another year")
	seeds, err := after.Graph().Split("few", 0)
	expect.That(t, err == nil && seeds.Len() == 2, "split: %d seeds, %v", seeds.Len(), err)
	if now, err := os.Stat(filepath.Join(data, "nodes/n0/feature.arrow")); err != nil || !os.SameFile(old, now) {
		t.Errorf("features were written again: %v", err)
	}
	expect.Is(t, before.Unchanged(), nil, "who has the old one open")
	labels := make([]uint8, 2000)
	labels[5] = 8
	file = textFile(t, "label.npy", string(expect.NPY(labels)))
	fails(t, exitFailed, `there is a column "label" already: choose another name, or replace it (--force)`, "add",
		data, "--column", "label="+file)
	fails(t, exitUsage, "name=file.npy", "add", data, "--column", "x")
	must(t, "add", data, "--column", "node:label="+file, "--force")
	must(t, "check", data)
	if info := object(t, "info", data, "--json"); info["classes"] != 9.0 || info["generation"] != 3.0 {
		t.Errorf("classes %v, generation %v", info["classes"], info["generation"])
	}
	must(t, "check", data)
	left, _ := filepath.Glob(data + ".*")
	expect.That(t, len(left) <= 0, "left behind: %v", left)
}
