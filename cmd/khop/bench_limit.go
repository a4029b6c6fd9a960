package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/khop-gnn/khop/cmd/khop/internal/rates"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/meters"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// benchLimit is what this machine's memory allows, and what share of it each stage reaches. Shares are of 1; 0: not
// measured.
type benchLimit struct {
	// Reads are the lines at random places that sampling a batch needs.
	Reads    []lineReads `json:"reads"`
	SampleMs float64     `json:"sample_ms"` // the least that a worker takes to read them
	GatherMs float64     `json:"gather_ms"` // the least that it takes to copy as many bytes as a batch's rows
	Sample   float64     `json:"sample_share"`
	Gather   float64     `json:"gather_share"`
	Disk     float64     `json:"disk_share"`  // of what the disk was measured to do
	Batch    float64     `json:"batch_share"` // of both stages together
}

// lineReads are reads of one array.
type lineReads struct {
	What     string  `json:"what"`
	PerBatch float64 `json:"per_batch"` // lines of 64 bytes, of which one destination reads each once
	Bytes    int64   `json:"bytes"`     // of memory in which they lie
	PerS     float64 `json:"per_s"`     // lines a second that as many threads read at random places of these bytes
}

// countedBatches are how many batches are sampled once more, to count what they read.
const countedBatches = 4

// limitOfProcessor has batches made where the limit is measured.
func (c *benchCmd) limitOfProcessor() error {
	name := &c.loader.Device.Name
	switch {
	case !c.Limit || *name == "cpu":
	case *name != "" && *name != "auto":
		return usageError("--limit is of this machine's processor, and --device %s is another: say cpu", *name)
	default:
		*name = "cpu"
	}
	return nil
}

// measureMemory measures how fast memory is copied, and the limits that are asked for.
func (c *benchCmd) measureMemory(env *environment, r *benchResult) error {
	if !c.NoMemcpy || c.Limit {
		if err := c.copyRate(env, r); err != nil {
			return err
		}
	}
	if !c.Limit {
		return nil
	}
	r.Limit = &benchLimit{}
	if err := c.countReads(env, r); err != nil {
		return err
	}
	if err := c.lineRates(env, r); err != nil {
		return err
	}
	r.Limit.fill(r)
	return nil
}

// countReads samples some batches with the places of their edges, and counts the lines that they read.
func (c *benchCmd) countReads(env *environment, r *benchResult) (err error) {
	flags := c.loadFlags
	flags.loader.Residence, flags.loader.Workers, flags.loader.Tuning.Trace = loader.Mapped, 1, ""
	flags.loader.Columns = loader.ColumnOptions{Nodes: []string{}, Seeds: []string{}, EdgePos: true}
	ld, err := flags.open(env, nil)
	if err != nil {
		return err
	}
	defer closing(&err, ld.close)
	schema := ld.dataset.Graph().Schema()
	idBytes, batches, destinations, lines, edges := schema.IDType().Size(), 0, int64(0), int64(0), int64(0)
	err = repeat(env.ctx, ld, func(b *loader.Batch) bool {
		d, l := readsOf(b.Sample, idBytes)
		destinations, lines, edges = destinations+d, lines+l, edges+countBatch(ld.Arrays(), b).edges
		batches++
		return batches < min(countedBatches, r.Batches)
	})
	if err != nil || lines == 0 { // such as of a sampler without edges
		return err
	}
	mean := func(n int64) float64 { return float64(n) / float64(batches) }
	table := min(4*schema.NumNodes(), 24*int64(r.NodesPerBatch)) // an entry a node, or a hash table's
	r.Limit.Reads = []lineReads{
		{What: "ranges of destinations", PerBatch: mean(destinations), Bytes: 8 * (schema.NumNodes() + 1)},
		{What: "sources", PerBatch: mean(lines), Bytes: idBytes * schema.NumEdges()},
		{What: "local ids", PerBatch: mean(edges), Bytes: table * int64(r.Workers)},
	}
	return nil
}

// readsOf counts the destinations that have edges in a sample, and the lines of the sources that each reads.
func readsOf(s *graph.Sample, idBytes int64) (destinations, lines int64) {
	for l, of := range s.ViewOf {
		for e := range s.Blocks[l] {
			if b := &s.Blocks[l][e]; of == l && b.EdgePos.Valid() { // else it is counted with what it is a view of
				d, n := readsOfBlock(b, idBytes)
				destinations, lines = destinations+d, lines+n
			}
		}
	}
	return destinations, lines
}

func readsOfBlock(b *graph.Block, idBytes int64) (destinations, lines int64) {
	indptr, err := unified.View[int32](b.Indptr)
	if err != nil {
		return 0, 0
	}
	at, size := b.EdgePos.Bytes(), b.EdgePos.DType().Size()
	for i := range indptr[1:] {
		last := int64(-1)
		for k := indptr[i]; k < indptr[i+1]; k++ {
			line := b.EdgePos.DType().Integer(at[int64(k)*size:]) * idBytes / machine.Line
			if line != last {
				lines++
			}
			last = line
		}
		if last >= 0 {
			destinations++
		}
	}
	return destinations, lines
}

// fill works out times and shares.
func (l *benchLimit) fill(r *benchResult) {
	workers := float64(r.Workers)
	for _, reads := range l.Reads {
		if reads.PerS > 0 {
			l.SampleMs += reads.PerBatch / reads.PerS * workers * 1e3
		}
	}
	if r.MemcpyGBPerS > 0 {
		l.GatherMs = r.BytesPerBatch / (r.MemcpyGBPerS * 1e9) * workers * 1e3
	}
	share := func(least, took float64) float64 {
		if took == 0 {
			return 0
		}
		return least / took
	}
	l.Sample, l.Gather = share(l.SampleMs, r.SampleMs), share(l.GatherMs, r.GatherMs)
	if l.SampleMs > 0 {
		l.Batch = share(l.SampleMs+l.GatherMs, r.SampleMs+r.GatherMs)
	}
	if d := r.OnDisk; d != nil {
		l.Disk = share(d.Probe.Seconds(d.Requests, d.Bytes), r.Seconds)
	}
}

// printLimit says what shares are reached.
func (r *benchResult) printLimit(t *table) {
	l := r.Limit
	if l == nil {
		return
	}
	label := "limit"
	for _, reads := range l.Reads {
		t.say(label, "%s: %.0f lines a batch in %s; %.1f million/s at random places", reads.What, reads.PerBatch,
			machine.Bytes(reads.Bytes), reads.PerS/1e6)
		label = ""
	}
	if l.Sample > 0 {
		t.say(label, "sampling reaches %.2f of it: %.2f ms would do", l.Sample, l.SampleMs)
		label = ""
	}
	if l.Gather > 0 {
		t.say(label, "gathering reaches %.2f of copying as many bytes: %.2f ms would do", l.Gather, l.GatherMs)
		label = ""
	}
	if l.Disk > 0 {
		t.say(label, "the disk was busy for %.2f of the time, as it was measured", l.Disk)
	}
}

// room is memory to measure with.
type room struct {
	ledger  pinned.Ledger
	regions []*pinned.Region
}

// measuringRoom returns room for measuring, as much as the limits leave.
func (c *benchCmd) measuringRoom(env *environment) *room {
	var m room
	m.ledger.SetLimit(cmp.Or(env.memory.bytes, machine.Probe().Room()/2))
	return &m
}

// take takes memory, and writes to all its pages.
func (m *room) take(n int64) ([]byte, error) {
	r, err := pinned.Allocate(n, pinned.Options{Ledger: &m.ledger, Purpose: pinned.Scratch})
	if err != nil {
		return nil, err
	}
	m.regions = append(m.regions, r)
	r.Touch(r.Len())
	return r.Bytes(), nil
}

// Close gives it back.
func (m *room) Close() (err error) {
	for _, r := range m.regions {
		err = errors.Join(err, r.Close())
	}
	return err
}

// noRoom says that something is not measured, where that is for want of room.
func noRoom(env *environment, what string, err error) error {
	if errors.Is(err, pinned.ErrLimit) {
		env.note("%s: %v", what, err)
		return nil
	}
	return err
}

// measuringTime is how long a round of a measurement of memory takes; tests take less.
var measuringTime = 200 * time.Millisecond

// copySource is how many bytes copies are measured from; tests take less.
var copySource = func(bytes int64) int64 { return rates.CopySource(machine.Probe(), bytes) }

// copyRate measures how fast as many threads copy as many bytes as a batch's rows take, in GB/s. Where the limit has no
// room for that it is left out.
func (c *benchCmd) copyRate(env *environment, r *benchResult) (err error) {
	bytes := int64(r.BytesPerBatch)
	if bytes == 0 {
		return nil
	}
	m := c.measuringRoom(env)
	defer closing(&err, m.Close)
	source, err := m.take(copySource(bytes))
	dst := make([][]byte, r.Workers)
	for i := range dst {
		if err == nil {
			dst[i], err = m.take(bytes)
		}
	}
	if err != nil {
		return noRoom(env, "how fast memory copies is not measured, as by --no-memcpy", err)
	}
	r.MemcpyBytes = m.ledger.Peak()
	rate, err := rates.CopyRate(env.ctx, source, dst, measuringTime)
	r.MemcpyGBPerS = rate / 1e9
	return err
}

// lineRates measures how fast as many threads read lines at random places of as much memory as each array has.
func (c *benchCmd) lineRates(env *environment, r *benchResult) (err error) {
	m := c.measuringRoom(env)
	defer closing(&err, m.Close)
	most := int64(0)
	for _, reads := range r.Limit.Reads {
		most = max(most, reads.Bytes)
	}
	if most == 0 {
		return nil
	}
	source, err := m.take(most)
	if err != nil {
		return noRoom(env, fmt.Sprintf("how fast lines of %s are read is not measured", machine.Bytes(most)), err)
	}
	for i := range r.Limit.Reads {
		reads := &r.Limit.Reads[i]
		of := source[:max(reads.Bytes, machine.Line)]
		if reads.PerS, err = rates.LineRate(env.ctx, of, r.Workers, measuringTime); err != nil {
			return err
		}
	}
	return nil
}

// benchMeters measure what loading costs, from begin on.
type benchMeters struct {
	*meters.Meters
	now *meters.Measurement // nil before begin
}

// openMeters finds the meters of the host, and of the board that a device is ("cuda:0"; "cpu" for none).
func openMeters(on string) (*benchMeters, error) {
	address, err := meters.BusAddress(on)
	if err != nil {
		return nil, err
	}
	return &benchMeters{Meters: meters.Open(address)}, nil
}

// begin begins, or begins again, to measure.
func (m *benchMeters) begin() {
	if m.now != nil {
		m.now.Stop()
	}
	m.now = m.Start()
}

// report returns what loading has cost since begin.
func (m *benchMeters) report() meters.Report { return m.now.Report() }

func (m *benchMeters) close() error {
	if m.now != nil {
		m.now.Stop()
	}
	return m.Close()
}

// energyText says what n batches cost, for people.
func energyText(r *meters.Report, n int) string {
	var parts []string
	if r.BoardJoules != nil {
		text := fmt.Sprintf("board %.1f J, %.3f J a batch", *r.BoardJoules, *r.BoardJoules/float64(n))
		if r.GPUPercent != nil {
			text += fmt.Sprintf(", busy %.0f %%", *r.GPUPercent)
		}
		if r.PCIeReadGBPerS != nil {
			text += fmt.Sprintf(", reads %.1f GB/s over the bus", *r.PCIeReadGBPerS)
		}
		parts = append(parts, text)
	}
	if r.HostJoules != nil {
		parts = append(parts, fmt.Sprintf("host %.1f J (%s)", *r.HostJoules, strings.Join(r.HostDomains, ", ")))
	}
	if len(parts) == 0 {
		return "not measured: " + cmp.Or(r.NotMeasured["board"], r.NotMeasured["host"])
	}
	return strings.Join(parts, "; ")
}
