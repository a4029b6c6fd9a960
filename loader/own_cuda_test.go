//go:build cuda

package loader_test

import (
	"bytes"
	"testing"

	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// weighingOnDevice looks at the columns that a device's worker gets.
type weighingOnDevice struct {
	weighing
	look func(sampling.DeviceEnv)
}

func (w weighingOnDevice) OpenDevice(env sampling.DeviceEnv) (sampling.DeviceWorker, error) {
	w.look(env)
	return w.Neighbor.OpenDevice(env)
}

func TestDeviceHasTheColumnsThatASamplerReads(t *testing.T) {
	cudatest.Open(t)
	g := graphs.Plain(t, 200, 3)
	source, _ := g.EdgeColumn("weight")
	have := make([]byte, len(source.Bytes()))
	s := weighingOnDevice{weighing{sampling.Neighbor{Fanouts: []int{2}}, "weight", nil}, func(env sampling.DeviceEnv) {
		expect.Ensure(t, len(env.Topology.Columns) == 1, "%d columns", len(env.Topology.Columns))
		err := env.Stream.CopyToHost(have, env.Topology.Columns[0])
		if err == nil {
			err = env.Stream.Synchronize()
		}
		expect.OK(t, err)
	}}
	l := open(t, g, loader.Options{Sampler: s, BatchSize: 8, Device: loader.DeviceOptions{Name: "cuda"}})
	expect.That(t, bytes.Equal(have, source.Bytes()), "the column on the device is not the source's")
	expect.OK(t, lastError(l.Epoch(background, 0)))
}
