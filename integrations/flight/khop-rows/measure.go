package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/flight"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// asking says where an epoch's features come from.
type asking struct {
	servers    string // replicas with |, ranges of ids with commas; "": this machine
	cache      int64
	ca, token  string
	residence  loader.Residence
	diskCache  int64
	maxBatches int
}

// measured is what --ask prints.
type measured struct {
	Seconds float64 `json:"seconds"`
	Batches int     `json:"batches"`
	Rows    int64   `json:"rows"`
	Hits    int64   `json:"hits"`
	Digest  uint64  `json:"digest"` // of all batches together
}

// measure loads a part of an epoch and prints what it took.
func (a *asking) measure(ctx context.Context, ds *formats.Dataset) error {
	opt := loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{10, 5}}, BatchSize: 512, Shuffle: true,
		Residence: a.residence}
	opt.Device.Name, opt.Disk.CacheBytes = "cpu", a.diskCache
	var rows *flight.Rows
	if a.servers != "" {
		id := ds.ID()
		rows = &flight.Rows{Schema: ds.Graph().Schema(), Dataset: hex.EncodeToString(id[:]), CacheBytes: a.cache,
			Token: a.token}
		for _, part := range strings.Split(a.servers, ",") {
			rows.Servers = append(rows.Servers, strings.Split(part, "|"))
		}
		if a.ca != "" {
			var err error
			if rows.TLS, err = credentials.NewClientTLSFromFile(a.ca, ""); err != nil {
				return err
			}
		}
		opt.Hooks.Tier, opt.Residence = rows, loader.Mapped
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
	if rows != nil {
		s, err := rows.Stats()
		if err != nil {
			return err
		}
		m.Hits = s.Hits
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}
