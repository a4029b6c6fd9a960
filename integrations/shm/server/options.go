package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

// Options are the options of a server. Path and Loader.Sampler are required; the zero value of every other field is its
// default.
type Options struct {
	// Path is where the socket is made. Its directory must be accessible only to the user; the server makes it if it
	// does not exist.
	Path string `name:"socket" kind:"path" required:"true" value:"PATH" help:"..."`
	// Loader says what to load and how. Rank, WorldSize, RowMemory, PerSlot and Made are the server's to set; Hold
	// raises Prefetch. Device "cuda:0,cuda:1" names several, which ranks use in turn. Each device reads one copy of
	// graph and columns for all its ranks. Batches of a device stay there for consumers that take them there; others
	// get copies on the host. MaxMemory is for all ranks together, with their rings and copies of ids, and DeviceMemory
	// for all ranks of a device.
	Loader loader.Options `of:"-"`
	// WorldSize is the number of ranks, each with an equal share of the batches.
	WorldSize int `same:"world-size"`
	// Ranks are the ranks of this server: with several machines each has a server for its own ranks. Each rank has a
	// ring and a loader, and the workers are divided among them. Default: all.
	Ranks []int `of:"serve" kind:"list" value:"RANK" help:"..."`
	// Readers, if above 0, makes one ring that this number of consumers read: all get the same batches. WorldSize must
	// then be 1.
	Readers int `name:"broadcast" of:"serve" default:"0" help:"..."`
	// Hold is how many batches a consumer may hold at a time, including announced ones. Default: as many as 64 MiB have
	// room for, but 4 to 12. A consumer that shares its processors with the workers gets a processor only after a time
	// slice of some milliseconds. If that is as long as several batches take, a smaller Hold would leave the workers
	// idle.
	Hold int `default:"0" help:"Batches that a consumer may hold; 0: 4 to 12, as 64 MiB allow."`
	// ReaderTimeout is how long the readers of a broadcast ring wait for one of them. Then its connection ends, and
	// until it is back the others continue without it. It must be less than consumers wait for a batch; below 0 means
	// no limit.
	ReaderTimeout time.Duration `of:"serve" default:"50s" zero:"-1ns" help:"..."`
	// IndexDType is the dtype of ids for consumers that request none: Int32 or Int64. Default: that of the dataset.
	IndexDType unified.DType `name:"index-dtype" choices:"int32,int64" default:"auto" empty:"auto" help:"..."`
	// Epochs, if above 0, is how many epochs there are; Serve returns when all ranks have acknowledged the last.
	Epochs uint64 `of:"serve" default:"0" help:"Epochs to offer before the server ends; 0: no end."`
	// MaxConsumers is how many consumers may be connected at a time.
	MaxConsumers int `of:"serve" default:"64" help:"The most consumers connected at a time."`
	// StateFile, if set, keeps the place of every rank, so that another server can continue where this one was killed.
	StateFile string `name:"state" of:"serve" kind:"path" value:"FILE" help:"..."`
	// Version is the program's, for consumers to report.
	Version string
	// Logger gets connects and disconnects of consumers, and decisions; nil is silent.
	Logger *slog.Logger
}

// ensureDefaults replaces zero values by their defaults, but that of Hold, and returns o.
func (o *Options) ensureDefaults() *Options {
	o.Loader.EnsureDefaults()
	o.WorldSize = max(o.WorldSize, 1)
	if len(o.Ranks) == 0 && o.WorldSize <= wire.MaxSlots {
		for n := range o.WorldSize {
			o.Ranks = append(o.Ranks, n)
		}
	}
	option.Fill(o)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate returns an error that wraps shm.ErrOptions for options that make no sense. It expects defaults to be in
// place.
func (o *Options) validate() error {
	switch {
	case o.Path == "":
		return fmt.Errorf("%w: no path for the socket", shm.ErrOptions)
	case o.WorldSize > wire.MaxSlots:
		return fmt.Errorf("%w: WorldSize is %d: must be at most %d", shm.ErrOptions, o.WorldSize, wire.MaxSlots)
	case !o.ranksAreSome():
		return fmt.Errorf("%w: Ranks is %v: must be some of 0 to %d, each once", shm.ErrOptions, o.Ranks, o.WorldSize-1)
	case strings.Count(o.Loader.Device.Name, ",") >= len(o.Ranks):
		return fmt.Errorf("%w: Loader.Device is %s: more devices than the %d ranks", shm.ErrOptions,
			o.Loader.Device.Name, len(o.Ranks))
	case o.Hold < 0 || o.Hold > 1<<12:
		return fmt.Errorf("%w: Hold is %d: must be 1 to 4096, or 0 for the default", shm.ErrOptions, o.Hold)
	case o.MaxConsumers < 1:
		return fmt.Errorf("%w: MaxConsumers is %d: must be 1 or more", shm.ErrOptions, o.MaxConsumers)
	case o.Readers < 0 || o.Readers > o.MaxConsumers:
		return fmt.Errorf("%w: Readers is %d: must be 0 to MaxConsumers, %d", shm.ErrOptions, o.Readers, o.MaxConsumers)
	case o.Readers > 0 && o.WorldSize > 1:
		return fmt.Errorf("%w: a broadcast ring has one rank: WorldSize is %d", shm.ErrOptions, o.WorldSize)
	case o.IndexDType != unified.Invalid && o.IndexDType != unified.Int32 && o.IndexDType != unified.Int64:
		return fmt.Errorf("%w: IndexDType is %v: must be int32 or int64", shm.ErrOptions, o.IndexDType)
	}
	return nil
}

// ranksAreSome reports whether Ranks are some of the world's.
func (o *Options) ranksAreSome() bool {
	sorted := slices.Sorted(slices.Values(o.Ranks))
	return sorted[0] >= 0 && sorted[len(sorted)-1] < o.WorldSize && len(slices.Compact(sorted)) == len(o.Ranks)
}

const (
	leastHold = 4
	mostHold  = 12
	holdBytes = 64 << 20
)

// defaultHold is Options.Hold for batches of a loader. It samples a few to learn how large they are.
func defaultHold(ctx context.Context, src loader.Source, opt loader.Options) (int, error) {
	e, err := loader.Plan(ctx, src, opt)
	if err != nil {
		return 0, err
	}
	batch := (e.Expected.Batches + e.Device.Batches) / int64(e.Slots)
	return int(min(max(holdBytes/max(batch, 1), leastHold), mostHold)), nil
}
