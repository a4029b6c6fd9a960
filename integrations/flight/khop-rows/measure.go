package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/flight"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// asking says where an epoch's features come from.
type asking struct {
	rows       *flight.Rows // nil: this machine
	cache      int64        // bytes of rows that are kept
	residence  loader.Residence
	maxBatches int
}

// measured is what --ask prints.
type measured struct {
	Seconds float64 `json:"seconds"`
	Batches int     `json:"batches"`
	Rows    int64   `json:"rows"`
	Asked   int64   `json:"asked"`  // rows that the cache did not have
	Digest  uint64  `json:"digest"` // of all batches together
}

// measure loads a part of an epoch and prints what it took.
func (a *asking) measure(ctx context.Context, ds *formats.Dataset) error {
	opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{10, 5}}, BatchSize: 512, Shuffle: true,
		Residence: a.residence}
	opt.Device.Name, opt.Disk.CacheBytes = "cpu", a.cache
	if a.rows != nil {
		opt.Hooks.Remote = a.rows
	}
	l, err := loader.NewContext(ctx, ds, opt)
	if err != nil {
		return err
	}
	defer l.Close()
	m, start := measured{}, time.Now()
	for b, err := range l.Epoch(ctx, 0) {
		if err != nil {
			return err
		}
		_, full := b.Digest()
		m.Digest = m.Digest*31 + full
		m.Rows += b.X().Len()
		if m.Batches++; m.Batches == a.maxBatches {
			break
		}
	}
	m.Seconds = time.Since(start).Seconds()
	if d := l.Stats().OnDisk; d != nil {
		m.Asked = d.Misses
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}
