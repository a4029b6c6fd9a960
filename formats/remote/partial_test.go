//go:build linux || darwin

package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/stores"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

const (
	nodes    = 6000
	features = 100 // of 400 bytes, so that rows lie in two chunks
)

// featured is a graph with features that take 37 chunks of 64 KiB, at an address and in a folder.
func featured(t *testing.T) (s *stores.Store, address, dir string) {
	t.Helper()
	smallChunks(t, 64<<10)
	r := rand.New(rand.NewPCG(3, 4))
	indptr, indices := []int64{0}, []int32{}
	for range nodes {
		from := len(indices)
		for range r.IntN(8) {
			indices = append(indices, int32(r.IntN(nodes)))
		}
		slices.Sort(indices[from:])
		indptr = append(indptr, int64(len(indices)))
	}
	rows := make([]float32, nodes*features)
	for i := range rows {
		rows[i] = r.Float32()
	}
	g := expect.Must(graph.FromArrays(graph.Arrays{
		Schema: graph.Schema{
			Nodes: []graph.NodeType{{Name: "node", Count: nodes, Columns: []graph.Column{
				{Name: "feature", DType: unified.Float32, Shape: []int64{features}}}}},
			Edges: []graph.EdgeType{{Source: "node", Relation: "edge", Target: "node", Count: int64(len(indices))}},
		},
		Indptr: unified.FromSlice(indptr), Indices: unified.FromSlice(indices),
		NodeColumns: []map[string]unified.Tensor{{
			"feature": expect.Must(unified.New(unified.Float32, unified.FromSlice(rows).Bytes(), nodes, features))(t)}},
	}))(t)
	dir = filepath.Join(t.TempDir(), "x.khop")
	expect.OK(t, formats.WriteGraph(context.Background(), dir, g, formats.WriterOptions{}))
	s = stores.New(t)
	return s, s.PutFolder(t, "bucket", "x.khop", dir), dir
}

// digested returns the digests of batches of a dataset, two epochs or the first few.
func digested(ds *formats.Dataset, opt loader.Options, few int) (list []string, err error) {
	if opt.Sampler == nil {
		opt.Sampler = sampling.Neighbor{Fanouts: []int{3}}
	}
	if opt.BatchSize == 0 {
		opt.BatchSize = 1000
	}
	opt.Seeds, opt.Shuffle, opt.Device.Name = loader.AllNodes(), few == 0, "cpu"
	l, err := loader.New(ds, opt)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for epoch := range uint64(2) {
		for b, err := range l.Epoch(context.Background(), epoch) {
			if err != nil {
				return list, err
			}
			topology, full := b.Digest()
			if list = append(list, fmt.Sprintf("%x %x", topology, full)); len(list) == few {
				return list, nil
			}
		}
	}
	return list, nil
}

func TestBatchesOfADatasetElsewhereAreThoseOfTheFolder(t *testing.T) {
	s, address, dir := featured(t)
	here := expect.Must(formats.Open(dir))(t)
	defer here.Close()
	want := expect.Must(digested(here, loader.Options{}, 0))(t)
	small := here.FileBytes() - nodes*features*4*2/3
	for name, opt := range map[string]loader.Options{"mapped": {Residence: loader.Mapped},
		"resident": {Residence: loader.Resident}, "disk": {Residence: loader.Disk},
		"verified": {Residence: loader.Mapped, Verify: true}} {
		cache := t.TempDir()
		for i, size := range []int64{0, 0, small} { // cold, warm, and smaller than the dataset
			if i == 2 && name != "mapped" { // the same tier whatever the residence
				continue
			}
			if i == 2 {
				cache = t.TempDir()
			}
			s.Fail(nil)
			opened := Options{CacheDir: cache, CacheSize: size, Lazy: true}
			ds := expect.Must(Open(t.Context(), address, opened))(t)
			other := expect.Must(Open(t.Context(), address, opened))(t) // as in another process
			for _, ds := range []*formats.Dataset{ds, other} {
				got, err := digested(ds, opt, 0)
				expect.That(t, err == nil && slices.Equal(got, want), "%s, %d: other batches, or %v", name, i, err)
				expect.OK(t, ds.Unchanged())
			}
			expect.OK(t, ds.Close(), other.Close())
			asked, sent := s.Requests()
			expect.That(t, i != 1 || len(asked) == 2, "%s: warm, it asks %q", name, asked)
			expect.That(t, i != 0 || sent < here.FileBytes()+here.FileBytes()/10, "%s: %d bytes were sent", name, sent)
		}
	}
}

// Seeds in order, without their neighbours, lie in the first chunks. The last ones come when the first batch is there.
func TestTrainingBeginsBeforeAllIsThere(t *testing.T) {
	s, address, dir := featured(t)
	here := expect.Must(formats.Open(dir))(t)
	defer here.Close()
	opt := loader.Options{Residence: loader.Mapped, Workers: 1, BatchSize: 64,
		Sampler: sampling.Neighbor{Fanouts: []int{0}}}
	want := expect.Must(digested(here, opt, 1))(t)
	trained := make(chan struct{})
	s.Fail(func(_ int, r *http.Request) stores.Fault {
		from := int64(0)
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		if strings.HasSuffix(r.URL.Path, "feature.arrow") && from >= 30*64<<10 && from%(64<<10) == 0 {
			<-trained
		}
		return stores.None
	})
	e := Options{CacheDir: t.TempDir(), Lazy: true}
	ds := expect.Must(Open(t.Context(), address, e))(t)
	got, err := digested(ds, opt, 1)
	_, sent := s.Requests()
	expect.That(t, err == nil && slices.Equal(got, want), "other batches, or %v", err)
	expect.That(t, sent < here.FileBytes()*9/10, "%d bytes had come", sent)
	close(trained)
	expect.OK(t, ds.Close())
}

func TestARowThatDoesNotComeIsAnErrorOfItsBatch(t *testing.T) {
	s, address, _ := featured(t)
	e := Options{CacheDir: t.TempDir(), Lazy: true}
	ds := expect.Must(Open(t.Context(), address, e))(t)
	defer ds.Close()
	x, _ := ds.Graph().NodeColumn(0, "feature")
	err := pinned.Guard(func() error { fmt.Fprint(discard{}, x.Bytes()[:8]); return nil })
	expect.That(t, errors.Is(err, pinned.ErrFault), "what is not there can be read: %v", err)
	s.Fail(func(int, *http.Request) stores.Fault { return stores.Refuses })
	_, err = digested(ds, loader.Options{Residence: loader.Mapped}, 0)
	expect.That(t, err != nil && strings.Contains(err.Error(), address) && !strings.Contains(err.Error(),
		stores.Secret), "%v", err)
	s.Fail(nil)
	_, err = digested(ds, loader.Options{Residence: loader.Mapped}, 0)
	expect.That(t, err == nil, "once the store answers again: %v", err)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
