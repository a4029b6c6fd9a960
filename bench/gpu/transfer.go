package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/meters"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

type transferOptions struct {
	dataset   string
	fanouts   string
	batchSize int
	batches   int
	threads   int
	rounds    int
	share     float64
	save      string
}

type transferResult struct {
	machineResult
	Batches      int           `json:"batches"`
	Threads      int           `json:"threads"` // of the CPU-centric ways
	RowBytes     int64         `json:"row_bytes"`
	RowsPerBatch float64       `json:"rows_per_batch"`
	Rung         string        `json:"rung"` // how the device addresses the column
	Ways         []transferWay `json:"ways"`
}

// transferWay is one way to bring the rows of batches to the device. Times are of the wall.
type transferWay struct {
	Way        string        `json:"way"`
	MsPerBatch float64       `json:"ms_per_batch"`
	GBPerS     float64       `json:"gb_per_s"`
	CPUMs      *float64      `json:"cpu_ms_per_batch"`
	HitShare   float64       `json:"hit_share"` // of the rows, found in the cache
	Meters     meters.Report `json:"meters"`
}

// transfer compares ways to bring the rows of sampled batches to the device. With an error it returns the ways before
// it.
func (r *rig) transfer(o transferOptions) (result *transferResult, err error) {
	if o.batches < 1 || o.threads < 1 || o.rounds < 1 || o.share < 0 || o.share > 1 {
		return nil, errors.New("-batches, -threads and -rounds must be 1 or more, -cache from 0 to 1")
	}
	ds, err := formats.Open(o.dataset)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	column, ok := ds.Graph().NodeRole(0, graph.Feature)
	if !ok {
		return nil, fmt.Errorf("%s: no column feature of the first node type", o.dataset)
	}
	t := &transferring{rig: r, o: o, column: column}
	defer func() { err = t.undo.run(err) }()
	if err := t.prepare(ds); err != nil {
		return nil, err
	}
	result = &transferResult{machineResult: r.machine(), Batches: o.batches, Threads: o.threads,
		RowBytes: column.RowBytes(), RowsPerBatch: float64(t.rows) / float64(len(t.batches)),
		Rung: t.attached.Rung().String()}
	energy := meters.Open(r.address())
	defer func() { err = errors.Join(err, energy.Close()) }()
	for _, way := range []struct {
		name string
		run  func() error
	}{
		{"cpu, unpipelined", func() error { return t.cpuCentric(1) }},
		{"cpu, pipelined", func() error { return t.cpuCentric(2) }},
		{"bus", t.overBus},
		{"bus, cached", t.overBus},
	} {
		if way.name == "bus, cached" {
			if err := t.cache(ds); err != nil {
				return result, err
			}
		}
		w, err := t.measure(energy, way.name, way.run)
		if err != nil {
			return result, fmt.Errorf("%s: %w", way.name, err)
		}
		result.Ways = append(result.Ways, w)
	}
	return result, nil
}

// transferring is the batches' ids, on the host and the device, the column as each side reads it, and the result's
// memory.
type transferring struct {
	*rig
	o       transferOptions
	column  unified.Tensor
	batches []batchIDs
	rows    int64 // of all batches

	attached *pinned.Attachment
	store    *cuda.Store
	out      *pinned.Region // on the device: the rows of one batch, twice
	cpu      *gather.Store  // of the column on huge pages, which is the best that the CPU can have
	staged   [2]unified.Buffer
	sent     [2]*device.Event // a half is on the device
	want     uint64           // hash of the last batch's rows
	undo     undo
}

type batchIDs struct {
	host   []int64
	device unified.Tensor
}

// prepare samples the batches and takes all memory.
func (t *transferring) prepare(ds *formats.Dataset) error {
	if err := t.sample(ds); err != nil {
		return err
	}
	most := int64(0)
	for _, b := range t.batches {
		most = max(most, int64(len(b.host)))
	}
	width := t.column.RowBytes()
	var err error
	if t.attached, err = pinned.Attach(t.ctx, t.dev, t.column.Bytes(), pinned.AttachOptions{}); err != nil {
		return err
	}
	t.undo = append(t.undo, t.attached.Close)
	if t.store, err = cuda.NewStore(t.dev, t.column, t.attached.Address()); err != nil {
		return err
	}
	t.undo = append(t.undo, t.store.Close)
	if t.out, err = pinned.Allocate(2*most*width, pinned.Options{Device: t.dev}); err != nil {
		return err
	}
	t.undo = append(t.undo, t.out.Close)
	for half := range t.sent {
		if t.sent[half], err = t.dev.NewEvent(); err != nil {
			return err
		}
		t.undo = append(t.undo, t.sent[half].Close)
	}
	return t.prepareCPU()
}

// prepareCPU takes what threads of the CPU copy rows from, and page-locked memory for the rows of two batches.
func (t *transferring) prepareCPU() error {
	own, resident, err := gather.Resident(t.ctx, t.column, pinned.Options{}, nil)
	if err != nil {
		return err
	}
	t.undo = append(t.undo, resident.Close)
	for half := range t.staged {
		t.staged[half].Options = pinned.Options{Device: t.dev, Place: pinned.Pinned}
		t.undo = append(t.undo, t.staged[half].Close)
	}
	t.cpu, err = gather.NewStore(own)
	return err
}

// loader opens one of batches of nodes alone, which the CPU makes.
func (r *rig) loader(ds *formats.Dataset, fanouts string, batchSize int) (*loader.Loader, error) {
	kind, err := samplers.Named("neighbor")
	if err != nil {
		return nil, err
	}
	sampler, err := kind.Make(given.Values{"fanouts": fanouts, "frontier": "all"})
	if err != nil {
		return nil, err
	}
	return loader.NewContext(r.ctx, ds, loader.Options{
		Sampler:   sampler,
		BatchSize: batchSize, Shuffle: true, Device: loader.DeviceOptions{Name: "cpu"},
		Columns: loader.ColumnOptions{Nodes: []string{}, Seeds: []string{}}})
}

// sample makes the batches on the CPU and keeps their nodes' ids.
func (t *transferring) sample(ds *formats.Dataset) error {
	ld, err := t.loader(ds, t.o.fanouts, t.o.batchSize)
	if err != nil {
		return err
	}
	defer ld.Close()
	for epoch := uint64(0); len(t.batches) < t.o.batches; epoch++ {
		for b, err := range ld.Epoch(t.ctx, epoch) {
			if err != nil {
				return err
			}
			if err := t.keep(b.Sample.Nodes[0]); err != nil {
				return err
			}
			if len(t.batches) == t.o.batches {
				break
			}
		}
	}
	return ld.Close()
}

func (t *transferring) keep(nodes unified.Tensor) error {
	at, err := unified.Integers(nodes)
	if err != nil {
		return err
	}
	ids := make([]int64, nodes.Len())
	for i := range ids {
		ids[i] = at(int64(i))
	}
	placed, err := t.put(&t.undo, unified.FromSlice(ids))
	if err != nil {
		return err
	}
	if t.o.save != "" {
		name := filepath.Join(t.o.save, fmt.Sprintf("batch-%03d.i64", len(t.batches)))
		if err := os.WriteFile(name, unified.FromSlice(ids).Bytes(), 0o644); err != nil {
			return err
		}
	}
	t.batches = append(t.batches, batchIDs{ids, placed})
	t.rows += int64(len(ids))
	return nil
}

// cache puts the most wanted rows into device memory: by in-degree, as a loader does by default.
func (t *transferring) cache(ds *formats.Dataset) error {
	degrees := cuda.InDegree(ds.Graph().Indptr())[:t.column.Len()]
	return t.store.Cache(t.ctx, cuda.Hottest(degrees, int64(t.o.share*float64(t.column.Len()))), pinned.Options{})
}

// measure runs a way over all batches, once to warm up and o.rounds times that count.
func (t *transferring) measure(energy *meters.Meters, name string, run func() error) (w transferWay, err error) {
	if err := run(); err != nil {
		return w, err
	}
	if err := t.check(); err != nil {
		return w, err
	}
	before, err := t.store.Traffic()
	if err != nil {
		return w, err
	}
	m := energy.Start()
	for range t.o.rounds {
		if err == nil {
			err = run()
		}
	}
	report := m.Stop()
	if err != nil {
		return w, err
	}
	after, err := t.store.Traffic()
	n := float64(t.o.rounds * len(t.batches))
	w = transferWay{Way: name, Meters: report, MsPerBatch: report.Seconds / n * 1e3,
		GBPerS: float64(int64(t.o.rounds)*t.rows*t.column.RowBytes()) / report.Seconds / 1e9}
	if report.CPUSeconds != nil {
		ms := *report.CPUSeconds / n * 1e3
		w.CPUMs = &ms
	}
	w.HitShare = float64(after.Hits-before.Hits) / float64(max(after.Rows-before.Rows, 1))
	return w, err
}

// check compares the rows of the last batch, which every way leaves in the same place, with those of the way before.
func (t *transferring) check() error {
	last := len(t.batches) - 1
	rows := make([]byte, int64(len(t.batches[last].host))*t.column.RowBytes())
	if err := t.stream.CopyToHost(rows, t.half(last%2)); err != nil {
		return err
	}
	if err := t.stream.Synchronize(); err != nil {
		return err
	}
	t.want = cmp.Or(t.want, xxh3.Hash(rows))
	if xxh3.Hash(rows) != t.want {
		return errors.New("the rows of the last batch are not those of the first way")
	}
	return t.stream.Fill32(t.half(last%2), 0xDEADBEEF, int64(len(rows))/4) // so that the next way has to write them
}

// half returns where the rows of a batch go.
func (t *transferring) half(i int) device.Address {
	return t.out.Address() + device.Address(int64(i)*int64(len(t.out.Bytes()))/2)
}

// cpuCentric copies the rows of each batch to page-locked memory by threads of the CPU, then to the device by the copy
// engine. With depth 2 the threads fill one half while the other is on its way.
func (t *transferring) cpuCentric(depth int) error {
	for i, b := range t.batches {
		half := i % 2
		if depth == 2 {
			if err := t.sent[half].Synchronize(); err != nil {
				return err
			}
		}
		rows, err := t.cpu.Gather(&t.staged[half], unified.FromSlice(b.host), t.o.threads)
		if err != nil {
			return err
		}
		if err := t.stream.CopyToDevice(t.half(half), rows.Bytes()); err != nil {
			return err
		}
		if err := t.stream.Record(t.sent[half]); err != nil {
			return err
		}
		if depth == 1 {
			if err := t.stream.Synchronize(); err != nil {
				return err
			}
		}
	}
	return t.stream.Synchronize()
}

// overBus lets the device read the rows itself.
func (t *transferring) overBus() error {
	width := t.column.RowBytes()
	for i, b := range t.batches {
		half := t.out.Bytes()[i%2*len(t.out.Bytes())/2:]
		out, err := unified.NewPlaced(pinned.Device, t.column.DType(), half[:int64(len(b.host))*width],
			int64(len(b.host)), t.column.Width())
		if err != nil {
			return err
		}
		if err := t.store.EnqueueInto(t.stream, out, b.device, 0); err != nil {
			return err
		}
	}
	if err := t.stream.Synchronize(); err != nil {
		return err
	}
	return t.store.Err()
}
