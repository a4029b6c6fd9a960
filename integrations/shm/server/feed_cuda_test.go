//go:build cuda && linux

package server

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

func TestBatchesOfADeviceReachConsumers(t *testing.T) {
	for name, src := range map[string]loader.Source{"plain": plainGraph(t, 300), "typed": typedGraph(t)} {
		opt := usual()
		want := want(t, src, opt, 1)
		opt.Device = "cuda:0"
		s := serve(t, src, Options{Loader: opt})
		for _, index := range []unified.DType{unified.Int32, unified.Int64} {
			c := connect(t, s, consumer.Options{IndexDType: index})
			if got := lines(t, c.Epoch(t.Context(), 1)); !slices.Equal(got, want) {
				t.Errorf("%s, %v: got\n%q\nwant\n%q", name, index, got, want)
			}
			c.Close()
		}
	}
}
