package formats

import (
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
