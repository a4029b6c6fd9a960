//go:build !race

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// Real graphs of links: those of validation, with the negatives that come with them or with strict ones that are drawn.
func TestLinksOfRealGraphs(t *testing.T) {
	root := os.Getenv("KHOP_TESTDATA")
	if root == "" {
		t.Skip("KHOP_TESTDATA is not set")
	}
	for _, c := range []struct {
		name                 string
		links, given, toDraw int // of validation: all, given negatives; negatives to draw for each batch
		exclude              loader.Exclusion
	}{
		{name: "WN18RR", links: 3034, toDraw: 1, exclude: loader.ExcludeReverse},
		{name: "FB15k-237", links: 17535, toDraw: 1, exclude: loader.ExcludeSeeds},
		{name: "ogbl-ddi", links: 133489 + 101882, given: 101882},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data.khop")
			must(t, "convert", filepath.Join(root, c.name), data)
			must(t, "sample", data, "--seeds", "val", "--fanouts", "2", "--batches", "1", "--device", "cpu")
			checkLinks(t, data, c.links, c.given, loader.Options{
				Sampler: sampling.Neighbor{Fanouts: []int{3, 2}}, Seeds: loader.Split("val"), BatchSize: 8192,
				Device: loader.DeviceOptions{Name: "cpu"}, Links: loader.LinkOptions{ExcludeSeeds: c.exclude,
					Negatives: sampling.Negatives{Ratio: float64(c.toDraw), Strict: c.toDraw > 0}},
			})
		})
	}
}

// checkLinks loads an epoch of links and compares their number with what it must be; drawn negatives must be no edges.
func checkLinks(t *testing.T, data string, links, given int, opt loader.Options) {
	t.Helper()
	ds := expect.Must(formats.Open(data))(t)
	defer ds.Close()
	edges := map[[2]int64]bool{}
	all, err := loader.New(ds, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{0}}, Seeds: loader.AllEdges(),
		BatchSize: 1 << 16, Device: loader.DeviceOptions{Name: "cpu"}})
	expect.OK(t, err)
	defer all.Close()
	for b, err := range all.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		for i, u := range b.Links(0).Sources {
			edges[[2]int64{u, b.Links(0).Targets[i]}] = true
		}
	}
	ld := expect.Must(loader.New(ds, opt))(t)
	defer ld.Close()
	var seen, false0, drawn int
	for b, err := range ld.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		x := b.Links(0)
		n := len(x.Items)
		seen, drawn = seen+n, drawn+len(x.Sources)-n
		for i := range x.Sources {
			if i < n && x.Labels[i] == 0 {
				false0++
			}
			if i >= n && edges[[2]int64{x.Sources[i], x.Targets[i]}] {
				t.Fatalf("strict negative %d -> %d is an edge", x.Sources[i], x.Targets[i])
			}
		}
	}
	want := int(opt.Links.Negatives.Of(int64(links))) - int(ld.Stats().NegativesMissed)
	expect.That(t, seen == links && drawn == want, "%d links and %d negatives; want %d and %d", seen, drawn, links,
		want)
	expect.That(t, given <= 0 || false0 == given, "%d links have label 0, want the %d given negatives", false0, given)
}
