package loader

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/enum"
	"github.com/khop-gnn/khop/internal/machine"
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

// UnmarshalText is the inverse of String.
func (r *Remainder) UnmarshalText(text []byte) error {
	return enum.Parse(ErrOptions, "remainder", remainders, text, r)
}

// Residence says where the dataset lies while it is read.
type Residence uint8

const (
	// Mapped reads the source's own memory: for a dataset its mapped files, through the page cache.
	Mapped Residence = iota
	// Resident copies topology and the columns in use once, in New, into memory on huge pages.
	Resident
	// Disk reads rows of columns from their files, past the page cache, into a cache of CacheBytes. It samples ahead by
	// Lookahead batches, and so keeps the rows that are needed soonest. A topology of files that CacheBytes has no
	// room for is read page by page, those of a hop together; else topology, and columns that lie in no file, are read
	// as with Mapped. For a device rows are read to page-locked memory, from where a copy engine moves them;
	// columns that CacheBytes has room for as a whole are read as with Mapped.
	Disk
	// Auto is Disk where graph and columns in use do not fit in the available memory, else Mapped.
	Auto
)

var residences = []string{"mapped", "resident", "disk", "auto"}

// String returns the name on the command line.
func (r Residence) String() string { return enum.Name(residences, r) }

// UnmarshalText is the inverse of String.
func (r *Residence) UnmarshalText(text []byte) error {
	return enum.Parse(ErrOptions, "residence", residences, text, r)
}

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

// UnmarshalText is the inverse of String.
func (r *Ranking) UnmarshalText(text []byte) error {
	return enum.Parse(ErrOptions, "ranking", rankings, text, r)
}

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

// UnmarshalText is the inverse of String.
func (c *Carry) UnmarshalText(text []byte) error {
	return enum.Parse(ErrOptions, "carry", carries, text, c)
}

// Options say what to load and how. The zero value of every field but Sampler is its default.
//
// Only Sampler, Seeds, BatchSize, Shuffle, DropLast, Seed, Instance and what belongs to links decide what is in a
// batch. Rank, WorldSize and Remainder decide which batches this loader yields; the rest decides how fast, and what
// comes along.
type Options struct {
	// Sampler makes the batches; required.
	Sampler sampling.Sampler
	// Seeds are what an epoch goes over. A sampling.ItemSampler has items of its own: Seeds must be the zero value
	// then, and BatchSize is not looked at. Default: the split "train" of index 0, and where there is none all nodes.
	Seeds SeedSource
	// BatchSize is the seeds of a batch; the last may have fewer. Default 1024.
	BatchSize int
	// Shuffle takes the seeds in another random order each epoch instead of the order given.
	Shuffle bool
	// DropLast leaves out the last batch if it has fewer seeds than the others.
	DropLast bool
	// Seed keys every random choice.
	Seed uint64
	// Instance tells apart loaders that share a seed and must not repeat each other: training 0, validation 1.
	Instance uint32

	// Of seeds that are edges: LinkLabel and LinkTime name columns of the edges, integers, with the labels and times of
	// seeds that are edges of the graph (AllEdges); for others they are an error. Labels are 1 without.
	LinkLabel, LinkTime string
	// Negatives are added to the batch's edges, with label 0. Default: none.
	Negatives sampling.Negatives
	// ExcludeSeeds says which edges batches leave out because they are seeds. Default: none.
	ExcludeSeeds Exclusion

	// Rank and WorldSize share an epoch among processes: rank r yields batches r, r+WorldSize, ... What is in a batch
	// does not depend on them. Default 0 of 1.
	Rank, WorldSize int
	// Remainder says what happens where the batches do not divide by WorldSize. Default Pad.
	Remainder Remainder

	// Workers are the goroutines that sample and gather. Default: all cores; on a device, where they mostly wait, 2;
	// for a topology on disk, which some wait for, twice the cores and two more, as far as memory has room for them.
	Workers int
	// Prefetch is how many finished batches may wait for the loop. Default 2.
	Prefetch int

	// NodeColumns are gathered for all nodes of a batch, SeedColumns for its distinct seeds, EdgeColumns for its edges.
	// nil means "feature" and "label" where the graph has them, and no edge column; an empty slice means none.
	NodeColumns, SeedColumns, EdgeColumns []string
	// Widen delivers rows of float16, of bfloat16, and of int8 with the column NAME_scale beside, which a conversion
	// makes, as float32. Only the CPU does so. Default: rows are delivered as they are stored.
	Widen bool
	// EdgePos delivers the edges' positions in the dataset with each block; EdgeColumns imply it.
	EdgePos bool

	// Prepare makes transposes and norms of the blocks in the pipeline, which batches then have as arrays, whose names
	// docs/loader.md has. Only the CPU makes them. Default: none.
	Prepare sparse.Preparation
	// Residence says where the dataset lies while it is read. Default Mapped.
	Residence Residence
	// CacheBytes is how many bytes of rows Disk keeps in memory: columns as a whole where they are small, and of others
	// the rows that are needed soonest. What planning takes comes on top. As many bytes of a topology on disk are taken
	// to be in the page cache. Default: half of MaxMemory, or of what is available.
	CacheBytes int64
	// Lookahead is the most batches that Disk samples ahead; fewer where their ids would take more than a quarter of
	// CacheBytes, and 16 MiB. Default 64.
	Lookahead int
	// PackBytes lets Disk write rows that batches known ahead need, and the cache has no room for, to temporary files
	// of so many bytes beside the columns, where they lie one after another for each batch. It does so where the disk
	// reads them faster then, and there is room. Ids of batches known ahead may then take as much as CacheBytes.
	// Default: it does not.
	PackBytes int64
	// Verify compares the source's chunks with their checksums as they are first read: the topology, and columns that
	// are copied or read by a device, in New; other columns as a batch first reads a row of a chunk. A chunk that does
	// not fit is an error, in the place of the batch that would have read it. ErrOptions for a source that is no
	// Verifier. Default: checksums are not looked at.
	Verify bool
	// MaxMemory is the most anonymous memory that the loader takes, in bytes: copies of the dataset, slots and scratch,
	// not mapped files. It is kept by having fewer slots and workers, down to one; New fails with ErrMemory where that
	// does not suffice. Default: no limit.
	MaxMemory int64
	// PerSlot is how many bytes the caller keeps for each slot beside it, as the feed keeps copies of ids: MaxMemory
	// leaves room for them.
	PerSlot int64
	// RowMemory gives the memory that columns are gathered into, which the loader only ever writes; nil takes it from
	// the system. On a device it gives all device memory of the slots, ids among it, which the loader reads as well.
	RowMemory pinned.Provider
	// Made is called by the worker that has made a batch, before the loop gets it, for several batches at a time; nil
	// for none. It may read the batch until it returns. An error takes the batch's place.
	Made func(*Batch) error
	// Device is where batches are made and lie: "cpu", "cuda" (the first device), "cuda:1", or "auto" (the default):
	// the first device where there is one and Sampler runs on it, else the CPU. Batches are the same, byte for byte.
	Device string
	// DeviceMemory is the most device memory that the loader takes, in bytes. Default: half of what is free on the
	// device when New is called.
	DeviceMemory int64
	// DeviceCache is how much of it is for the source, in bytes: first the graph, then whole columns, the smallest
	// first, then the rows that HotRows expects to be read most. What does not fit is read over the bus. Default: what
	// slots and scratch leave, and at least half; NoDeviceCache for none.
	DeviceCache int64
	// HostPages says on which pages of host memory a device reads columns that do not fit in DeviceCache as a whole.
	// Default PagesByLadder.
	HostPages HostPages
	// Carry says who brings the device the rows of columns that do not fit in DeviceCache as a whole. Default
	// CarryKernels.
	Carry Carry
	// HotRows ranks the rows of columns that do not fit in DeviceMemory as a whole. Default RankInDegree.
	HotRows Ranking
	// HotShare says how the devices of PlaceAll keep hot rows, where they reach each other's memory. Default ShareAuto.
	HotShare Sharing
	// DeviceBlocks is the most blocks of 256 threads that a kernel of this loader has, which leaves the other
	// multiprocessors to training. Default: 40 for rows that are gathered over the bus, else 8 a multiprocessor.
	DeviceBlocks int

	// Logger hears of decisions and of the end of each epoch; nil is silent.
	Logger *slog.Logger
	// Progress is told how far a stage of New is, in bytes: "topology" and "columns" (Resident) or "read ahead"
	// (Mapped), then "slots"; and "prepare", in units of its own, where the sampler or negatives look at the whole
	// graph first. One goroutine at a time calls it; nil for none.
	Progress func(stage string, done, total int64)
	// SlotTimeout is how long to wait for a release when all slots hold kept batches. Default 60 s.
	SlotTimeout time.Duration
}

// EnsureDefaults replaces zero values by their defaults and returns o. What depends on the source (Seeds, columns)
// stays.
func (o *Options) EnsureDefaults() *Options {
	setDefault(&o.BatchSize, 1024)
	setDefault(&o.WorldSize, 1)
	setDefault(&o.Workers, machine.Workers())
	setDefault(&o.Prefetch, 2)
	setDefault(&o.Lookahead, 64)
	setDefault(&o.Device, "auto")
	setDefault(&o.SlotTimeout, 60*time.Second)
	o.prepare()
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns an error that wraps ErrOptions for options that make no sense whatever the source. It expects
// defaults to be in place.
func (o *Options) Validate() error {
	if o.Sampler == nil {
		return fmt.Errorf("%w: Sampler is not set", ErrOptions)
	}
	for _, f := range []struct {
		name    string
		v, most int64
		least   int64
	}{
		{"BatchSize", int64(o.BatchSize), 1 << 30, 1},
		{"WorldSize", int64(o.WorldSize), 1 << 30, 1},
		{"Rank", int64(o.Rank), int64(o.WorldSize) - 1, 0},
		{"Workers", int64(o.Workers), 1 << 12, 1},
		{"Prefetch", int64(o.Prefetch), 1 << 12, 1},
		{"Remainder", int64(o.Remainder), int64(Short), 0},
		{"Residence", int64(o.Residence), int64(Auto), 0},
		{"CacheBytes", o.CacheBytes, 1<<63 - 1, 0},
		{"Lookahead", int64(o.Lookahead), diskio.MaxLookahead, 1},
		{"PackBytes", o.PackBytes, 1<<63 - 1, 0},
		{"Prepare", int64(o.Prepare), int64(sparse.Transpose | sparse.GCNNorm | sparse.Loops), 0},
		{"MaxMemory", o.MaxMemory, 1<<63 - 1, 0},
		{"PerSlot", o.PerSlot, 1<<63 - 1, 0},
		{"DeviceMemory", o.DeviceMemory, 1<<63 - 1, 0},
		{"DeviceCache", o.DeviceCache, 1<<63 - 1, NoDeviceCache},
		{"ExcludeSeeds", int64(o.ExcludeSeeds), int64(ExcludeReverse), 0},
		{"HostPages", int64(o.HostPages), int64(PagesMeasured), 0},
		{"Carry", int64(o.Carry), int64(CarryMeasured), 0},
		{"HotRows", int64(o.HotRows), int64(RankNone), 0},
		{"HotShare", int64(o.HotShare), int64(ShareAll), 0},
		{"DeviceBlocks", int64(o.DeviceBlocks), 1 << 20, 0},
		{"SlotTimeout", int64(o.SlotTimeout), 1<<63 - 1, 1},
	} {
		if f.v < f.least || f.v > f.most {
			return fmt.Errorf("%w: %s is %d: must be %d to %d", ErrOptions, f.name, f.v, f.least, f.most)
		}
	}
	_, err := ParseDevice(o.Device)
	return err
}

func (o *Options) progress(stage string, done, total int64) {
	if o.Progress != nil {
		o.Progress(stage, done, total)
	}
}

func (o *Options) log() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}
