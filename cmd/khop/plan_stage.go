package main

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/ranges"
)

// staging is what it takes to bring the rest of a dataset from elsewhere. Scripts rely on the names.
type staging struct {
	Bytes    int64   `json:"bytes"`         // of the dataset
	Missing  int64   `json:"missing_bytes"` // that are not on this machine
	Requests int64   `json:"requests"`
	Rate     float64 `json:"bytes_per_second"` // as a chunk has come now
	Seconds  float64 `json:"seconds"`
	Price    float64 `json:"price"`
}

// open opens the dataset to plan for. Of one from elsewhere features need not come.
func (c *planCmd) open(env *environment) (*formats.Dataset, error) {
	if ranges.Is(c.Dataset) {
		return c.openForLoaders(env, c.Dataset)
	}
	return c.plotFlags.openDataset(env, &c.tagFlags, c.Dataset)
}

// stagingOf says what bringing the rest of a dataset takes. It brings a chunk to measure how fast they come.
func (c *planCmd) stagingOf(ds *formats.Dataset) (*staging, error) {
	rest := ds.Partial().(interface {
		Missing() (bytes, requests int64)
		Probe() (int64, error)
	})
	start := time.Now()
	n, err := rest.Probe()
	if err != nil {
		return nil, err
	}
	s := &staging{Bytes: ds.FileBytes(), Rate: float64(n) / time.Since(start).Seconds()}
	s.Missing, s.Requests = rest.Missing()
	s.Seconds = float64(s.Missing) / s.Rate
	s.Price = float64(s.Missing)/1e9*c.PriceGB + float64(s.Requests)/1e6*c.PriceRequests
	return s, nil
}

func (s *staging) print(env *environment) error {
	_, err := fmt.Fprintf(env.stdout, "%s of %s are not on this machine: %s requests, about %s at %s a second, for "+
		"%.4g\nwhat reading them from disk costs can be said when they are (khop stage)\n",
		machine.Bytes(s.Missing), machine.Bytes(s.Bytes), humanize.Comma(s.Requests),
		durationText(time.Duration(s.Seconds*1e9)), machine.Bytes(int64(s.Rate)), s.Price)
	return err
}
