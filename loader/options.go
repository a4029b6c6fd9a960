package loader

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader/internal/prepared"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// Source is what batches are loaded from: a *graph.Graph in memory, a dataset of package formats, or your own type. It
// must stay open and unchanged while the loader is in use.
//
// A source may have more methods: Path() string, which names it in errors; Remedy() string, which says what to do if
// its arrays are damaged; Unchanged() error, which is called when an epoch begins; and those of Verifier.
type Source interface {
	// ID identifies the contents: equal ids mean equal graphs.
	ID() [16]byte
	// Graph returns the graph, the same at each call.
	Graph() *graph.Graph
	// Split returns a named set of seeds; an error that wraps graph.ErrNoSplit if there is none.
	Split(name string, index int) (graph.Seeds, error)
}

// Remainder says what happens if the batches of an epoch do not divide by the number of ranks.
type Remainder uint8

const (
	// Pad gives every rank the same number of batches: ranks with too few repeat batches of the epoch, flagged Padded.
	Pad Remainder = iota
	// Drop leaves out the last, incomplete round.
	Drop
	// Short gives the last ranks one batch less, as evaluation needs.
	Short
)

var remainders = []string{"pad", "drop", "short"}

// String returns the name on the command line.
func (r Remainder) String() string { return enum.Name(remainders, r) }

// SeedTimes says what becomes of the times of seeds.
type SeedTimes uint8

const (
	// ReadTimes refuses seeds with times for a sampler that does not look at them: rows later than a seed would be in
	// its batch.
	ReadTimes SeedTimes = iota
	// IgnoreTimes lets such a sampler load rows of any time. Batches still have the times of their seeds.
	IgnoreTimes
)

var seedTimes = []string{"read", "ignore"}

// String returns the name on the command line.
func (t SeedTimes) String() string { return enum.Name(seedTimes, t) }

// Residence says where the dataset is while it is read.
type Residence uint8

const (
	// Mapped reads the source's own memory: for a dataset its mapped files, through the page cache.
	Mapped Residence = iota
	// Resident copies topology and the columns in use once, in New, into memory on huge pages.
	Resident
	// Disk reads rows of columns from their files, past the page cache, into a cache of CacheBytes. It samples
	// Lookahead batches ahead, and so keeps the rows that are needed soonest. A topology in files for which CacheBytes
	// has no room is read by pages, those of a hop together; otherwise topology, and columns that are not in files, are
	// read as with Mapped. With a device the topology stays on disk only if neither Device.Cache nor the host's memory
	// beyond CacheBytes has room for it; then the CPU samples. For a device rows are read to page-locked memory, from
	// where a copy engine moves them; columns that fit in CacheBytes as a whole are read as with Mapped.
	Disk
	// Auto is Disk if graph and columns in use do not fit in the available memory, else Mapped.
	Auto
)

var residences = []string{"mapped", "resident", "disk", "auto"}

// String returns the name on the command line.
func (r Residence) String() string { return enum.Name(residences, r) }

// NoDeviceCache is the DeviceOptions.Cache that reads all of the source over the bus.
const NoDeviceCache = -1

// Ranking says which rows of a column are kept in device memory, if the whole column does not fit.
type Ranking uint8

const (
	// RankInDegree keeps the rows of the nodes with most in-edges, which costs no pass over the edges.
	RankInDegree Ranking = iota
	// RankPageRank keeps the rows that a walk from the seeds along in-edges visits most (cuda.PageRank).
	RankPageRank
	// RankPresample keeps the rows that batches of epoch 0 need most; New samples some of them (Yang et al.,
	// "GNNLab", EuroSys 2022).
	RankPresample
	// RankUses begins as RankPresample does, and before each epoch keeps the rows that the last epoch gathered most. It
	// costs 4 bytes of device memory a row.
	RankUses
	// RankNone keeps no rows.
	RankNone
)

var rankings = []string{"in-degree", "pagerank", "presample", "uses", "none"}

// String returns the name on the command line.
func (r Ranking) String() string { return enum.Name(rankings, r) }

// Carry says how a device gets the rows of columns that are not in its memory.
type Carry uint8

const (
	// CarryKernels lets kernels read the rows in host memory over the bus: no CPU thread copies a row (PyTorch-Direct).
	// While kernels wait for the bus they occupy multiprocessors; if another process trains without MPS, the whole
	// device.
	CarryKernels Carry = iota
	// CarryCopies lets threads of the CPU copy the rows to page-locked memory, from where a copy engine moves them.
	// Kernels of another process run meanwhile. The columns are not page-locked, and the device keeps none of their
	// rows.
	CarryCopies
	// CarryMeasured times both for each column on some batches in New, and takes the faster one. It does not know which
	// other processes use the device. PlaceAll takes CarryKernels instead if Device names several.
	CarryMeasured
)

var carries = []string{"kernels", "copies", "measured"}

// String returns the name on the command line.
func (c Carry) String() string { return enum.Name(carries, c) }

// Options say what to load and how. The zero value of every field but Sampler is its default.
//
// Only Sampler, Seeds, BatchSize, Shuffle, DropLast, TimeOrder, SameTime, Seed, Instance and Links decide the contents
// of a batch. Rank, WorldSize and Remainder decide which batches this loader yields. The other options decide speed,
// and what a batch has besides.
//
// The tags have the other facts of an option for the command line, Python and the documents: its name, its default, its
// range and a sentence of help. Package internal/option reads them.
type Options struct {
	// Sampler makes the batches; required.
	Sampler sampling.Sampler
	// Seeds are what an epoch goes over. Some samplers have items of their own (sampling.Items): Seeds must then be the
	// zero value, and BatchSize is ignored. Default: the split "train" of index 0, or all nodes if there is no such
	// split.
	Seeds SeedSource
	// BatchSize is the seeds of a batch; the last may have fewer.
	BatchSize int `default:"1024" range:"1,1073741824" help:"Seeds per batch."`
	// DropLast leaves out the last batch if it has fewer seeds than the others.
	DropLast bool `help:"Leave out a last batch with fewer seeds."`
	// Shuffle takes the seeds in another random order each epoch instead of the order given.
	Shuffle bool `help:"Take the seeds in a new random order each epoch."`
	// Times says what becomes of the times of seeds for a sampler that does not look at them. Default ReadTimes: an
	// error.
	Times SeedTimes `default:"read" help:"..."`
	// TimeOrder takes the seeds in the order of their times, those of one time in the order given.
	TimeOrder bool `help:"Take the seeds in the order of their times."`
	// SameTime is the width of a time window: no batch has seeds of two windows. One of them begins at time 0. 1 means
	// seeds of the same time; 86,400, where times are in seconds, seeds of the same day. A batch has BatchSize of them
	// at most; DropLast leaves out those that have fewer. They come in the order of their times. With Shuffle batches
	// do not, nor the seeds of a window among its batches. Default 0: batches are of any times.
	SameTime int64 `default:"0" range:"0," help:"Time span that a batch's seeds share, such as 86400 seconds; 0: any."`
	// Seed keys every random choice.
	Seed uint64 `default:"0" help:"Key of every random choice."`
	// Instance distinguishes loaders that share a seed and must not make the same draws: training 0, validation 1.
	Instance uint32 `default:"0" help:"Number that tells apart loaders with the same --seed."`

	// Rank and WorldSize share an epoch among processes: rank r yields batches r, r+WorldSize, ... The contents of a
	// batch do not depend on them. Default 0 of 1.
	Rank      int `of:"sample" default:"0" help:"Rank of this process; without it the launcher's, if any."`
	WorldSize int `of:"sample" default:"1" range:"1,1073741824" help:"..."`
	// Remainder says what happens if the batches do not divide by WorldSize. Default Pad.
	Remainder Remainder `of:"serve,sample" default:"pad" help:"..."`

	// Columns say what a batch has besides its topology.
	Columns ColumnOptions
	// Links belong to seeds that are edges.
	Links LinkOptions

	// Workers are the goroutines that sample and gather. Default: one a core; on a device, where they mostly wait, 2;
	// for a topology on disk, for which some wait, twice the cores and two more, if memory has room for them.
	Workers int `default:"0" range:"1,4096" help:"Goroutines that make batches; 0: one per core, 2 on a device."`
	// Residence says where the dataset is while it is read. Default Mapped.
	Residence Residence `default:"mapped" short:"resident" help:"..."`
	// Verify compares the source's chunks with their checksums as they are first read: the topology, and columns that
	// are copied or read by a device, in New; other columns when a batch first reads a row of a chunk. A chunk that
	// does not fit is an error, in place of the batch that would have read it. ErrOptions for a source that is not a
	// Verifier. Default: no checksums are compared.
	Verify bool `help:"Compare the dataset with its checksums when it is first read."`
	// MaxMemory is the most anonymous memory that the loader takes, in bytes: copies of the dataset, slots and scratch,
	// not mapped files. To keep the limit the loader has fewer slots and workers, down to one; if that does not
	// suffice, New fails with ErrMemory. Default: no limit.
	MaxMemory int64 `kind:"size" range:"0," help:"..."`

	// Disk belongs to Residence Disk and Auto, and to Hooks.Remote.
	Disk DiskOptions
	// Device says where batches are made and stored.
	Device DeviceOptions
	// Tuning has options that few users need.
	Tuning TuningOptions
	// Hooks are what the caller gives, and what the loader calls back.
	Hooks Hooks
}

// ColumnOptions say what a batch has besides its topology.
type ColumnOptions struct {
	// Nodes are gathered for all nodes of a batch, Seeds for its distinct seeds, Edges for its edges. nil means
	// "feature" and "label", if the graph has them, and no edge column; an empty slice means none.
	Nodes []string `name:"node-columns" of:"serve" value:"NAMES" empty:"none" help:"..."`
	Seeds []string `name:"seed-columns" of:"serve" value:"NAMES" empty:"none" help:"..."`
	Edges []string `name:"edge-columns" of:"serve" value:"NAMES" empty:"none" help:"..."`
	// EdgePos delivers the edges' positions in the dataset with each block; Edges imply it.
	EdgePos bool `of:"serve" help:"Deliver the positions of edges in the dataset."`
	// Widen delivers rows that are stored in a narrow type as another type: float32, float16 or bfloat16, or
	// "column=float16" for one column. Narrow types are floats of 16 bits, int8 with a column NAME_scale, and coded
	// rows (graph.Code); a conversion makes all of them. Default: rows are delivered as they are stored.
	Widen []string `value:"[COLUMN=]DTYPE" empty:"no" help:"..."`
	// Prepare makes transposes and norms of the blocks in the pipeline. Batches have them as arrays, whose names are in
	// docs/loader.md. Only the CPU makes them. Default: none.
	Prepare Preparation `range:"0,7" value:"WHAT" help:"..."`
}

// LinkOptions belong to seeds that are edges.
type LinkOptions struct {
	// Label and Time name columns of the edges, integers, with the labels and times of seeds that are edges of the
	// graph (AllEdges); for others they are an error. Without Label all labels are 1.
	Label string `name:"link-label" empty:"none" value:"COLUMN" help:"..."`
	Time  string `name:"link-time" empty:"none" value:"COLUMN" help:"Edge column of times for --seeds all-edges."`
	// Negatives are added to the batch's edges, with label 0. Default: none.
	Negatives sampling.Negatives
	// ExcludeSeeds says which edges batches leave out because they are seeds. Default: none.
	ExcludeSeeds Exclusion `default:"none" help:"..."`
}

// DiskOptions belong to Residence Disk and Auto, and to Hooks.Remote.
type DiskOptions struct {
	// CacheBytes is how many bytes of rows are kept in memory: whole columns if they are small, and for others the rows
	// that are needed soonest. Planning takes more memory. For a topology on disk the loader assumes that as many bytes
	// are in the page cache. Default: half of MaxMemory, or of the available memory.
	CacheBytes int64 `kind:"size" range:"0," help:"..."`
	// Lookahead is the most batches that are sampled ahead; fewer if their ids would take more than an eighth of
	// CacheBytes, and 8 MiB.
	Lookahead int `default:"64" range:"1,16384" help:"The most batches that --residence disk samples ahead."`
	// PackBytes lets the loader write rows that future batches need, and for which the cache has no room, to temporary
	// files of PackBytes bytes beside the columns, one after another for each batch. It does so if the disk reads them
	// faster then, and has room. Ids of future batches may then take as much as CacheBytes, and 64 MiB: choose a large
	// Lookahead. Default: no packing.
	PackBytes int64 `name:"pack" kind:"size" range:"0," help:"..."`
}

// DeviceOptions say where batches are made and stored.
type DeviceOptions struct {
	// Name is "cpu", "cuda" (the first device), "cuda:1", or "auto": the first device, if there is one and Sampler runs
	// on it, else the CPU. Batches are the same, byte for byte.
	Name string `name:"device" default:"auto" value:"NAME" help:"Where to make batches: auto, cpu, cuda or cuda:N."`
	// Memory is the most device memory that the loader takes, in bytes. Default: half of the free memory of the device
	// when New is called.
	Memory int64 `name:"device-memory" kind:"size" range:"0," help:"..."`
	// Cache is how many bytes of it are for the source: first the graph, then whole columns, the smallest first, then
	// the rows that HotRows expects to be read most. The rest is read over the bus. Default: the memory that slots and
	// scratch leave, and at least half; NoDeviceCache means none.
	Cache int64 `name:"device-cache" kind:"size" zero:"-1" range:"-1," help:"..."`
	// HotRows ranks the rows of columns that do not fit in Memory as a whole. Default RankInDegree.
	HotRows Ranking `default:"in-degree" help:"..."`
}

// TuningOptions are options that few users need: no hardware is known yet on which other values are better.
type TuningOptions struct {
	// Prefetch is the most finished batches that wait for the loop.
	Prefetch int `default:"2" range:"1,4096" help:"Finished batches that may wait for the consumer."`
	// SlotTimeout is how long to wait for a release when all slots hold kept batches. Default 60 s.
	SlotTimeout time.Duration `default:"60s" range:"1,"`
	// HostPages says from which pages of host memory a device reads columns that do not fit in Device.Cache as a whole.
	// Default PagesByLadder.
	HostPages HostPages `default:"ladder" help:"..."`
	// Carry says how the device gets the rows of columns that do not fit in Device.Cache as a whole. Default
	// CarryKernels.
	Carry Carry `default:"kernels" help:"..."`
	// HotShare says how the devices of PlaceAll keep hot rows, if they reach each other's memory. Default ShareAuto.
	HotShare Sharing `of:"serve" default:"auto" help:"..."`
	// DeviceBlocks is the most blocks of 256 threads of a kernel of this loader; training has the other
	// multiprocessors. Default: 40 for rows that are gathered over the bus, else 8 a multiprocessor.
	DeviceBlocks int `default:"0" range:"0,1048576" help:"..."`
	// Trace is a file that Close writes: a timeline of workers and loop, as a Chrome trace, which Perfetto opens. It
	// has the last 32,768 events of each of them, 56 bytes each. Loaders of one process share a file. Default: none.
	Trace string `of:"serve,bench" kind:"path" value:"FILE" help:"..."`
}

// Hooks are what the caller gives, and what the loader calls back. Only Go has them.
type Hooks struct {
	// Logger gets decisions and the end of each epoch; nil is silent.
	Logger *slog.Logger
	// Progress receives how far a stage of New is, in bytes: "topology" and "columns" (Resident) or "read ahead"
	// (Mapped), then "slots"; and "prepare", in units of its own, where the sampler or negatives look at the whole
	// graph first. One goroutine at a time calls it; nil for none.
	Progress func(stage string, done, total int64)
	// Made is called by the worker that has made a batch, before the loop gets it, for several batches at the same
	// time; nil for none. It may read the batch until it returns. The loop gets its error in place of the batch.
	Made func(*Batch) error
	// RowMemory provides the memory into which columns are gathered, and which the loader never reads; nil takes it
	// from the system. On a device it provides all device memory of the slots, including ids, which the loader also
	// reads.
	RowMemory pinned.Provider
	// Tier brings the rows of all columns, or of those that it chooses (tier.Chooser), in place of Residence and of the
	// options of devices. It is for one placed source; nil for none.
	Tier tier.Tier
	// Remote brings rows that this machine does not have: of columns that it chooses (Has). They come ahead of their
	// batches, and Disk.CacheBytes of them are kept. The source needs only the columns' shapes: their files may be
	// sparse. Verify ignores these columns. It is for one placed source; nil: this machine has all rows.
	Remote tier.Remote
	// Trace opens the file of Tuning.Trace: trace.Open, of package loader/trace, which loaders do not link otherwise.
	Trace func(ctx context.Context, path string) (io.Closer, error)
	// PerSlot is how many bytes the caller keeps for each slot, such as the feed's copies of ids: MaxMemory leaves room
	// for them.
	PerSlot int64 `range:"0,"`
	// Soon has New return without a trial where batches are small, on the CPU: all slots take at most 4 MiB. They then
	// take memory as batches need it, and Estimate.Expected is a bound.
	Soon bool
}

// EnsureDefaults replaces zero values by their defaults and returns o. Defaults that depend on the source (Seeds,
// columns) are not set.
func (o *Options) EnsureDefaults() *Options {
	option.Fill(o)
	if o.Workers == 0 {
		o.Workers = machine.Workers()
	}
	return o
}

// Validate returns an error that wraps ErrOptions for options that are invalid for every source. Set defaults first
// (EnsureDefaults).
func (o *Options) Validate() error {
	if o.Sampler == nil {
		return refuse("Sampler", " is not set")
	}
	if err := option.Check(ErrOptions, o); err != nil {
		return err
	}
	if o.Rank < 0 || o.Rank >= o.WorldSize {
		return refuse("Rank", " is %d: must be 0 to %d", o.Rank, o.WorldSize-1)
	}
	_, err := ParseDevice(o.Device.Name)
	return err
}

func (h *Hooks) progress(stage string, done, total int64) {
	if h.Progress != nil {
		h.Progress(stage, done, total)
	}
}

func (h *Hooks) log() *slog.Logger {
	if h.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return h.Logger
}

// HostPages says from which pages of host memory a device reads columns that are not in its memory.
type HostPages uint8

const (
	// PagesByLadder takes the best rung of the ladder: the file's own pages, if the driver registers them. A copy would
	// first read the whole column, and take as much memory again.
	PagesByLadder HostPages = iota
	// PagesMeasured gathers random rows of a part of each column in New, from the file's own pages and from a copy on
	// huge pages, and copies the column if that is faster by more than a tenth and memory suffices. For columns below
	// 64 MiB, and those that another placed source of the process has attached, it does as PagesByLadder.
	PagesMeasured
)

var hostPages = []string{"ladder", "measured"}

// String returns the name on the command line.
func (p HostPages) String() string { return enum.Name(hostPages, p) }

// Sharing says how devices that reach each other's memory keep hot rows.
type Sharing uint8

const (
	// ShareAuto keeps some of the hottest rows on each device, and divides the next ones among the devices. It chooses
	// the numbers that should take least time, by the measured times of copies between the devices and from the host.
	ShareAuto Sharing = iota
	// ShareNone keeps the same rows on each device.
	ShareNone
	// ShareAll keeps each row on only one device, where the others read it. A device that does not reach the others is
	// an error.
	ShareAll
)

var sharings = []string{"auto", "none", "all"}

// String returns the name on the command line.
func (s Sharing) String() string { return enum.Name(sharings, s) }

// Preparation says what a loader computes for each block in its pipeline: ColumnOptions.Prepare. Its text is the names
// of its bits with commas: "transpose", "gcn-norm", "loops". sparse.Prepared makes a matrix of what is prepared.
type Preparation = prepared.Preparation

const (
	// Transpose is the block's transpose: for each source its destinations, ascending, and the edges that lead there.
	Transpose = prepared.Transpose
	// GCNNorm is a value for each edge: 1/sqrt(degree of its destination x degree of its source), both in the block.
	GCNNorm = prepared.GCNNorm
	// Loops is the block with an edge from each destination to itself, last in each row that has none, as GCN and GAT
	// need it. Transposes and norms are then of this block. Edges must be between nodes of one type.
	Loops = prepared.Loops
)
