package main

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
)

type planCmd struct {
	loadFlags `embed:""`

	plotFlags `embed:"" set:"plot_of=seconds and rows missed of an epoch, by size of the cache"`

	PriceGB       float64 `name:"price-gb" default:"0" help:"Price of a gigabyte that comes from elsewhere."`
	PriceRequests float64 `default:"0.4" help:"Price of a million requests to the dataset's store."`

	jsonFlag `embed:""`
}

// planResult is what "khop plan --json" prints. Scripts rely on the names.
type planResult struct {
	*outlook.Outlook
	// KneeBytes is the cache beyond which more memory gains little, HalfBytes the least that halves the time of the
	// smallest, or of --cache-bytes; 0: none of those tried.
	KneeBytes int64 `json:"knee_bytes"`
	HalfBytes int64 `json:"half_bytes"`
	// Workers is how many a loader has where the topology stays on disk: without --workers as many as the room leaves,
	// Needs the memory that it takes then, in bytes, and Largest what it takes if every batch is the largest that there
	// can be. 0 where the topology has room in memory.
	Workers  int   `json:"workers"`
	Needs    int64 `json:"needs_bytes"`
	Largest  int64 `json:"needs_largest_bytes"`
	training loader.Estimate
	tooMuch  error
	// Staging is what is not on this machine of a dataset from elsewhere; there is nothing else then.
	Staging *staging `json:"staging,omitempty"`
}

// Run simulates.
func (c *planCmd) Run(env *environment) (err error) {
	ds, err := c.open(env)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	if r := (planResult{}); ds.Partial() != nil {
		if r.Staging, err = c.stagingOf(ds); err != nil {
			return err
		}
		return c.show(env, r, r.Staging.print)
	}
	opt, err := c.options(env, ds)
	if err != nil {
		return err
	}
	o, _, err := watched(env, func(bar *progress) (*outlook.Outlook, error) {
		opt.Hooks.Progress = bar.report()
		return outlook.Look(env.ctx, ds, opt)
	})
	if err != nil {
		return err
	}
	r := planResult{Outlook: o}
	if o.Topology != nil {
		opt.Residence, opt.Device.Name, opt.Hooks.Progress = loader.Disk, "cpu", nil // as in Look
		e, err := loader.Plan(env.ctx, ds, opt)
		if r.tooMuch = err; err != nil && !errors.Is(err, loader.ErrMemory) {
			return err
		}
		r.training, r.Workers, r.Needs, r.Largest = e, e.Workers, e.Expected.Total(), e.Bound.Total()
	}
	r.KneeBytes = knee(o.Caches)
	r.HalfBytes = r.halving(int64(c.loader.Disk.CacheBytes))
	if err := draw(env, c.plotFlags, c.Dataset, r); err != nil {
		return err
	}
	return c.show(env, r, r.print)
}

// knee returns the size at which the curve of seconds, by the logarithm of the size, is farthest below the line between
// its ends (V. Satopaa et al., "Finding a Kneedle in a haystack", 2011).
func knee(caches []outlook.Cache) (bytes int64) {
	n := len(caches)
	if n < 3 {
		return 0
	}
	x := func(i int) float64 { return math.Log(float64(max(caches[i].CacheBytes, 1))) }
	y := func(i int) float64 { return caches[i].Seconds() }
	farthest := 0.0
	for i := 1; i < n-1; i++ {
		line := y(0) + (y(n-1)-y(0))*(x(i)-x(0))/(x(n-1)-x(0))
		if below := line - y(i); below > farthest {
			farthest, bytes = below, caches[i].CacheBytes
		}
	}
	return bytes
}

// halving returns the least size tried that takes at most half the time of a size, or of the smallest where it is 0.
func (r *planResult) halving(of int64) int64 {
	if len(r.Caches) == 0 {
		return 0
	}
	now := r.Caches[0].Seconds()
	for i := range r.Caches {
		if r.Caches[i].CacheBytes <= of {
			now = r.Caches[i].Seconds()
		}
	}
	for i := range r.Caches {
		if r.Caches[i].Seconds() <= now/2 {
			return r.Caches[i].CacheBytes
		}
	}
	return 0
}

func (r *planResult) print(env *environment) error {
	fmt.Fprintf(env.stdout, "%d batches an epoch ask for %.1f million rows; %s of columns can stay on disk\n",
		r.Batches, float64(r.Rows)/1e6, machine.Bytes(r.ColumnBytes))
	path, why := (&diskReport{Probe: &r.Probe}).row()
	fmt.Fprintf(env.stdout, "%s: %s\n", path, why)
	r.printTopology(env)
	if len(r.Caches) == 0 {
		return nil
	}
	if r.Share < 1 {
		fmt.Fprintf(env.stdout, "%.2g %% of the rows were simulated\n", 100*r.Share)
	}
	t := newTable(env.stdout)
	t.section("Rows missed in an epoch, in % of those requested")
	head := []any{"  cache"}
	for _, p := range r.Caches[0].Policies {
		head = append(head, p.Policy)
	}
	t.row(head...)
	for i := range r.Caches {
		row := []any{"  " + machine.Bytes(r.Caches[i].CacheBytes)}
		for _, p := range r.Caches[i].Policies {
			row = append(row, fmt.Sprintf("%.2f", 100*float64(p.Misses)/float64(max(r.Rows, 1))))
		}
		t.row(row...)
	}
	r.printEpochs(t, "", disk.Ahead)
	if len(r.Caches[0].Policies) > int(disk.Packed) {
		r.printEpochs(t, " --pack", disk.Packed)
		r.printPacked(t)
	}
	t.section(r.halves())
	return t.flush()
}

// printEpochs says what an epoch reads under a policy of khop's.
func (r *planResult) printEpochs(t *table, option string, policy disk.Policy) {
	t.section("An epoch with --residence disk" + option)
	t.row("  cache", "requests", "read", "useful", "time of the disk", "")
	longest := 0.0
	for i := range r.Caches {
		longest = max(longest, r.Caches[i].Seconds())
	}
	for i := range r.Caches {
		p := &r.Caches[i].Policies[policy]
		bar := barOf(p.Seconds, longest)
		if policy == disk.Ahead && r.Caches[i].CacheBytes == r.KneeBytes {
			bar += " knee"
		}
		t.row("  "+machine.Bytes(r.Caches[i].CacheBytes), p.Requests+p.Writes, machine.Bytes(p.Bytes),
			percent(p.Useful, p.Bytes), durationText(time.Duration(p.Seconds*1e9)), bar)
	}
}

// printPacked says what an epoch reads and writes where rows are packed.
func (r *planResult) printPacked(t *table) {
	t.section("Of these requests")
	t.row("  cache", "rows packed, of those missed", "writes", "written")
	for i := range r.Caches {
		p := &r.Caches[i].Policies[disk.Packed]
		t.row("  "+machine.Bytes(r.Caches[i].CacheBytes), percent(p.Packed, p.Misses), p.Writes,
			machine.Bytes(p.Written))
	}
}

// halves says what halves the time.
func (r *planResult) halves() string {
	if r.HalfBytes == 0 {
		return "No cache of these sizes halves the time."
	}
	return fmt.Sprintf("A cache of %s halves the time.", machine.Bytes(r.HalfBytes))
}

// printTopology says where the topology lies.
func (r *planResult) printTopology(env *environment) {
	d := r.Topology
	if d == nil {
		fmt.Fprintf(env.stdout, "the topology, %s, has room in memory\n", machine.Bytes(r.TopologyBytes))
		return
	}
	fmt.Fprintf(env.stdout, "the topology, %s, stays on disk: with a cache of %s an epoch reads %s in %d requests, "+
		"%s of the pages that it asks for\n", machine.Bytes(r.TopologyBytes), machine.Bytes(d.CacheBytes),
		machine.Bytes(d.PageCounts.Bytes), d.Requests, percent(d.Read, d.Wanted))
	if r.tooMuch != nil {
		fmt.Fprintf(env.stdout, "training would be refused: %v\n", r.tooMuch)
		return
	}
	fmt.Fprintf(env.stdout, "training has %d workers (%d cores), and takes memory: %s\n", r.Workers,
		machine.Workers(), needs(r.training))
}

// barOf draws a part of the longest bar.
func barOf(part, longest float64) string {
	n := 0
	if longest > 0 {
		n = int(math.Round(24 * part / longest))
	}
	return strings.Repeat("#", n)
}

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
	if remote.IsAddress(c.Dataset) {
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
