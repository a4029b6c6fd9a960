package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/staged"
)

// Options say where datasets are kept, and how they come. The zero value is the default.
type Options struct {
	// CacheDir is shared by all processes that name it. "": the value of KHOP_CACHE_DIR, else a folder of the user.
	CacheDir string `kind:"path" value:"DIR" help:"..."`
	// CacheSize is the most bytes that it may have; 0: the value of KHOP_CACHE_SIZE, else no bound.
	CacheSize int64 `kind:"size" range:"0," help:"..."`
	// Lazy leaves columns with several numbers a row at the address until a loader reads their rows, a chunk of 64 MiB
	// at a time. Only loaders may read them: any other access faults. When the context of Open ends, so does reading.
	Lazy bool
	// Verify compares what the cache has already with its checksums, and brings again what is damaged there.
	Verify bool
	// Progress receives the stage "stage", in bytes.
	Progress formats.Progress
}

// Open opens a dataset in a directory or at an address. At an address, it downloads the files that the cache does not
// have; the dataset's path is then a folder of the cache. Nothing removes it from there before Close.
//
// Errors are those of formats.Open, and: fs.ErrNotExist and fs.ErrPermission, by the answer of the store;
// formats.ErrChanged for a file that was replaced meanwhile; formats.ErrSpace if the cache, or its disk, has no room;
// context.Cause(ctx).
func Open(ctx context.Context, dataset string, opt Options) (*formats.Dataset, error) {
	if !address.Is(dataset) {
		return formats.Open(dataset)
	}
	at, err := address.Parse(dataset)
	if err != nil {
		return nil, fileError(address.Shown(dataset), "", err)
	}
	cache, err := staged.NewCache(opt.CacheDir, opt.CacheSize)
	if err != nil {
		return nil, err
	}
	d, err := formats.OpenFrom(ctx, &source{opt: opt, at: at, cache: cache, client: ranges.New()})
	if err != nil {
		return nil, explain(at, err)
	}
	return d, nil
}

// IsAddress reports whether a name is an address, and not a file's.
func IsAddress(name string) bool { return address.Is(name) }

// explain gives an error of a store the sentinel and the remedy that it has here.
func explain(at address.Location, err error) error {
	var known *formats.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, ranges.ErrChanged):
		return fileError(at.String(), "open it again", fmt.Errorf("%w: %w", formats.ErrChanged, err))
	case errors.Is(err, staged.ErrRoom):
		return fileError(at.String(), "", fmt.Errorf("%w: %w", formats.ErrSpace, err))
	case errors.Is(err, formats.ErrIncomplete):
		return fileError(at.String(), "name the folder of a dataset", err)
	case errors.Is(err, formats.ErrCorrupt):
		return fileError(at.String(), "see that it was copied whole", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fileError(at.String(), "", err)
}

// fileError is an error about a whole file or dataset.
func fileError(path, remedy string, err error) error {
	return &formats.Error{Path: path, Row: -1, Remedy: remedy, Err: err}
}
