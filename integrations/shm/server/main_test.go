//go:build linux

package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("KHOP_TEST_ROLE"); role != "" {
		playRole(role)
		return
	}
	if len(os.TempDir()) > 10 {
		_ = os.Setenv("TMPDIR", "/tmp") // paths of sockets have at most 107 bytes
	}
	expect.NoGoroutines(m)
}

// plainGraph has n nodes with in-edges, features, labels and edge weights.
func plainGraph(t testing.TB, n int) *graph.Graph {
	t.Helper()
	return graphs.New(t, graphs.PlainData(t, n, 6))
}

// typedGraph has users with float64 features, items with float16 ones, tags with none, and four edge types.
func typedGraph(t testing.TB) *graph.Graph {
	t.Helper()
	const users, items, tags = 300, 200, 20
	r := rand.New(rand.NewPCG(2, 2))
	edges := func(source, relation, target string, sources, targets int) graph.EdgeData {
		e := graph.EdgeData{Source: source, Relation: relation, Target: target}
		for range 900 {
			e.Src, e.Dst = append(e.Src, int64(r.IntN(sources))), append(e.Dst, int64(r.IntN(targets)))
		}
		return e
	}
	return graphs.New(t, graph.Data{
		Nodes: []graph.NodeData{
			{Name: "user", Count: users, Columns: map[string]unified.Tensor{
				"feature": graphs.Matrix(t, graphs.Counted[float64](2*users), 2),
				"label":   unified.FromSlice(graphs.Counted[int32](users))}},
			{Name: "item", Count: items, Columns: map[string]unified.Tensor{
				"feature": graphs.Matrix(t, graphs.Counted[unified.Half](4*items), 4)}},
			{Name: "tag", Count: tags},
		},
		Edges: []graph.EdgeData{
			edges("user", "rates", "item", users, items), edges("item", "rated_by", "user", items, users),
			edges("user", "friend", "user", users, users), edges("tag", "on", "item", tags, items),
		},
	})
}

// usual are loader options for small graphs: 500 nodes make 16 batches.
func usual() loader.Options {
	return loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{4, 3}, Frontier: sampling.AllNodes},
		Seeds: loader.AllNodes(), BatchSize: 32, Shuffle: true, Seed: 7, Workers: 2,
		Device: loader.DeviceOptions{Name: "cpu"}}
}

// layerViews are loader options with which a layer is the beginning of another.
func layerViews() loader.Options {
	o := usual()
	o.Sampler = sampling.Neighbor{Fanouts: []int{4, 3, 2}, Frontier: sampling.NewNodes}
	o.Columns.Edges = []string{"weight"}
	return o
}

// positionsOnly are loader options without columns, but with the edges' positions.
func positionsOnly() loader.Options {
	o := usual()
	o.Columns.Nodes, o.Columns.Seeds, o.Columns.EdgePos = []string{}, []string{}, true
	return o
}

// usualOn is usual with a device; "" is the CPU.
func usualOn(device string) loader.Options {
	o := usual()
	if o.Device.Name = device; device == "" {
		o.Device.Name = "cpu"
	}
	return o
}

// misplaced returns the name of an array that lies on the host instead of a device, or the other way round; "" for
// none.
func misplaced(b *consumer.Batch, onDevice bool) string {
	for _, a := range b.Arrays() {
		always, _, _ := strings.Cut(a.Name, "/")
		host := !onDevice || always == "num_nodes" || always == "input" || always == "item"
		if len(a.Tensor.Bytes()) > 0 && (a.Tensor.Placement() == pinned.Host) != host {
			return a.Name
		}
	}
	return ""
}

// patience is how long a test waits for what comes at once, unless the machine is busy with something else.
const patience = 2 * time.Minute

// serving is a server under test.
type serving struct {
	*Server
	path string
	end  context.CancelFunc // ends Serve
	err  chan error         // of Serve
}

// socketPath is where a server makes its socket and the folder for it.
func socketPath(t testing.TB) string { return filepath.Join(t.TempDir(), "feed", "socket") }

// serve starts a server that ends with the test.
func serve(t testing.TB, src loader.Source, opt Options) *serving {
	t.Helper()
	if opt.Path == "" {
		opt.Path = socketPath(t)
	}
	if opt.Loader.Sampler == nil {
		opt.Loader = usual()
	}
	s := expect.Must(New(t.Context(), src, opt))(t)
	ctx, cancel := context.WithCancel(context.Background())
	v := &serving{s, opt.Path, cancel, make(chan error, 1)}
	go func() { v.err <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		expect.OK(t, s.Close())
		_, err := os.Lstat(filepath.Dir(opt.Path))
		expect.That(t, err != nil, "the server left the directory that it made")
	})
	return v
}

// connect returns a consumer that ends with the test.
func connect(t testing.TB, s *serving, opt consumer.Options) *consumer.Consumer {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = patience
	}
	c := expect.Must(consumer.Dial(t.Context(), s.path, opt))(t)
	t.Cleanup(func() {
		expect.OK(t, c.Close())
	})
	return c
}

// line is what two equal batches have in common.
func line(epoch, number uint64, padded bool, next, topology, full uint64) string {
	return fmt.Sprintf("%d %d %t %d %016x %016x", epoch, number, padded, next, topology, full)
}

func lineOf(b *consumer.Batch) string {
	topology, full := b.Digest()
	return line(b.Epoch, b.Number, b.Padded, b.State().Next, topology, full)
}

// lines collects the batches of a run.
func lines(t testing.TB, seq func(func(*consumer.Batch, error) bool)) (list []string) {
	t.Helper()
	for b, err := range seq {
		expect.OK(t, err)
		list = append(list, lineOf(b))
	}
	return list
}

// want is what a loader without a feed yields.
func want(t testing.TB, src loader.Source, opt loader.Options, epoch uint64) (list []string) {
	t.Helper()
	ld := expect.Must(loader.New(src, opt))(t)
	defer ld.Close()
	for b, err := range ld.Epoch(t.Context(), epoch) {
		expect.OK(t, err)
		topology, full := b.Digest()
		list = append(list, line(b.Epoch, b.Number, b.Padded, b.State().Next, topology, full))
	}
	return list
}
