package formats

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// writeLinks writes a typed graph with links to predict: of two edge types, the second with labels.
func writeLinks(t testing.TB) (dir string, s graph.Schema) {
	t.Helper()
	dir = write(t, typedArrays(t), WriterOptions{})
	ds := expect.Must(Open(dir))(t)
	s = ds.SchemaOf()
	expect.OK(t, ds.Close())
	w := expect.Must(Extend(dir, ExtendOptions{}))(t)
	column := func(e int, end string, v ...int64) {
		node := 0
		if end != "label" {
			node = []int{s.Edges[e].Src, s.Edges[e].Dst}[slices.Index(linkEnds, end)]
		}
		cw, err := w.Links("valid", 0, e, node, end, unified.Int64, int64(len(v)))
		expect.OK(t, err)
		_, err = cw.Write(unified.FromSlice(v).Bytes())
		expect.OK(t, err, cw.Close())
	}
	column(0, "source", 0, 1)
	column(0, "target", 1, 0)
	column(1, "source", 0, 1, 0)
	column(1, "target", 1, 1, 0)
	column(1, "label", 1, 0, 1)
	expect.OK(t, w.Commit(s))
	return dir, s
}

func TestLinksAreReadAsTheyWereWritten(t *testing.T) {
	dir, _ := writeLinks(t)
	ds := open(t, dir)
	links, err := ds.Links("valid", 0)
	expect.Ensure(t, err == nil && len(links.Sets) == 2 && len(ds.LinkSplits()) == 1, "%+v, %v", links, err)
	for i, want := range [][3][]int64{{{0, 1}, {1, 0}, nil}, {{0, 1, 0}, {1, 1, 0}, {1, 0, 1}}} {
		set := &links.Sets[i]
		for j, x := range []unified.Tensor{set.Sources, set.Targets, set.Labels} {
			if got, _ := unified.View[int64](x); set.EdgeType != i || !slices.Equal(got, want[j]) {
				t.Errorf("set %d, %s: %v, want %v", i, linkEnds[j], got, want[j])
			}
		}
	}
	if _, err := ds.Links("valid", 1); err == nil || !strings.Contains(err.Error(), "valid 0") {
		t.Errorf("links that are not there: %v", err)
	}
	report, err := Check(context.Background(), dir, CheckOptions{})
	expect.That(t, err == nil && report.OK(), "%+v, %v", report, err)
}

// Each changes one thing of the sets: source and target of edge type 0; source, target and label of type 1.
func TestManifestsThatLieAboutLinksAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l *SplitInfo)
		want   string
	}{
		"no edge type":       {func(l *SplitInfo) { l.Sets[0].EdgeType = nil }, "a set of another task"},
		"another edge type":  {func(l *SplitInfo) { *l.Sets[1].EdgeType = 1 }, "out of place"},
		"unknown edge type":  {func(l *SplitInfo) { *l.Sets[0].EdgeType = 3 }, "out of place"},
		"negative edge type": {func(l *SplitInfo) { *l.Sets[0].EdgeType = -1 }, "out of place"},
		"an unknown end":     {func(l *SplitInfo) { l.Sets[0].End = "middle" }, "out of place"},
		"ends exchanged":     {func(l *SplitInfo) { l.Sets[0], l.Sets[1] = l.Sets[1], l.Sets[0] }, "out of place"},
		"sources twice":      {func(l *SplitInfo) { l.Sets[1].End = "source" }, "out of place"},
		"no source":          {func(l *SplitInfo) { l.Sets = l.Sets[1:] }, "out of place"},
		"no target":          {func(l *SplitInfo) { l.Sets = l.Sets[:1] }, "have no targets"},
		"no target between":  {func(l *SplitInfo) { l.Sets = slices.Delete(l.Sets, 1, 2) }, "out of place"},
		"labels of sources":  {func(l *SplitInfo) { l.Sets = slices.Delete(l.Sets, 3, 4) }, "out of place"},
		"other nodes":        {func(l *SplitInfo) { l.Sets[3].NodeType ^= 1 }, "out of place"},
		"fewer targets":      {func(l *SplitInfo) { l.Sets[1].Parts = l.Sets[2].Parts }, ""},
		"a task of nodes":    {func(l *SplitInfo) { l.Task = taskNode }, "a set of another task"},
	} {
		dir, _ := writeLinks(t)
		forge(t, dir, func(m *Manifest) {
			at := slices.IndexFunc(m.Splits, func(s SplitInfo) bool { return s.Task == taskLink })
			c.change(&m.Splits[at])
		})
		expect.Says(t, openError(dir), ErrCorrupt, c.want, name)
	}
}

// The tables of tasks come back as they were written, those that recommend nodes too, whose sources are seeds as well.
func TestTablesOfTasksComeBackAsTheyWereWritten(t *testing.T) {
	times := []int64{-5, 0, 7}
	arrays := typedArrays(t)
	s := &arrays.Schema
	e := slices.IndexFunc(s.Edges, func(e graph.EdgeType) bool { return e.Source != e.Target })
	ids, targets := unified.FromSlice([]int32{0, 1, 0}), unified.FromSlice([]int32{1, 0, 1, 1, 0})
	pairs := graph.Seeds{Edges: []graph.EdgeSet{{Type: e, Sources: ids, Targets: targets, Times: times,
		Offsets: []int64{0, 1, 4, 5}}}}
	nodes := graph.Seeds{Sets: []graph.SeedSet{{Type: 0, IDs: ids, Times: times, Count: 3,
		Labels: unified.FromSlice([]float32{1, 0, .5})}}}
	arrays.Splits = []graph.Split{{Name: "late:train", Seeds: nodes}, {Name: "next:val", Seeds: pairs}}
	dir := write(t, arrays, WriterOptions{})
	d := open(t, dir)
	expect.That(t, reflect.DeepEqual(expect.Must(d.Split("late:train", 0))(t), nodes), "labels differ")
	got := expect.Must(d.Split("next:val", 0))(t)
	expect.That(t, reflect.DeepEqual(got, pairs), "%+v, not %+v", got, pairs)
	sources := expect.Must(d.Split("next:val:source", 0))(t).Sets[0]
	expect.That(t, sources.Type == s.NodeType(s.Edges[e].Source) && equalTensors(sources.IDs, ids) &&
		slices.Equal(sources.Times, times), "the sources are %+v", sources)
	report := expect.Must(Check(context.Background(), dir, CheckOptions{}))(t)
	expect.That(t, report.OK(), "check: %+v", report)
	again := filepath.Join(scratchDir(t), "y.khop")
	expect.OK(t, WriteGraph(context.Background(), again, d.Graph(), WriterOptions{}))
	expect.That(t, open(t, again).ID() == d.ID(), "written again it is another dataset")

	path := filepath.Join(dir, "tasks/next/val.offset.arrow") // 1 becomes 0: the first row has no target
	b := expect.Must(os.ReadFile(path))(t)
	part := d.Manifest().Splits[slices.IndexFunc(d.Manifest().Splits, func(s SplitInfo) bool {
		return s.Name == "next:val"
	})].Sets[3].Parts[0]
	b[part.BodyOffset+8] = 0
	expect.OK(t, os.WriteFile(path, b, 0o600))
	report = expect.Must(Check(context.Background(), dir, CheckOptions{}))(t)
	expect.That(t, len(report.Problems) == 2 && strings.Contains(report.Problems[1].Error(), "its targets run"),
		"a row without a target: %v", report.Problems)
}

// First times of a task's rows come back as well, and say in the manifest that a reader must know them. They stand
// beside times.
func TestFirstTimesOfTasksComeBackAsTheyWereWritten(t *testing.T) {
	times, from := []int64{-5, 0, 7}, []int64{-1 << 63, 9, 6}
	arrays := typedArrays(t)
	e := slices.IndexFunc(arrays.Schema.Edges, func(e graph.EdgeType) bool { return e.Source != e.Target })
	ids, targets := unified.FromSlice([]int32{0, 1, 0}), unified.FromSlice([]int32{1, 0, 1, 1, 0})
	nodes := graph.Seeds{Sets: []graph.SeedSet{{IDs: ids, Times: times, From: from, Count: 3,
		Labels: unified.FromSlice([]float32{1, 0, .5})}}}
	pairs := graph.Seeds{Edges: []graph.EdgeSet{{Type: e, Sources: ids, Targets: targets, Times: times, From: from,
		Offsets: []int64{0, 1, 4, 5}}}}
	arrays.Splits = []graph.Split{{Name: "late:train", Seeds: nodes}, {Name: "next:val", Seeds: pairs}}
	dir := write(t, arrays, WriterOptions{})
	d := open(t, dir)
	got := []graph.Seeds{expect.Must(d.Split("late:train", 0))(t), expect.Must(d.Split("next:val", 0))(t)}
	expect.That(t, reflect.DeepEqual(got, []graph.Seeds{nodes, pairs}), "%+v", got)
	expect.That(t, slices.Equal(expect.Must(d.Split("next:val:source", 0))(t).Sets[0].From, from), "sources lack them")
	report := expect.Must(Check(context.Background(), dir, CheckOptions{}))(t)
	expect.That(t, report.OK(), "check: %+v", report)

	path := filepath.Join(dir, manifestName)
	text := expect.Must(os.ReadFile(path))(t)
	expect.That(t, bytes.Contains(text, []byte(`"requires": ["first-times"]`)), "the manifest requires nothing")
	expect.OK(t, os.WriteFile(path, seal(strings.Replace(string(text), "first-times", "later-times", 1)), 0o600))
	expect.Says(t, openError(dir), ErrVersion, `requires "later-times"`, "another requirement")
	expect.OK(t, os.WriteFile(path, text, 0o600))
	forge(t, dir, func(m *Manifest) {
		sets := &m.Splits[slices.IndexFunc(m.Splits, func(s SplitInfo) bool { return s.Name == "late:train" })].Sets
		*sets = slices.Delete(*sets, 1, 2)
	})
	expect.Says(t, openError(dir), ErrCorrupt, "out of place", "first times without times")
}

func TestLinksAreSeeds(t *testing.T) {
	dir, _ := writeLinks(t)
	ds := open(t, dir)
	links := expect.Must(ds.Links("valid", 0))(t)
	seeds := expect.Must(links.Seeds())(t)
	expect.Ensure(t, len(seeds.Edges) == 2, "%d sets", len(seeds.Edges))
	for i, labels := range [][]int64{nil, {1, 0, 1}} {
		set := seeds.Edges[i]
		if set.Type != i || !slices.Equal(set.Labels, labels) || !equalTensors(set.Sources, links.Sets[i].Sources) ||
			!equalTensors(set.Targets, links.Sets[i].Targets) {
			t.Errorf("set %d: %+v", i, set)
		}
	}
}
