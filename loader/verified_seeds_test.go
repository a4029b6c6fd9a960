package loader_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

// checksums is a source whose checksums a test has in hand.
type checksums struct {
	loader.Source
	seen   map[*byte]int // how much was verified, by where it begins
	rotten *byte
}

var errRotten = errors.New("a checksum differs")

func (c *checksums) Verify(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	c.seen[&b[0]] += len(b)
	if &b[0] == c.rotten {
		return errRotten
	}
	return nil
}

// splitGraph is narrowGraph with a split of nodes and one of edges, and its columns by name.
func splitGraph(t *testing.T, links graph.Seeds) (*graph.Graph, map[string]unified.Tensor) {
	t.Helper()
	a := graphs.ArraysOf(narrowGraph(t))
	a.Splits = []graph.Split{{Name: "train", Seeds: graph.NodeIDs([]int32{4, 5})}, {Name: "links", Seeds: links}}
	return graphs.Of(t, a), a.NodeColumns[0]
}

// What is read anywhere at any time is verified whole in New, each array once and the seeds of a split before they are
// used; columns that are read in place are not, but for the scales of narrow ones.
func TestNewVerifiesWhatBatchesReadAnywhere(t *testing.T) {
	links := graph.EdgePairs([]int32{1, 2, 0}, []int32{0, 1, 2})
	g, columns := splitGraph(t, links)
	feature, scales, label := columns["feature"], columns["feature_scale"], columns["label"]
	train, _ := g.Split("train", 0)
	always := []unified.Tensor{unified.FromSlice(g.Indptr()), g.Indices()}
	for name, c := range map[string]struct {
		opt  loader.Options
		more []unified.Tensor
	}{
		"nodes": {loader.Options{}, []unified.Tensor{train.Sets[0].IDs}},
		"links": {loader.Options{Seeds: loader.Split("links")}, []unified.Tensor{links.Edges[0].Sources,
			links.Edges[0].Targets}},
		"given": {loader.Options{Seeds: loader.AllNodes()}, nil},
		"widened": {loader.Options{Seeds: loader.AllNodes(), Columns: loader.ColumnOptions{Widen: []string{"float32"}}},
			[]unified.Tensor{scales}},
		"resident": {loader.Options{Seeds: loader.AllNodes(), Residence: loader.Resident},
			[]unified.Tensor{feature, label}},
		"both": {loader.Options{Seeds: loader.AllNodes(), Residence: loader.Resident,
			Columns: loader.ColumnOptions{Widen: []string{"float32"}}},
			[]unified.Tensor{feature, label, scales}},
	} {
		src, want := &checksums{Source: g, seen: map[*byte]int{}}, map[*byte]int{}
		for _, x := range append(c.more, always...) {
			want[&x.Bytes()[0]] = len(x.Bytes())
		}
		c.opt.Sampler, c.opt.Verify, c.opt.Device.Name = neighbor, true, "cpu"
		l := open(t, src, c.opt)
		expect.That(t, maps.Equal(src.seen, want), "%s: %d arrays of %d were verified: %v, want %v", name,
			len(src.seen), len(want), src.seen, want)
		expect.That(t, len(digests(t, l.Epoch(background, 0))) != 0, "%s: no batch", name)
		for at := range want {
			src.rotten = at
			l, err := loader.New(src, c.opt)
			expect.That(t, l == nil && errors.Is(err, errRotten), "%s: %v", name, err)
		}
		c.opt.Verify, src.rotten = false, nil
		clear(src.seen)
		digests(t, open(t, src, c.opt).Epoch(background, 0))
		expect.That(t, len(src.seen) == 0, "%s: verified without being asked for: %v", name, src.seen)
	}
	_, err := loader.New(g, loader.Options{Sampler: neighbor, Verify: true, Device: loader.DeviceOptions{Name: "cpu"}})
	id := g.ID()
	if want := fmt.Sprintf(": Verify: dataset %x has no checksums", id); !errors.Is(err, loader.ErrOptions) ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("a graph in memory: %v", err)
	}
}
