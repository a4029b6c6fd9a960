package remote

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/staged"
)

// source is a dataset at an address, which comes to an entry of the cache.
type source struct {
	opt    Options
	at     address.Location
	cache  staged.Cache
	client *ranges.Client

	text     []byte // of the manifest
	manifest *formats.Manifest
	files    []formats.File
	entry    *staged.Entry
	partial  *partial
}

var _ formats.Source = (*source)(nil)

// Manifest implements formats.Source.
func (s *source) Manifest(ctx context.Context, most int64) (text []byte, err error) {
	s.text, err = s.client.Object(s.at.Join(staged.Manifest), -1).ReadAll(ctx, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no %s: %w", formats.ErrIncomplete, staged.Manifest, err)
	}
	return s.text, err
}

// Stage implements formats.Source: it brings what the cache does not have of the files that must be whole, and the
// heads of the others.
func (s *source) Stage(ctx context.Context, m *formats.Manifest, files []formats.File) (dir string, err error) {
	s.manifest, s.files = m, files
	if s.entry, err = staged.Open(ctx, s.cache, s.staged()); err != nil {
		return "", err
	}
	if s.opt.Verify {
		if err := s.entry.Verify(ctx); err != nil {
			return "", err
		}
	}
	if err := s.entry.Whole(ctx, s.wholeFiles(), s.report); err != nil {
		return "", err
	}
	return s.entry.Dir(), s.entry.Heads(ctx)
}

func (s *source) report(done, total int64) {
	if s.opt.Progress != nil {
		s.opt.Progress("stage", done, total)
	}
}

// staged describes the dataset to the cache. The key is of contents and place: another place that says it has the same
// dataset is not believed.
func (s *source) staged() staged.Dataset {
	object := func(i int) *ranges.Object {
		return s.client.Object(s.at.Join(s.files[i].Path), s.files[i].FileBytes)
	}
	d := staged.Dataset{Object: object, Source: s.at.String(), Manifest: s.text, Chunk: s.manifest.ChunkBytes,
		Sums: func(i int) (uint64, []uint64, error) { return s.files[i].Sums() }}
	key := sha256.Sum256(append([]byte(s.at.String()+"\x00"), s.text...))
	d.Key = fmt.Sprintf("%x-%x", s.manifest.ID[:8], key[:8])
	for _, f := range s.files {
		d.Files = append(d.Files, staged.File{Path: f.Path, Bytes: f.FileBytes, Body: f.BodyOffset, Size: f.Bytes})
	}
	return d
}

// wholeFiles returns the files that must be there when a dataset is opened, by their numbers: all, or those that cannot
// come late.
func (s *source) wholeFiles() (list []int) {
	for i := range s.files {
		if !s.opt.Lazy || !s.canBeLate(i) {
			list = append(list, i)
		}
	}
	return list
}

// Stop implements formats.Source.
func (s *source) Stop() {
	if s.partial != nil {
		s.partial.end()
		s.partial.along.Wait()
	}
}

// Close implements formats.Source.
func (s *source) Close() error {
	if s.entry == nil {
		return nil
	}
	return s.entry.Close()
}
