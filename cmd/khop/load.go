package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/sparse"
)

// loadFlags say what to load and how; commands that load batches share them.
type loadFlags struct {
	Dataset string `arg:"" help:"Dataset: a directory that khop has written."`

	samplerFlags `embed:""`

	Seeds     string   `placeholder:"SEEDS" help:"${seeds_help}"`
	Split     int      `default:"0" help:"Which of several splits of the name."`
	BatchSize positive `default:"1024" help:"Seeds a batch."`
	DropLast  bool     `help:"Leave out the last batch of an epoch where it has fewer seeds."`
	Shuffle   bool     `help:"Take the seeds in another order each epoch."`
	Seed      uint64   `default:"0" help:"Keys every random choice."`
	Instance  uint32   `default:"0" help:"Tells apart loaders that share a seed."`

	linkFlags `embed:""`

	Widen bool `help:"Deliver rows of 16-bit floats and scaled int8 as float32."`

	Prepare sparse.Preparation `placeholder:"WHAT" help:"Make of each block, with commas: transpose, gcn-norm, loops."`

	Workers   int        `default:"0" help:"Goroutines that make batches; 0: one a core."`
	Prefetch  positive   `default:"2" help:"Finished batches that may wait."`
	Device    deviceName `default:"auto" placeholder:"NAME" help:"Where to work: auto, cpu, cuda or cuda:N."`
	Resident  bool       `help:"Copy graph and columns into memory on huge pages first: --residence resident."`
	Verify    bool       `help:"Compare the dataset with its checksums as it is first read."`
	MaxMemory byteSize   `placeholder:"SIZE" help:"The most memory to take, such as 4GB; mapped files do not count."`

	Residence  loader.Residence `enum:"mapped,resident,disk,auto" default:"mapped" help:"${residence_help}"`
	CacheBytes byteSize         `placeholder:"SIZE" help:"Rows that --residence disk keeps; default: half of memory."`
	Lookahead  positive         `default:"64" help:"Batches that --residence disk samples ahead, at most."`
	Pack       byteSize         `placeholder:"SIZE" help:"${pack_help}"`

	DeviceMemory byteSize         `placeholder:"SIZE" help:"The most device memory; default: half of what is free."`
	DeviceCache  *byteSize        `placeholder:"SIZE" help:"${device_cache_help}"`
	HotRows      loader.Ranking   `enum:"${rankings}" default:"in-degree" help:"${hot_rows_help}"`
	HostPages    loader.HostPages `enum:"ladder,measured" default:"ladder" help:"${host_pages_help}"`

	Carry        loader.Carry `enum:"kernels,copies,measured" default:"kernels" help:"${carry_help}"`
	DeviceBlocks int          `default:"0" help:"The most blocks of a kernel; 0: as many as suit it."`
}

// longHelp is help that is too long for a line of a struct.
var longHelp = kong.Vars{
	"fanouts_help": "Neighbours a hop, the first out of the seeds: 15,10,5. -1 takes all, 0 none. By edge type: " +
		"'cites=15,10;writes=5,5;*=5,5'.",
	"seeds_help": "A split (train, val, test), all, all:TYPE, or @FILE with a node id a line; edges: all-edges, " +
		"all-edges:TYPE, or edges@FILE with source, target, label and time a line; timed@FILE with a node and its " +
		"time; each:@FILE, each:timed@FILE read the file anew each epoch; default: train, or all nodes where " +
		"there is no such split.",
	"negatives_help": "Add edges that are not true to seeds that are edges; nodes stand in by which law: none, " +
		"uniform, degree (d^0.75), weight, batch (ends of the batch).",
	"exclude_help": "Edges that a batch leaves out because they are its seeds: none, seeds, or reverse (and their " +
		"reverses).",
	"device_cache_help": "How much of it is for graph and columns; the rest is read over the bus. 0: none; default: " +
		"what batches leave.",
	"host_pages_help": "On which pages of host memory a device reads columns that do not fit: as the ladder says, or " +
		"what gathers faster when loading begins, a file's own pages or a copy on huge pages (measured).",
	"carry_help": "Who brings a device the rows that its memory does not have: kernels, which read them over the " +
		"bus, copies by the CPU and a copy engine, which leave the device to others meanwhile, or what proves faster " +
		"(measured).",
	"residence_help": "Where the dataset lies while it is read: mapped, resident (a copy in memory), disk (columns " +
		"are read past the page cache, as batches to come need them), auto (disk where memory is too small).",
	"pack_help": "Lets --residence disk write rows that batches known ahead need, and the cache has no room for, one " +
		"after another to a temporary file of so many bytes beside the column. Default: none.",
	"hot_share_help": "Where several devices reach each other's memory: keep hot rows on each (none), once among " +
		"them (all), or as copies between them take time (auto).",
	"config_help": "Read options from a JSON object, in a file or - for standard input: {\"batch_size\": 512}. Flags " +
		"win. Errors are then a JSON object, too.",
	"index_dtype_help": "Type of ids where a consumer asks for none: auto, int32 or int64.",
	"rankings":         "in-degree,pagerank,presample,uses,none",
	"hot_rows_help": "Which rows stay in device memory, where a column does not fit: in-degree, pagerank, presample, " +
		"uses (of the epoch before) or none.",
}

// deviceName is the name of a device.
type deviceName string

var deviceNames = regexp.MustCompile(`^(auto|cpu|cuda(:[0-9]{1,4})?(,cuda(:[0-9]{1,4})?)*)$`)

// UnmarshalText checks the name.
func (d *deviceName) UnmarshalText(text []byte) error {
	if !deviceNames.Match(text) {
		return fmt.Errorf("%q must be auto, cpu, cuda or cuda:N", text)
	}
	*d = deviceName(text)
	return nil
}

// positive is a number from 1 to 2^31 - 1.
type positive int

// UnmarshalText reads the number.
func (p *positive) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number from 1 to %d", text, math.MaxInt32)
	}
	*p = positive(n)
	return nil
}

// seeds returns what an epoch goes over; samplers with items of their own are given none.
func (f *loadFlags) seeds(env *environment, src loader.Source) (loader.SeedSource, error) {
	if _, items := sampling.As[sampling.ItemSampler](f.sampler()); items && f.Seeds == "" {
		return loader.SeedSource{}, nil
	}
	return env.seedSource(f.Seeds, f.Split, src)
}

// options returns the loader's options; src has the seeds.
func (f *loadFlags) options(env *environment, src loader.Source) (loader.Options, error) {
	seeds, err := f.seeds(env, src)
	if err != nil {
		return loader.Options{}, err
	}
	limit, err := f.MaxMemory.forData()
	if err != nil {
		return loader.Options{}, err
	}
	limitHeap(limit, true)
	o := loader.Options{
		Sampler: f.sampler(), Seeds: seeds, BatchSize: int(f.BatchSize), Shuffle: f.Shuffle, DropLast: f.DropLast,
		Seed: f.Seed, Instance: f.Instance, Workers: f.Workers,
		Tuning: loader.TuningOptions{Prefetch: int(f.Prefetch), Carry: f.Carry, DeviceBlocks: f.DeviceBlocks,
			HostPages: f.HostPages}, Device: loader.DeviceOptions{Name: string(f.Device),
			Memory: int64(f.DeviceMemory), HotRows: f.HotRows},
		MaxMemory: limit, Verify: f.Verify, Columns: loader.ColumnOptions{Prepare: f.Prepare, Widen: f.Widen},
	}
	if err := f.linkFlags.set(&o); err != nil {
		return loader.Options{}, err
	}
	if f.DeviceCache != nil {
		if o.Device.Cache = int64(*f.DeviceCache); o.Device.Cache == 0 {
			o.Device.Cache = loader.NoDeviceCache
		}
	}
	o.Residence, o.Disk.Lookahead, o.Disk.CacheBytes = f.Residence, int(f.Lookahead), int64(f.CacheBytes)
	o.Disk.PackBytes = int64(f.Pack)
	if f.Resident {
		if f.Residence != loader.Mapped {
			return loader.Options{}, usageError("--resident and --residence %v contradict each other", f.Residence)
		}
		o.Residence = loader.Resident
	}
	return o, nil
}

// loading is a dataset and a loader of it.
type loading struct {
	dataset *formats.Dataset
	*loader.Loader
}

// open opens the dataset and a loader of it, with the flags' options after change has had a look at them. planned, if
// not nil, is told what memory the loader will need before any is taken.
func (f *loadFlags) open(env *environment, change func(*loader.Options), planned func(loader.Estimate)) (*loading,
	error) {
	ds, err := formats.Open(f.Dataset)
	if err != nil {
		return nil, err
	}
	opt, err := f.options(env, ds)
	if err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	change(&opt)
	var why string
	opt.Device.Name, why = loader.ChooseDevice(opt)
	env.note("%s: %s", opt.Device.Name, why)
	if planned != nil {
		memory, err := loader.Plan(env.ctx, ds, opt)
		if err != nil {
			return nil, errors.Join(err, ds.Close())
		}
		planned(memory)
	}
	ld, _, err := watched(env, func(bar *progress) (*loader.Loader, error) {
		opt.Hooks.Progress = bar.report()
		return loader.NewContext(env.ctx, ds, opt)
	})
	if err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	return &loading{ds, ld}, nil
}

// close ends the loader, then the dataset that it reads.
func (l *loading) close() error { return errors.Join(l.Loader.Close(), l.dataset.Close()) }

// work is what a batch holds, counted.
type work struct {
	seeds, nodes, edges int64
	nodesPerHop         []int64 // nodes after 0, 1, ... hops, of all types
	edgesPerHop         []int64 // edges drawn at each hop, of all types
}

// countBatch counts a batch, whose arrays are listed. Of layers that are views of one another it counts what each hop
// has drawn.
func countBatch(arrays []loader.Array, b *loader.Batch) work {
	s := b.Sample
	w := work{edgesPerHop: make([]int64, len(s.Blocks))} // the last layer is the hop out of the seeds
	for _, types := range s.NumNodes {
		n := int64(0)
		for _, k := range types {
			n += k
		}
		w.nodesPerHop = append(w.nodesPerHop, n)
		w.nodes = n
	}
	for i := range arrays {
		a, n := &arrays[i], b.Array(i).Len()
		hop := len(s.Blocks) - 1 - a.Layer
		switch {
		case a.Kind == loader.ArraySeeds && b.Links(0) == nil, a.Kind == loader.ArrayLinkItems:
			w.seeds += n
		case a.Kind == loader.ArrayIndices:
			w.edgesPerHop[hop] += n
			if b.IsView(i) { // the next hop's list begins with it
				w.edgesPerHop[hop+1] -= n
			}
		}
	}
	for _, n := range w.edgesPerHop {
		w.edges += n
	}
	return w
}
