//go:build cuda

package loader_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// providedMemory gives device memory in place of the driver.
type providedMemory struct {
	dev *device.Device
	mu  sync.Mutex
	all map[*byte]*pinned.Region

	giving func(*byte) // if not nil, told of each Give
}

func (p *providedMemory) Take(n int64) ([]byte, error) {
	r, err := pinned.Allocate(n, pinned.Options{Device: p.dev})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := r.Bytes()
	p.all[&b[0]] = r
	return b, nil
}

func (p *providedMemory) Give(b []byte) error {
	if p.giving != nil {
		p.giving(&b[0])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.all[&b[0]]
	delete(p.all, &b[0])
	return r.Close()
}

// watchedSampler tells when a batch begins to be sampled.
type watchedSampler struct {
	sampling.Neighbor
	begins func(*graph.Sample)
}

type watchedWorker struct {
	sampling.DeviceWorker
	begins func(*graph.Sample)
}

func (s watchedSampler) OpenDevice(env sampling.DeviceEnv) (sampling.DeviceWorker, error) {
	w, err := s.Neighbor.OpenDevice(env)
	return watchedWorker{w, s.begins}, err
}

func (w watchedWorker) Enqueue(ctx context.Context, req *sampling.Request, out *graph.Sample) error {
	w.begins(out)
	return w.DeviceWorker.Enqueue(ctx, req, out)
}

// check fails the test for an error.
func check(t *testing.T, err error) {
	t.Helper()
	expect.OK(t, err)
}

// streamWithScratch returns a stream and 4 bytes for its work, until the test ends.
func streamWithScratch(t *testing.T, dev *device.Device) (*device.Stream, *device.Memory) {
	t.Helper()
	s, err := dev.NewStream()
	check(t, err)
	m, err := dev.Alloc(4)
	check(t, err)
	t.Cleanup(func() { check(t, errors.Join(m.Close(), s.Close())) })
	return s, m
}

// TestMemoryOfAProviderIsGivenBackWhenItsReadersAreDone: a provider gives memory out again at once, so whatever a
// sampler may give back must not be in use on any stream.
func TestMemoryOfAProviderIsGivenBackWhenItsReadersAreDone(t *testing.T) {
	dev := cudatest.Open(t)
	var mu sync.Mutex
	readers, scratch := map[*graph.Sample]*device.Stream{}, map[*device.Stream]*device.Memory{}
	users := map[*byte]*device.Stream{}
	again, given := 0, 0
	idle := func(s *device.Stream, otherwise string) {
		done, err := s.Query()
		expect.That(t, err == nil && done, "%s: %v, %v", otherwise, done, err)
	}
	begins := func(s *graph.Sample) {
		mu.Lock()
		defer mu.Unlock()
		if readers[s] == nil {
			return
		}
		again++
		idle(readers[s], "a batch is made in memory that is still read")
	}
	memory := &providedMemory{dev: dev, all: map[*byte]*pinned.Region{}}
	l := open(t, graphs.Plain(t, 60, 5), loader.Options{Device: loader.DeviceOptions{Name: "cuda:0"},
		Hooks: loader.Hooks{RowMemory: memory}, BatchSize: 5, Workers: 1, Tuning: loader.TuningOptions{Prefetch: 1},
		Sampler: watchedSampler{sampling.Neighbor{Fanouts: []int{3}}, begins}})
	memory.giving = func(at *byte) {
		if users[at] == nil {
			return
		}
		given++
		idle(users[at], "memory is given back while it is read")
	}
	for b, err := range l.Epoch(background, 0) {
		check(t, err)
		mu.Lock()
		last := again > 3
		mu.Unlock()
		if last { // then the memory goes when the body ends
			check(t, l.Close())
		}
		mu.Lock()
		s := readers[b.Sample]
		if s == nil {
			var m *device.Memory
			s, m = streamWithScratch(t, dev)
			readers[b.Sample], scratch[s] = s, m
		}
		for range 100 {
			check(t, s.Fill32(scratch[s].Address(), 1, 1))
		}
		check(t, b.RecordStream(s.Handle()))
		users[&b.Sample.Nodes[0].Bytes()[0]] = s
		mu.Unlock()
		if last {
			break
		}
	}
	expect.That(t, again != 0 && given != 0,
		"%d batches were made in the memory of others, %d pieces of memory were given back", again, given)
}
