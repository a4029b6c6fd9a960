package formats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/transaction"
)

// defaultScrubRate is how many bytes a second Check reads at most with CheckOptions.Scrub.
const defaultScrubRate = 100e6

// scrubBlock is how much is read at a time.
const scrubBlock = 1 << 20

// scrub compares all files with their checksums, one file after the other, on a thread that lets everybody else go
// first.
func (c *checker) scrub(ctx context.Context, opt CheckOptions) error {
	s := &scrubber{c: c, ctx: ctx, rate: opt.Rate, began: time.Now(), buf: make([]byte, scrubBlock)}
	if s.rate <= 0 {
		s.rate = defaultScrubRate
	}
	s.meter = progressMeter{f: opt.Progress, stage: "scrub"}
	for _, f := range c.files {
		s.meter.total += f.l.Bytes
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its priority
		lowerPriority()
		done <- s.files()
	}()
	return <-done
}

// scrubber reads files slowly.
type scrubber struct {
	c     *checker
	ctx   context.Context
	rate  int64
	began time.Time
	read  int64
	buf   []byte
	meter progressMeter
}

func (s *scrubber) files() error {
	for _, f := range s.c.files {
		if f.region == nil {
			continue
		}
		if err := s.file(f); err != nil {
			return err
		}
	}
	s.meter.finish()
	return nil
}

// file compares the elements of a file with their checksums. Head and footer have been compared.
func (s *scrubber) file(f *checkedFile) error {
	chunks, err := chunksOf(f.path, f.part, s.c.m.ChunkBytes)
	if err != nil {
		s.c.add(f.index, 0, err)
		return nil
	}
	in, err := os.OpenFile(f.path, os.O_RDONLY|transaction.OpenNonblock, 0)
	if err == nil {
		defer in.Close()
		var st os.FileInfo
		if st, err = in.Stat(); err == nil && !os.SameFile(st, f.info) {
			err = errors.New("another file is in its place")
		}
	}
	if err != nil {
		return fileError(f.path, "check again", fmt.Errorf("the dataset was replaced meanwhile: %w", err))
	}
	adviseRandom(in)
	for i := range chunks.sums {
		lo, hi := chunks.bounds(i)
		h := xxh3.New()
		for at := lo; at < hi && err == nil; at += scrubBlock {
			err = s.block(in, f, at, min(at+scrubBlock, hi), h)
		}
		switch {
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case err != nil:
			s.c.add(f.index, f.l.BodyOffset+lo, corrupt(f.path, "bytes %s to %s cannot be read: %v",
				humanize.Comma(f.l.BodyOffset+lo), humanize.Comma(f.l.BodyOffset+hi), err))
		default:
			if err := chunks.compare(i, h.Sum64()); err != nil {
				s.c.add(f.index, f.l.BodyOffset+lo, err)
			}
		}
		err = nil
		s.meter.add(hi - lo)
	}
	return nil
}

// block hashes bytes lo to hi of a file's elements, when it is time for them, and leaves the page cache as it was.
func (s *scrubber) block(in *os.File, f *checkedFile, lo, hi int64, h *xxh3.Hasher) error {
	due := s.began.Add(time.Duration(float64(s.read) / float64(s.rate) * float64(time.Second)))
	if wait := time.Until(due); wait > 0 {
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
		}
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	s.read += hi - lo
	at := f.l.BodyOffset + lo
	restore := keepCache(in, f.region.Bytes(), at, at+hi-lo)
	defer restore()
	n, err := in.ReadAt(s.buf[:hi-lo], at)
	_, _ = h.Write(s.buf[:n])
	if err == io.EOF && int64(n) == hi-lo {
		err = nil
	}
	return err
}
