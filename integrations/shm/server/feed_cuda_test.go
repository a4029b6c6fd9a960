//go:build cuda && linux

package server

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

func TestBatchesOfADeviceReachConsumers(t *testing.T) {
	for name, src := range map[string]loader.Source{"plain": plainGraph(t, 300), "typed": typedGraph(t)} {
		opt := usual()
		want := want(t, src, opt, 1)
		opt.Device.Name = "cuda:0"
		s := serve(t, src, Options{Loader: opt})
		for _, index := range []unified.DType{unified.Int32, unified.Int64} {
			c := connect(t, s, consumer.Options{IndexDType: index})
			got := lines(t, c.Epoch(t.Context(), 1))
			expect.That(t, slices.Equal(got, want), "%s, %v: got\n%q\nwant\n%q", name, index, got, want)
			c.Close()
		}
	}
}

// Consumers of four ranks, two on each of two devices that share hot rows, get the batches of the CPU; peers are read.
func TestConsumersGetTheBatchesOfDevicesThatShareRows(t *testing.T) {
	if !cudatest.Devices(t, 2, "peers=1") {
		return
	}
	const nodes = 600
	src, opt := plainGraph(t, nodes), usual()
	opt.Columns.Nodes, opt.Columns.Seeds = []string{"feature"}, []string{}
	var ranks [4][]string
	for opt.Rank = range ranks {
		opt.WorldSize = len(ranks)
		ranks[opt.Rank] = want(t, src, opt, 0)
	}
	opt.Rank, opt.Device.Name, opt.Tuning.HotShare = 0, "cuda:0,cuda:1", loader.ShareAll
	opt.Device.Cache = 12*nodes + 2560 + nodes/4*12 // indptr, a table, a quarter of the rows
	s := serve(t, src, Options{Loader: opt, WorldSize: len(ranks)})
	for rank := range ranks {
		c := connect(t, s, consumer.Options{Rank: consumer.RankOf(rank)})
		if got := lines(t, c.Epoch(t.Context(), 0)); !slices.Equal(got, ranks[rank]) {
			t.Errorf("rank %d: got\n%q\nwant\n%q", rank, got, ranks[rank])
		}
		expect.OK(t, c.Close())
	}
	until(t, func() bool { // counts are complete when the last rank's epoch has ended
		return !slices.ContainsFunc(s.Stats(), func(st shm.RankStats) bool {
			return st.Loader.DevicePeers == 0 || st.Loader.DeviceHits == 0
		})
	})
}

// Rows that copies bring to a device lie in the ring that consumers read.
func TestConsumersGetRowsThatCopiesBring(t *testing.T) {
	cudatest.Open(t)
	opt := usual()
	src := plainGraph(t, 300)
	all := want(t, src, opt, 1)
	opt.Device.Name, opt.Tuning.Carry, opt.Device.Cache = "cuda:0", loader.CarryCopies, loader.NoDeviceCache
	c := connect(t, serve(t, src, Options{Loader: opt}), consumer.Options{})
	got := lines(t, c.Epoch(t.Context(), 1))
	expect.That(t, slices.Equal(got, all), "got\n%q\nwant\n%q", got, all)
}
