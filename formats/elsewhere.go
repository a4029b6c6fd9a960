package formats

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"github.com/khop-gnn/khop/formats/internal/staged"
	"github.com/khop-gnn/khop/internal/ranges"
)

// Elsewhere says how to open datasets in an object store or on a server, by an address in place of a directory:
// s3://BUCKET/PATH, gs://BUCKET/PATH, https://SERVER/PATH, hf://datasets/OWNER/NAME@REVISION/PATH. They are downloaded
// to a cache, a folder of this machine, and opened there. The zero value is the default. docs/machines.md has more.
type Elsewhere struct {
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
	Progress Progress
}

// Open opens a dataset in a directory or at an address. At an address, it downloads the files that the cache does not
// have; the dataset's path is then a folder of the cache. Nothing removes it from there before Close.
//
// Errors are those of the function Open, and: fs.ErrNotExist and fs.ErrPermission, by the answer of the store;
// ErrChanged for a file that was replaced meanwhile; ErrSpace if the cache, or its disk, has no room;
// context.Cause(ctx).
func (e Elsewhere) Open(ctx context.Context, dataset string) (*Dataset, error) {
	if !ranges.Is(dataset) {
		return openDir(dataset)
	}
	at, err := ranges.Parse(dataset)
	if err != nil {
		return nil, fileError(hideSecrets(dataset), "", err)
	}
	cache, err := staged.NewCache(e.CacheDir, e.CacheSize)
	if err != nil {
		return nil, err
	}
	d, err := e.bring(ctx, at, cache)
	if err != nil {
		return nil, elsewhereError(at, err)
	}
	return d, nil
}

// bring brings a dataset to the cache, and opens it there.
func (e *Elsewhere) bring(ctx context.Context, at ranges.Location, cache staged.Cache) (d *Dataset, err error) {
	client := newClient()
	text, err := client.Object(at.Join(manifestName), -1).ReadAll(ctx, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s: %w", ErrIncomplete, manifestName, err)
	}
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, err
	}
	of := m.staged(text, client, at)
	entry, err := staged.Open(ctx, cache, of)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, entry.Close())
		}
	}()
	if e.Verify {
		if err := entry.Verify(ctx); err != nil {
			return nil, err
		}
	}
	if err := entry.Whole(ctx, m.wholeFiles(e.Lazy), e.report()); err != nil {
		return nil, err
	}
	if err := entry.Heads(ctx); err != nil {
		return nil, err
	}
	if d, err = openDir(entry.Dir()); err != nil {
		return nil, err
	}
	if err := d.partly(ctx, entry); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.source, d.entry = at, entry
	return d, nil
}

func (e *Elsewhere) report() func(done, total int64) {
	return func(done, total int64) {
		if e.Progress != nil {
			e.Progress("stage", done, total)
		}
	}
}

// staged describes a dataset to the cache. The key is of contents and place: another place that says it has the same
// dataset is not believed.
func (m *Manifest) staged(text []byte, c *ranges.Client, at ranges.Location) staged.Dataset {
	files := m.files()
	object := func(i int) *ranges.Object { return c.Object(at.Join(files[i].part.Path), files[i].part.FileBytes) }
	d := staged.Dataset{Object: object, Source: at.String(), Manifest: text, Chunk: m.ChunkBytes,
		Sums: func(i int) (uint64, []uint64, error) {
			head, err := parseHash(files[i].part.HeadXXH3)
			if err != nil {
				return 0, nil, err
			}
			sums, err := files[i].part.sums(m.ChunkBytes)
			return head, sums, err
		}}
	key := sha256.Sum256(append([]byte(at.String()+"\x00"), text...))
	d.Key = fmt.Sprintf("%x-%x", m.ID[:8], key[:8])
	for _, f := range files {
		d.Files = append(d.Files, staged.File{Path: f.part.Path, Bytes: f.part.FileBytes, Body: f.part.BodyOffset,
			Size: f.part.Bytes})
	}
	return d
}

// elsewhereError gives an error of a store the sentinel and the remedy that it has here.
func elsewhereError(at ranges.Location, err error) error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, ranges.ErrChanged):
		return fileError(at.String(), "open it again", fmt.Errorf("%w: %w", ErrChanged, err))
	case errors.Is(err, staged.ErrRoom):
		return fileError(at.String(), "", fmt.Errorf("%w: %w", ErrSpace, err))
	case errors.Is(err, ErrIncomplete):
		return fileError(at.String(), "name the folder of a dataset", err)
	case errors.Is(err, ErrCorrupt):
		return fileError(at.String(), "see that it was copied whole", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fileError(at.String(), "", err)
}

// hideSecrets returns what of an address may be shown that cannot be one.
func hideSecrets(address string) string {
	for i := range address {
		if i > 8 && address[i] == '/' || address[i] == '@' || address[i] == '?' {
			return address[:min(i, 8)] + "..."
		}
	}
	return address
}

// newClient is a variable for tests only.
var newClient = ranges.New
