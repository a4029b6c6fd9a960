package loader

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/sparse"
)

// Source is what batches are loaded from: a *graph.Graph in memory, a dataset of package formats, or one of yours. It
// must stay open and unchanged while the loader is in use.
//
// A source may have more methods: Path() string, which names it in errors; Remedy() string, which says what to do where
// its arrays turn out to be damaged; Unchanged() error, which is asked when an epoch begins; and those of Verifier.
type Source interface {
	// ID identifies the contents: equal ids mean equal graphs.
	ID() [16]byte
	// Graph returns the graph, the same at each call.
	Graph() *graph.Graph
	// Split returns a named set of seeds; an error that wraps graph.ErrNoSplit if there is none.
	Split(name string, index int) (graph.Seeds, error)
}

// Remainder says what happens where the batches of an epoch do not divide by the number of ranks.
type Remainder uint8

const (
	// Pad gives every rank the same number of batches: ranks that run short repeat batches of the epoch, flagged
	// Padded.
	Pad Remainder = iota
	// Drop leaves out the last, incomplete round.
	Drop
	// Short gives the last ranks a batch less, as evaluation wants it.
	Short
)

var remainders = []string{"pad", "drop", "short"}

// String returns the name on the command line.
func (r Remainder) String() string { return enum.Name(remainders, r) }

// Residence says where the dataset lies while it is read.
type Residence uint8

const (
	// Mapped reads the source's own memory: for a dataset its mapped files, through the page cache.
	Mapped Residence = iota
	// Resident copies topology and the columns in use once, in New, into memory on huge pages.
	Resident
	// Disk reads rows of columns from their files, past the page cache, into a cache of CacheBytes. It samples ahead by
	// Lookahead batches, and so keeps the rows that are needed soonest. A topology of files that CacheBytes has no room
	// for is read page by page, those of a hop together; else topology, and columns that lie in no file, are read as
	// with Mapped. With a device the topology stays on disk only where neither Device.Cache nor the host's memory
	// beyond CacheBytes has room for it; then the CPU samples. For a device rows are read to page-locked memory, from
	// where a copy engine moves them; columns that CacheBytes has room for as a whole are read as with Mapped.
	Disk
	// Auto is Disk where graph and columns in use do not fit in the available memory, else Mapped.
	Auto
)

var residences = []string{"mapped", "resident", "disk", "auto"}

// String returns the name on the command line.
func (r Residence) String() string { return enum.Name(residences, r) }

// NoDeviceCache is the Options.DeviceCache with which all of the source is read over the bus.
const NoDeviceCache = -1

// Ranking says which rows of a column are kept in device memory, where the column does not fit as a whole.
type Ranking uint8

const (
	// RankInDegree keeps the rows of the nodes with most in-edges, which costs no pass over the edges.
	RankInDegree Ranking = iota
	// RankPageRank keeps the rows that a walk from the seeds along in-edges visits most (gather.PageRank).
	RankPageRank
	// RankPresample keeps the rows that batches of epoch 0 ask for most, of which New samples some (Yang et al.,
	// "GNNLab", EuroSys 2022).
	RankPresample
	// RankUses begins as RankPresample does, and before each epoch keeps the rows that were gathered most in the one
	// before. It costs 4 bytes of device memory a row.
	RankUses
	// RankNone keeps none.
	RankNone
)

var rankings = []string{"in-degree", "pagerank", "presample", "uses", "none"}

// String returns the name on the command line.
func (r Ranking) String() string { return enum.Name(rankings, r) }

// Carry says who brings a device the rows of columns that do not lie in its memory.
type Carry uint8

const (
	// CarryKernels lets kernels read the rows over the bus, where they lie in host memory: no CPU thread copies one
	// (PyTorch-Direct). While they wait for the bus they hold multiprocessors, and without MPS, where another process
	// trains, all of the device.
	CarryKernels Carry = iota
	// CarryCopies lets threads of the CPU copy the rows to page-locked memory, from where a copy engine moves them.
	// Kernels of another process go on meanwhile. The columns are not page-locked, and of their rows the device keeps
	// none.
	CarryCopies
	// CarryMeasured times both for each column on some batches in New, and takes what is faster there. It cannot see
	// who else uses the device. PlaceAll takes CarryKernels in its place where Device names several.
	CarryMeasured
)

var carries = []string{"kernels", "copies", "measured"}

// String returns the name on the command line.
func (c Carry) String() string { return enum.Name(carries, c) }

// Options say what to load and how. The zero value of every field but Sampler is its default.
//
// Only Sampler, Seeds, BatchSize, Shuffle, DropLast, TimeOrder, SameTime, Seed, Instance and Links decide what is in a
// batch. Rank, WorldSize and Remainder decide which batches this loader yields; the rest decides how fast, and what
// comes along.
//
// The tags say the rest of what the command line, Python and the documents know of an option: its name there, its
// default, its range and a sentence of help. Package internal/option reads them; nobody repeats them.
type Options struct {
	// Sampler makes the batches; required.
	Sampler sampling.Sampler
	// Seeds are what an epoch goes over. Some samplers have items of their own (sampling.Items): Seeds must be the
	// zero value then, and BatchSize is not looked at. Default: the split "train" of index 0, and where there is none
	// all nodes.
	Seeds SeedSource
	// BatchSize is the seeds of a batch; the last may have fewer.
	BatchSize int `default:"1024" range:"1,1073741824" help:"Seeds a batch."`
	// DropLast leaves out the last batch if it has fewer seeds than the others.
	DropLast bool `help:"Leave out the last batch of an epoch where it has fewer seeds."`
	// Shuffle takes the seeds in another random order each epoch instead of the order given.
	Shuffle bool `help:"Take the seeds in another order each epoch."`
	// TimeOrder takes the seeds in the order of their times, those of one time in the order given.
	TimeOrder bool `help:"Take the seeds in the order of their times."`
	// SameTime is the width of a time window: no batch has seeds of two windows. One of them begins at time 0. 1 means
	// seeds of the same time; 86,400, where times are in seconds, seeds of the same day. A batch has BatchSize of them
	// at most; DropLast leaves out those that have fewer. They come in the order of their times. With Shuffle batches
	// do not, nor the seeds of a window among its batches. Default 0: batches are of any times.
	SameTime int64 `default:"0" range:"0," help:"Width of the time window that a batch's seeds share; 0: any times."`
	// Seed keys every random choice.
	Seed uint64 `default:"0" help:"Keys every random choice."`
	// Instance tells apart loaders that share a seed and must not repeat each other: training 0, validation 1.
	Instance uint32 `default:"0" help:"Tells apart loaders that share a seed."`

	// Rank and WorldSize share an epoch among processes: rank r yields batches r, r+WorldSize, ... What is in a batch
	// does not depend on them. Default 0 of 1.
	Rank      int `of:"sample" default:"0" help:"This process among --world-size."`
	WorldSize int `of:"sample" default:"1" range:"1,1073741824" help:"Ranks, each with an equal share of batches."`
	// Remainder says what happens where the batches do not divide by WorldSize. Default Pad.
	Remainder Remainder `of:"serve,sample" default:"pad" help:"..."`

	// Columns say what comes with a batch beside its topology.
	Columns ColumnOptions
	// Links belong to seeds that are edges.
	Links LinkOptions

	// Workers are the goroutines that sample and gather. Default: all cores; on a device, where they mostly wait, 2;
	// for a topology on disk, which some wait for, twice the cores and two more, as far as memory has room for them.
	Workers int `default:"0" range:"1,4096" help:"Goroutines that make batches; 0: one a core."`
	// Residence says where the dataset lies while it is read. Default Mapped.
	Residence Residence `default:"mapped" short:"resident" help:"..."`
	// RowsFrom is where rows of columns come from that this machine has not: node columns of several numbers a row, of
	// servers of integrations/flight at grpc://HOST:PORT,.. or grpc+tls://HOST:PORT,.. Its program khop-rows asks them:
	// the one that the environment's KHOP_ROWS names, else the one in PATH. Rows come ahead of their batches, and
	// Disk.CacheBytes of them are kept. The source needs the columns' shapes alone: their files may be sparse. Verify
	// does not look at them. Default: all rows are here.
	RowsFrom string `value:"ADDRESS" empty:"here" help:"..."`
	// Verify compares the source's chunks with their checksums as they are first read: the topology, and columns that
	// are copied or read by a device, in New; other columns as a batch first reads a row of a chunk. A chunk that does
	// not fit is an error, in the place of the batch that would have read it. ErrOptions for a source that is no
	// Verifier. Default: checksums are not looked at.
	Verify bool `help:"Compare the dataset with its checksums as it is first read."`
	// MaxMemory is the most anonymous memory that the loader takes, in bytes: copies of the dataset, slots and scratch,
	// not mapped files. It is kept by having fewer slots and workers, down to one; New fails with ErrMemory where that
	// does not suffice. Default: no limit.
	MaxMemory int64 `kind:"size" range:"0," help:"..."`

	// Disk belongs to Residence Disk and Auto, and to RowsFrom.
	Disk DiskOptions
	// Device says where batches are made and lie.
	Device DeviceOptions
	// Tuning is what few people need.
	Tuning TuningOptions
	// Hooks are what the caller gives, and what the loader calls back.
	Hooks Hooks
}

// ColumnOptions say what comes with a batch beside its topology.
type ColumnOptions struct {
	// Nodes are gathered for all nodes of a batch, Seeds for its distinct seeds, Edges for its edges. nil means
	// "feature" and "label" where the graph has them, and no edge column; an empty slice means none.
	Nodes []string `name:"node-columns" of:"serve" value:"NAMES" empty:"none" help:"..."`
	Seeds []string `name:"seed-columns" of:"serve" value:"NAMES" empty:"none" help:"..."`
	Edges []string `name:"edge-columns" of:"serve" value:"NAMES" empty:"none" help:"..."`
	// EdgePos delivers the edges' positions in the dataset with each block; Edges imply it.
	EdgePos bool `of:"serve" help:"Deliver the edges' positions in the dataset."`
	// Widen delivers rows that are stored narrow as another type: float32, float16 or bfloat16, or "column=float16" for
	// those of one column. Stored narrow are floats of 16 bits, int8 with the column NAME_scale beside, and coded rows
	// (graph.Code), all of which a conversion makes. Default: rows are delivered as they are stored.
	Widen []string `value:"[COLUMN=]DTYPE" empty:"no" help:"..."`
	// Prepare makes transposes and norms of the blocks in the pipeline, which batches then have as arrays, whose names
	// docs/loader.md has. Only the CPU makes them. Default: none.
	Prepare sparse.Preparation `range:"0,7" value:"WHAT" help:"..."`
}

// LinkOptions belong to seeds that are edges.
type LinkOptions struct {
	// Label and Time name columns of the edges, integers, with the labels and times of seeds that are edges of the
	// graph (AllEdges); for others they are an error. Labels are 1 without.
	Label string `name:"link-label" empty:"none" value:"COLUMN" help:"Column with labels of edges as seeds."`
	Time  string `name:"link-time" empty:"none" value:"COLUMN" help:"Column with times of edges as seeds."`
	// Negatives are added to the batch's edges, with label 0. Default: none.
	Negatives sampling.Negatives
	// ExcludeSeeds says which edges batches leave out because they are seeds. Default: none.
	ExcludeSeeds Exclusion `default:"none" help:"..."`
}

// DiskOptions belong to Residence Disk and Auto, and to RowsFrom.
type DiskOptions struct {
	// CacheBytes is how many bytes of rows are kept in memory: columns as a whole where they are small, and of others
	// the rows that are needed soonest. What planning takes comes on top. Of a topology on disk the loader assumes that
	// as many bytes are in the page cache. Default: half of MaxMemory, or of what is available.
	CacheBytes int64 `kind:"size" range:"0," help:"Rows that --residence disk keeps; default: half of memory."`
	// Lookahead is the most batches that are sampled ahead; fewer where their ids would take more than an eighth of
	// CacheBytes, and 8 MiB.
	Lookahead int `default:"64" range:"1,16384" help:"Batches that --residence disk samples ahead, at most."`
	// PackBytes lets the loader write rows that batches known ahead need, and the cache has no room for, to temporary
	// files of PackBytes bytes beside the columns, where they lie one after another for each batch. It does so where
	// the disk reads them faster then, and there is room. Ids of batches known ahead may then take as much as
	// CacheBytes, and 64 MiB: choose Lookahead large. Default: it does not.
	PackBytes int64 `name:"pack" kind:"size" range:"0," help:"..."`
}

// DeviceOptions say where batches are made and lie.
type DeviceOptions struct {
	// Name is "cpu", "cuda" (the first device), "cuda:1", or "auto": the first device where there is one and Sampler
	// runs on it, else the CPU. Batches are the same, byte for byte.
	Name string `name:"device" default:"auto" value:"NAME" help:"Where to work: auto, cpu, cuda or cuda:N."`
	// Memory is the most device memory that the loader takes, in bytes. Default: half of what is free on the device
	// when New is called.
	Memory int64 `name:"device-memory" kind:"size" range:"0," help:"..."`
	// Cache is how much of it is for the source, in bytes: first the graph, then whole columns, the smallest first,
	// then the rows that HotRows expects to be read most. What does not fit is read over the bus. Default: what slots
	// and scratch leave, and at least half; NoDeviceCache for none.
	Cache int64 `name:"device-cache" kind:"size" zero:"-1" range:"-1," help:"..."`
	// HotRows ranks the rows of columns that do not fit in Memory as a whole. Default RankInDegree.
	HotRows Ranking `default:"in-degree" help:"..."`
}

// TuningOptions are what few people need: nobody's hardware has asked for other values yet.
type TuningOptions struct {
	// Prefetch is how many finished batches may wait for the loop.
	Prefetch int `default:"2" range:"1,4096" help:"Finished batches that may wait."`
	// SlotTimeout is how long to wait for a release when all slots hold kept batches. Default 60 s.
	SlotTimeout time.Duration `default:"60s" range:"1,"`
	// HostPages says on which pages of host memory a device reads columns that do not fit in Device.Cache as a whole.
	// Default PagesByLadder.
	HostPages HostPages `default:"ladder" help:"..."`
	// Carry says who brings the device the rows of columns that do not fit in Device.Cache as a whole. Default
	// CarryKernels.
	Carry Carry `default:"kernels" help:"..."`
	// HotShare says how the devices of PlaceAll keep hot rows, where they reach each other's memory. Default ShareAuto.
	HotShare Sharing `of:"serve" default:"auto" help:"..."`
	// DeviceBlocks is the most blocks of 256 threads that a kernel of this loader has, which leaves the other
	// multiprocessors to training. Default: 40 for rows that are gathered over the bus, else 8 a multiprocessor.
	DeviceBlocks int `default:"0" range:"0,1048576" help:"The most blocks of a kernel; 0: as many as suit it."`
	// Trace is a file that Close writes: what workers and loop did when, as a Chrome trace, which Perfetto opens. The
	// last 32,768 events of each of them stay, 56 bytes each. Loaders of one process share a file. Default: none.
	Trace string `of:"serve,bench" kind:"path" value:"FILE" help:"..."`
}

// Hooks are what the caller gives, and what the loader calls back. Only Go has them.
type Hooks struct {
	// Logger hears of decisions and of the end of each epoch; nil is silent.
	Logger *slog.Logger
	// Progress receives how far a stage of New is, in bytes: "topology" and "columns" (Resident) or "read ahead"
	// (Mapped), then "slots"; and "prepare", in units of its own, where the sampler or negatives look at the whole
	// graph first. One goroutine at a time calls it; nil for none.
	Progress func(stage string, done, total int64)
	// Made is called by the worker that has made a batch, before the loop gets it, for several batches at a time; nil
	// for none. It may read the batch until it returns. An error takes the batch's place.
	Made func(*Batch) error
	// RowMemory gives the memory that columns are gathered into, which the loader only ever writes; nil takes it from
	// the system. On a device it gives all device memory of the slots, ids among it, which the loader reads as well.
	RowMemory pinned.Provider
	// Tier brings the rows of columns, of all or of those that it chooses (tier.Chooser), in place of Residence and of
	// the options of devices. It is for one placed source; nil for none.
	Tier tier.Tier
	// Remote brings rows as RowsFrom does, in a program of one's own: it is for one placed source, and takes the place
	// of RowsFrom; nil for none.
	Remote tier.Remote
	// PerSlot is how many bytes the caller keeps for each slot beside it, as the feed keeps copies of ids: MaxMemory
	// leaves room for them.
	PerSlot int64 `range:"0,"`
}

// EnsureDefaults replaces zero values by their defaults and returns o. What depends on the source (Seeds, columns)
// stays.
func (o *Options) EnsureDefaults() *Options {
	option.Fill(o)
	if o.Workers == 0 {
		o.Workers = machine.Workers()
	}
	o.prepare()
	return o
}

// Validate returns an error that wraps ErrOptions for options that make no sense whatever the source. It expects
// defaults to be in place.
func (o *Options) Validate() error {
	if o.Sampler == nil {
		return option.Errorf(ErrOptions, o, "Sampler", " is not set")
	}
	if err := option.Check(ErrOptions, o); err != nil {
		return err
	}
	if o.Rank < 0 || o.Rank >= o.WorldSize {
		return option.Errorf(ErrOptions, o, "Rank", " is %d: must be 0 to %d", o.Rank, o.WorldSize-1)
	}
	_, err := ParseDevice(o.Device.Name)
	return err
}

func (o *Options) progress(stage string, done, total int64) {
	if o.Hooks.Progress != nil {
		o.Hooks.Progress(stage, done, total)
	}
}

func (o *Options) log() *slog.Logger {
	if o.Hooks.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Hooks.Logger
}

// HostPages says on which pages of host memory a device reads columns that its memory does not have.
type HostPages uint8

const (
	// PagesByLadder takes the best rung of the ladder, which is the file's own pages wherever the driver registers
	// them: a copy reads all of the column first, and takes as much memory again.
	PagesByLadder HostPages = iota
	// PagesMeasured gathers random rows of a part of each column in New, from the file's own pages and from a copy on
	// huge pages, and copies the column where that is faster by more than a tenth and memory allows it. Columns below
	// 64 MiB, and those that another placed source of the process has attached, are taken as PagesByLadder does.
	PagesMeasured
)

var hostPages = []string{"ladder", "measured"}

// String returns the name on the command line.
func (p HostPages) String() string { return enum.Name(hostPages, p) }

// Sharing says how devices that reach each other's memory keep hot rows.
type Sharing uint8

const (
	// ShareAuto keeps as many of the hottest rows on each device, and deals as many of the next among them, as
	// should take least time by what copies between the devices and from the host took when they were placed.
	ShareAuto Sharing = iota
	// ShareNone keeps the same rows on each device.
	ShareNone
	// ShareAll keeps each row on one device alone, where the others read it. Devices that reach no other are an error.
	ShareAll
)

var sharings = []string{"auto", "none", "all"}

// String returns the name on the command line.
func (s Sharing) String() string { return enum.Name(sharings, s) }

// String returns the options as the JSON object that "khop serve --config" reads, with keys in order: the sampler by
// its name, and every option that is not zero. Seeds and Hooks are left out, as is a sampler that khop does not have.
// SlotTimeout, Rank and WorldSize are no options of its: leave them zero for it.
func (o Options) String() string {
	d := option.Document(o, option.Of(o))
	s := unwrapped(o.Sampler)
	if kind := samplers.Of(s); kind != nil {
		d["sampler"] = kind.Name
		maps.Copy(d, option.Document(s, kind.Options()))
	}
	text, err := json.Marshal(d)
	if err != nil { // not a number: no loader takes it
		return fmt.Sprintf(`{"error": %q}`, err)
	}
	return string(text)
}

// unwrapped returns the sampler under all that was added to one.
func unwrapped(s sampling.Sampler) sampling.Sampler {
	for w, wraps := s.(sampling.Wrapper); wraps; w, wraps = s.(sampling.Wrapper) {
		s = w.Unwrap()
	}
	return s
}

// ParseOptions is the inverse of String. Options that the text does not have are the zero value. It returns ErrOptions
// for a text that String does not write, and for a sampler that has more than options: a Cluster with a partition.
func ParseOptions(text string) (o Options, err error) {
	var d map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return Options{}, fmt.Errorf("%w: options are not a JSON object: %w", ErrOptions, err)
	}
	if named, ok := d["sampler"]; ok {
		name, _ := option.Say(named).(string)
		kind, err := samplers.Named(name)
		if err != nil {
			return Options{}, fmt.Errorf("%w: sampler: %w", ErrOptions, err)
		}
		delete(d, "sampler")
		if o.Sampler, err = kind.Take(d); err != nil {
			return Options{}, fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	if err := option.SetDocument(&o, option.Of(o), d); err != nil {
		return Options{}, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return o, nil
}
