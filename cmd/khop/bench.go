package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/khop-gnn/khop/cmd/khop/internal/rates"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/memuse"
	"github.com/khop-gnn/khop/internal/meters"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/tier"
)

type benchCmd struct {
	loadFlags `embed:""`

	Batches    positive `default:"100" help:"Batches to measure; epochs repeat as needed."`
	Warmup     int      `default:"10" help:"Batches to load before the measurement."`
	NoFeatures bool     `help:"Only sample; gather no columns."`
	NoMemcpy   bool     `help:"Do not measure the speed of memory copies."`
	Limit      bool     `help:"Measure the limits of this machine's memory, and the share that loading reaches."`

	liveFlag `embed:""`
	jsonFlag `embed:""`
}

// benchResult is what "khop bench --json" prints. Scripts rely on the names.
type benchResult struct {
	Dataset string `json:"dataset"`
	Sampler string `json:"sampler"`
	// Options are the loader's options as given, as a configuration that khop serve --config reads.
	Options   json.RawMessage `json:"options"`
	Residence string          `json:"residence"`
	Features  bool            `json:"features"`
	BatchSize int             `json:"batch_size"`
	Seed      uint64          `json:"seed"`
	Workers   int             `json:"workers"`
	Prefetch  int             `json:"prefetch"`
	Warmup    int             `json:"warmup"`
	Batches   int             `json:"batches"`

	Seconds      float64 `json:"seconds"`
	BatchesPerS  float64 `json:"batches_per_s"`
	EdgesPerS    float64 `json:"edges_per_s"`
	RowsPerS     float64 `json:"rows_per_s"`      // rows gathered, of all columns
	GatherGBPerS float64 `json:"gather_gb_per_s"` // bytes gathered by all workers while they gather
	// the same threads and output size, copied from one run of memory; 0: not measured
	MemcpyGBPerS  float64 `json:"memcpy_gb_per_s"`
	MemcpyBytes   int64   `json:"memcpy_bytes"`    // memory that measuring this took, after the loader had ended
	MsPerBatch    spread  `json:"ms_per_batch"`    // time between batches, over runs of four batches a worker
	SampleMs      float64 `json:"sample_ms"`       // a worker's time to sample a batch, mean
	GatherMs      float64 `json:"gather_ms"`       // a worker's time to gather a batch's rows, mean
	RowsPerBatch  float64 `json:"rows_per_batch"`  // mean
	BytesPerBatch float64 `json:"bytes_per_batch"` // gathered, mean

	SeedsPerBatch float64   `json:"seeds_per_batch"`
	NodesPerBatch float64   `json:"nodes_per_batch"`
	EdgesPerBatch float64   `json:"edges_per_batch"`
	NodesPerHop   []float64 `json:"nodes_per_hop"` // nodes after 0, 1, ... hops
	EdgesPerHop   []float64 `json:"edges_per_hop"` // edges drawn at each hop

	MemoryEstimate   int64 `json:"memory_estimate"`    // what the loader said it would need
	MemoryLargest    int64 `json:"memory_largest"`     // the same, if every batch were the largest that there can be
	MemoryPeak       int64 `json:"memory_peak"`        // the most that it took
	DeviceMemoryPeak int64 `json:"device_memory_peak"` // the most device memory that it took
	AnonBytes        int64 `json:"anon_bytes"`         // RssAnon + RssShmem of the process
	FileBytes        int64 `json:"file_bytes"`         // RssFile: pages of mapped files

	DiskMs float64         `json:"disk_ms"` // a worker's time to wait for a disk, mean
	OnDisk *tier.DiskStats `json:"on_disk"` // null: no column stays on disk
	// TopologyOnDisk is null where the topology does not stay there.
	TopologyOnDisk *tier.TopologyStats `json:"topology_on_disk"`

	Device string             `json:"device"` // where batches were made
	Placed []tier.PlacedArray `json:"placed"` // where a device found each array; null on the CPU
	Meters meters.Report      `json:"meters"` // energy, utilisation and traffic of the measured batches
	Report loader.Report      `json:"report"` // what loading waited for, from the first batch on
	Limit  *benchLimit        `json:"limit"`  // null: not asked for

	Versions versions `json:"versions"`
}

type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Run measures.
func (c *benchCmd) Run(env *environment) (err error) {
	if c.Warmup < 0 {
		return usageError("--warmup %d: must be 0 or more", c.Warmup)
	}
	if err := c.limitOfProcessor(); err != nil {
		return err
	}
	var memory loader.Estimate
	if c.NoFeatures {
		c.withoutColumns()
	}
	ld, err := c.open(env, func(e loader.Estimate) {
		memory = e
		c.planned(env, e)
	})
	if err != nil {
		return err
	}
	defer closing(&err, ld.close) // a second close does nothing
	opt, made := ld.Options(), ld.Answer()
	var shown atomic.Pointer[loader.Loader]
	shown.Store(ld.Loader)
	_, hide, err := c.showLoaders(env, "khop bench "+paths.Text(c.Dataset), ofLoader(&shown))
	if err != nil {
		return err
	}
	defer hide()
	r := benchResult{
		Dataset: paths.Text(c.Dataset), Sampler: made.Sampler.Fingerprint(),
		Options:   json.RawMessage(c.said().String()),
		Residence: made.Residence.String(),
		Features:  !c.NoFeatures,
		BatchSize: made.BatchSize, Seed: opt.Seed, Workers: made.Workers, Prefetch: made.Prefetch, Warmup: c.Warmup,
		Batches: int(c.Batches), MemoryEstimate: memory.Expected.Total(), MemoryLargest: memory.Bound.Total(),
		Device: made.Device, Placed: ld.Placed(),
		Versions: currentVersions(),
	}
	if err := c.measure(env, ld, &r); err != nil {
		return err
	}
	took := ld.Stats()
	r.Report = ld.Report()
	r.MemoryPeak, r.DeviceMemoryPeak = took.MemoryPeak, took.DeviceMemoryPeak
	holds, err := memuse.Read()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	r.AnonBytes, r.FileBytes = holds.Anonymous, holds.File
	if err := ld.close(); err != nil { // what it holds makes room for measuring how fast memory copies
		return err
	}
	if err := c.measureMemory(env, &r); err != nil {
		return err
	}
	return c.jsonFlag.show(env, r, r.print)
}

// planned says what the loader will need.
func (c *benchCmd) planned(env *environment, e loader.Estimate) {
	if on := e.Device.Total(); on > 0 {
		env.note("the loader will need up to about %s of device memory for batches, and takes more for graph and "+
			"columns", machine.Bytes(on))
		return
	}
	env.note("the loader will need %s; %s are read from mapped files", needs(e), machine.Bytes(e.FileBytes))
	if !c.NoMemcpy && !c.NoFeatures {
		env.note("measuring how fast memory copies then takes %s or more, in place of what the loader took; "+
			"--no-memcpy leaves it out", machine.Bytes(rates.CopySource(machine.Probe(), 0)))
	}
}

// measure loads the warm-up batches, then the measured ones, and breaks off: to the end the workers are as busy as in
// the middle of an epoch.
func (c *benchCmd) measure(env *environment, ld *loading, r *benchResult) (err error) {
	var (
		total  work
		marks  = make([]time.Time, 0, r.Batches)
		before loader.Stats
		after  loader.Stats
		start  time.Time
		loaded int
	)
	energy, err := openMeters(r.Device) // takes its time: it begins anew after the warm-up
	if err != nil {
		return err
	}
	defer closing(&err, energy.close)
	begin := func() {
		energy.begin()
		before, start = ld.Stats(), time.Now()
	}
	arrays := ld.Arrays()
	var late error
	take := func(b *loader.Batch) (more bool) {
		if late = b.Sync(); late != nil { // a device's batch is handed over before it is complete
			return false
		}
		loaded++
		if loaded > r.Warmup {
			total.add(countBatch(arrays, b))
			marks = append(marks, time.Now())
		}
		if loaded == r.Warmup {
			begin()
		}
		if loaded < r.Warmup+r.Batches {
			return true
		}
		after, r.Meters = ld.Stats(), energy.report()
		return false
	}
	if r.Warmup == 0 {
		begin()
	}
	if err := errors.Join(repeat(env.ctx, ld, take), late); err != nil {
		return err
	}
	r.fill(&total, before, after, start, marks)
	return nil
}

// repeat hands batches to take, epoch after epoch, until it has enough.
func repeat(ctx context.Context, ld *loading, take func(*loader.Batch) bool) error {
	for epoch := uint64(0); ; epoch++ {
		any := false
		for b, err := range ld.Epoch(ctx, epoch) {
			if err != nil {
				return err
			}
			any = true
			moved(fmt.Sprintf("epoch %d", epoch), int64(b.Number), int64(ld.AllBatches()))
			if !take(b) {
				return nil
			}
		}
		if !any {
			return errors.New("an epoch has no batches: there are no seeds")
		}
	}
}

func (w *work) add(o work) {
	w.seeds += o.seeds
	w.nodes += o.nodes
	w.edges += o.edges
	w.nodesPerHop = addAll(w.nodesPerHop, o.nodesPerHop)
	w.edgesPerHop = addAll(w.edgesPerHop, o.edgesPerHop)
}

func addAll(sum, n []int64) []int64 {
	if sum == nil {
		sum = make([]int64, len(n))
	}
	for i := range n {
		sum[i] += n[i]
	}
	return sum
}

func (r *benchResult) fill(total *work, before, after loader.Stats, start time.Time, marks []time.Time) {
	n := float64(len(marks))
	r.Seconds = marks[len(marks)-1].Sub(start).Seconds()
	r.BatchesPerS, r.EdgesPerS = n/r.Seconds, float64(total.edges)/r.Seconds
	r.MsPerBatch = betweenBatches(start, marks, r.Workers)
	r.SeedsPerBatch, r.NodesPerBatch, r.EdgesPerBatch = float64(total.seeds)/n, float64(total.nodes)/n,
		float64(total.edges)/n
	r.NodesPerHop, r.EdgesPerHop = means(total.nodesPerHop, n), means(total.edgesPerHop, n)

	r.RowsPerBatch = float64(after.Rows-before.Rows) / n
	r.BytesPerBatch = float64(after.Bytes-before.Bytes) / n
	r.RowsPerS = float64(after.Rows-before.Rows) / r.Seconds
	mean := func(a, b loader.Durations) float64 {
		return (a.Sum - b.Sum).Seconds() / float64(max(a.Count-b.Count, 1))
	}
	gather := mean(after.Gather, before.Gather)
	r.SampleMs, r.GatherMs = mean(after.Sample, before.Sample)*1e3, gather*1e3
	r.DiskMs, r.OnDisk = mean(after.Disk, before.Disk)*1e3, after.OnDisk
	if r.OnDisk != nil {
		r.OnDisk.Counts = r.OnDisk.Less(&before.OnDisk.Counts)
	}
	if r.TopologyOnDisk = after.TopologyOnDisk; r.TopologyOnDisk != nil {
		r.TopologyOnDisk.PageCounts = r.TopologyOnDisk.Less(&before.TopologyOnDisk.PageCounts)
	}
	if gather > 0 {
		r.GatherGBPerS = r.BytesPerBatch / gather * float64(r.Workers) / 1e9
	}
}

// betweenBatches returns the time between batches. Workers that run side by side deliver in bursts, so it is taken over
// runs of four batches a worker, or of a quarter of all where there are few.
func betweenBatches(start time.Time, marks []time.Time, workers int) spread {
	run := max(min(4*workers, len(marks)/4), 1)
	var ms []float64
	last := start
	for i := run - 1; i < len(marks); i += run {
		ms = append(ms, marks[i].Sub(last).Seconds()*1e3/float64(run))
		last = marks[i]
	}
	slices.Sort(ms)
	return spread{Median: (ms[len(ms)/2] + ms[(len(ms)-1)/2]) / 2, Min: ms[0], Max: ms[len(ms)-1]}
}

func means(sum []int64, n float64) []float64 {
	m := make([]float64, len(sum))
	for i, v := range sum {
		m[i] = float64(v) / n
	}
	return m
}

func (r *benchResult) print(env *environment) error {
	t := newTable(env.stdout)
	t.row("dataset", r.Dataset)
	t.row("sampler", r.Sampler)
	t.say("setting", "%d seeds a batch, %d workers, prefetch %d, %s, made on %s", r.BatchSize, r.Workers,
		r.Prefetch, r.Residence, r.Device)
	t.say("measured", "%d batches in %.2f s, after %d", r.Batches, r.Seconds, r.Warmup)
	t.say("batches", "%.1f/s; %.2f ms each (median; %.2f to %.2f)", r.BatchesPerS, r.MsPerBatch.Median,
		r.MsPerBatch.Min, r.MsPerBatch.Max)
	t.say("a batch", "%.0f seeds, %.0f nodes, %.0f edges", r.SeedsPerBatch, r.NodesPerBatch, r.EdgesPerBatch)
	t.say("edges", "%.1f million/s; %.2f ms a worker and batch to sample", r.EdgesPerS/1e6, r.SampleMs)
	if r.BytesPerBatch > 0 {
		t.say("rows", "%.1f million/s; %.2f ms a worker and batch to gather %s", r.RowsPerS/1e6, r.GatherMs,
			machine.Bytes(int64(r.BytesPerBatch)))
		gather := fmt.Sprintf("%.1f GB/s while gathering", r.GatherGBPerS)
		if r.MemcpyGBPerS > 0 {
			gather += fmt.Sprintf(", memcpy %.1f GB/s", r.MemcpyGBPerS)
		}
		t.row("gather", gather)
	}
	if d := r.OnDisk; d != nil {
		r.printDisk(t, d)
	}
	if d := r.TopologyOnDisk; d != nil {
		by := ""
		if r.Device != "cpu" {
			by = ", so the CPU samples"
		}
		t.say("topology", "%s on disk%s, %s of the pages requested were read: %d requests, %s; %.2f ms a "+
			"worker and batch to wait", machine.Bytes(d.Bytes), by, percent(d.Read, d.Wanted), d.Requests,
			machine.Bytes(d.PageCounts.Bytes), r.DiskMs)
	}
	if r.DeviceMemoryPeak > 0 {
		t.say("memory", "loader: %s of device memory taken, %s of host memory", machine.Bytes(r.DeviceMemoryPeak),
			machine.Bytes(r.MemoryPeak))
	} else {
		t.say("memory", "loader: %s expected, %s taken", machine.Bytes(r.MemoryEstimate), machine.Bytes(r.MemoryPeak))
	}
	if r.MemcpyBytes > 0 {
		t.say("", "memcpy: %s taken, after the loader", machine.Bytes(r.MemcpyBytes))
	}
	r.printLimit(t)
	t.row("energy", energyText(&r.Meters, r.Batches))
	t.say("process", "%s its own, %s of mapped files", machine.Bytes(r.AnonBytes), machine.Bytes(r.FileBytes))
	if err := t.flush(); err != nil || r.Report.Rule == "" {
		return err
	}
	_, err := fmt.Fprintln(env.stdout, sentence(r.Report))
	return err
}

// printDisk says what was read of columns on disk.
func (r *benchResult) printDisk(t *table, d *tier.DiskStats) {
	t.say("disk", "%s of %d rows missed; %.0f requests and %s a batch, of which %s are useful",
		percent(d.Misses, d.Rows), d.Rows, float64(d.Requests)/float64(max(d.Batches, 1)),
		machine.Bytes(d.Bytes/max(d.Batches, 1)), percent(d.Useful, d.Bytes))
	t.say("", "%.0f requests/s by %s; %.2f ms a worker and batch waited for it; %d batches known ahead",
		float64(d.Requests)/r.Seconds, describeProbe(&d.Probe), r.DiskMs, d.Lookahead)
	printPack(t, d)
}

// printPack says what was packed.
func printPack(t *table, d *tier.DiskStats) {
	for _, p := range d.Pack {
		if p.Refused != "" {
			t.row("", p.Refused)
		}
	}
	if d.Packed > 0 {
		t.say("", "packed: %s of the rows missed; %d writes of %s in all", percent(d.Packed, d.Misses),
			d.Writes, machine.Bytes(d.Written))
	}
}

func percent(part, of int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(of, 1)))
}
