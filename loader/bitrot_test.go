package loader_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// storedGraph writes a graph as a dataset and opens that.
func storedGraph(t *testing.T, g *graph.Graph) *formats.Dataset {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "x.khop")
	expect.OK(t, formats.WriteGraph(background, dir, g, formats.WriterOptions{}))
	d := expect.Must(formats.Open(dir))(t)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// rot flips a bit in the middle of a file, and leaves its time as it was.
func rot(t *testing.T, path string, bit byte) {
	t.Helper()
	st, err1 := os.Stat(path)
	f, err2 := os.OpenFile(path, os.O_RDWR, 0)
	expect.OK(t, errors.Join(err1, err2))
	b, at := make([]byte, 1), st.Size()/2&^3+3
	_, err1 = f.ReadAt(b, at)
	b[0] ^= bit
	_, err2 = f.WriteAt(b, at)
	expect.OK(t, errors.Join(err1, err2, f.Close(), os.Chtimes(path, time.Time{}, st.ModTime())))
}

func TestAFileThatChangedIsToldWhenAnEpochBegins(t *testing.T) {
	for _, residence := range []loader.Residence{loader.Mapped, loader.Resident} {
		d := storedGraph(t, graphs.Plain(t, 500, 4))
		l := open(t, d, loader.Options{Sampler: neighbor, Residence: residence})
		expect.Ensure(t, len(digests(t, l.Epoch(background, 0))) != 0, "no batch")
		path := filepath.Join(d.Path(), "nodes/n0/feature.arrow")
		expect.OK(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
		for range 2 {
			err := lastError(l.Epoch(background, 1))
			expect.That(t,
				errors.Is(err, formats.ErrChanged) && strings.HasPrefix(err.Error(), path) &&
					strings.Contains(err.Error(), "khop check "+d.Path()), "%v", err)
		}
	}
}

func TestVerifyStopsABatchOfARottenChunk(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows refuses to write to a mapped file")
	}
	g := graphs.Plain(t, 500, 4)
	opt := loader.Options{Sampler: neighbor, Columns: loader.ColumnOptions{Edges: []string{"weight"}}, Verify: true}
	for _, c := range []struct {
		file      string
		residence loader.Residence
		inNew     bool // New reads it whole
	}{
		{"nodes/n0/feature.arrow", loader.Mapped, false}, {"nodes/n0/feature.arrow", loader.Resident, true},
		{"graph/weight.arrow", loader.Mapped, false}, {"graph/weight.arrow", loader.Resident, true},
		{"graph/indices.arrow", loader.Mapped, true}, {"splits/node/train.arrow", loader.Mapped, true},
	} {
		d := storedGraph(t, g)
		opt.Residence = c.residence
		path := filepath.Join(d.Path(), c.file)
		var l *loader.Loader
		var err error
		if !c.inNew {
			l = open(t, d, opt)
		}
		rot(t, path, 1)
		if c.inNew {
			_, err = loader.New(d, opt)
		} else {
			err = lastError(l.Epoch(background, 0))
		}
		if !errors.Is(err, formats.ErrCorrupt) || !strings.Contains(err.Error(), path+": ") ||
			!strings.Contains(err.Error(), "khop check "+d.Path()) ||
			!c.inNew && !strings.Contains(err.Error(), "epoch 0, batch 0: ") {
			t.Errorf("%s, %v: %v", c.file, c.residence, err)
		}
	}
	expect.Is(t, expect.Err(loader.New(g, opt)), loader.ErrOptions, "a graph in memory")
}

func TestVerifyChangesNoBatch(t *testing.T) {
	d := storedGraph(t, graphs.Typed(t, 300, 200))
	var want []string
	for _, opt := range []loader.Options{{}, {Verify: true}, {Verify: true, Residence: loader.Resident}} {
		opt.Sampler, opt.Shuffle, opt.BatchSize, opt.Columns.Edges = neighbor, true, 30, []string{"stars"}
		got := digests(t, open(t, d, opt).Epoch(background, 2))
		if want == nil {
			want = got
		}
		expect.That(t, slices.Equal(got, want), "%+v: %v, want %v", opt, got, want)
	}
	p := place(t, d, loader.Options{Sampler: neighbor, Verify: true}, 2)
	for rank := range 2 {
		digests(t, open(t, p, loader.Options{Sampler: neighbor, Rank: rank, WorldSize: 2}).Epoch(background, 0))
	}
}

func TestDamageThatABatchMeetsSaysWhatToDo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("mapped files cannot be changed here")
	}
	for file, spoil := range map[string]func(path string){
		"graph/indices.arrow":    func(path string) { rot(t, path, 64) }, // beyond all nodes
		"nodes/n0/feature.arrow": func(path string) { _ = os.Truncate(path, 4096) },
		"nodes/n0/label.arrow":   func(path string) { _ = os.Truncate(path, 4096) },
		"graph/indptr.arrow":     func(path string) { _ = os.Truncate(path, 4096) },
	} {
		d := storedGraph(t, graphs.Plain(t, 5000, 4))
		l := open(t, d, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{-1, -1}}, BatchSize: 25, Workers: 1,
			Tuning: loader.TuningOptions{Prefetch: 1}})
		path := filepath.Join(d.Path(), file)
		var err error
		for b, e := range l.Epoch(background, 0) {
			if err = e; e == nil && b.Number == 0 {
				spoil(path)
			}
		}
		if err == nil || !strings.Contains(err.Error(), d.Path()) || strings.Contains(err.Error(), "0x") ||
			!strings.Contains(err.Error(), `run "khop check `+d.Path()+`"`) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

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
