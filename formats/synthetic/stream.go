package synthetic

import (
	"context"
	"encoding/binary"
	"slices"

	"golang.org/x/sync/errgroup"
)

// chunk is a run of consecutive rows that one worker fills and the writer then writes. Its memory is used again.
type chunk struct {
	first uint64 // row (node) of the first
	n     int    // rows

	// Of edges: for each destination, where its column ends; the sources, and their edge types where the graph has
	// several.
	ends    []int64
	sources []int64
	types   []uint8
	run     int // where the run of one edge type that is being filled begins

	counts []uint64 // scratch
	bytes  []byte   // rows of a column as they are written
	other  []byte   // rows of a second column

	ready chan struct{}
}

// begin empties the chunk.
func (c *chunk) begin(first uint64, n int) {
	*c = chunk{first: first, n: n, ends: c.ends[:0], sources: c.sources[:0], types: c.types[:0], counts: c.counts[:0],
		bytes: c.bytes[:0], other: c.other[:0], ready: make(chan struct{})}
}

// push adds an in-edge of the current destination.
func (c *chunk) push(source uint64) { c.sources = append(c.sources, int64(source)) }

// endRun puts the edges pushed since the last run in order, and gives them a type.
func (c *chunk) endRun(edgeType uint8, typed bool) {
	slices.Sort(c.sources[c.run:])
	if typed {
		for range len(c.sources) - c.run {
			c.types = append(c.types, edgeType)
		}
	}
	c.run = len(c.sources)
}

// endColumn ends the current destination.
func (c *chunk) endColumn() { c.ends = append(c.ends, int64(len(c.sources))) }

// scratch returns n zeroed counts that live as long as the chunk's contents.
func (c *chunk) scratch(n int) []uint64 {
	c.counts = slices.Grow(c.counts[:0], n)[:n]
	clear(c.counts)
	return c.counts
}

// encodeIDs appends ids in little-endian order, in 4 or 8 bytes each.
func encodeIDs(dst []byte, ids []int64, size int64) []byte {
	dst = slices.Grow(dst, len(ids)*int(size))
	if size == 4 {
		for _, v := range ids {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(v))
		}
		return dst
	}
	for _, v := range ids {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// inOrder cuts rows 0 .. rows-1 into chunks of the given length, has workers fill them and writes them in order. It
// returns the first error, after all its goroutines have ended; fill and write of one chunk never run at the same time.
//
// Memory: at most 2·workers + 1 chunks.
func inOrder(ctx context.Context, workers int, rows int64, length int, fill func(*chunk),
	write func(*chunk) error) error {
	depth := 2 * workers
	g, ctx := errgroup.WithContext(ctx)
	free := make(chan *chunk, depth+1) // has room for all chunks: giving one back never blocks
	for range depth + 1 {
		free <- &chunk{}
	}
	work, order := make(chan *chunk), make(chan *chunk, depth+1)
	g.Go(func() error {
		defer close(work)
		defer close(order)
		for first := int64(0); first < rows; first += int64(length) {
			var c *chunk
			select {
			case c = <-free:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			c.begin(uint64(first), int(min(int64(length), rows-first)))
			order <- c // has room for all chunks
			select {
			case work <- c:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for range workers {
		g.Go(func() error {
			for c := range work {
				fill(c)
				close(c.ready)
			}
			return nil
		})
	}
	g.Go(func() error {
		for c := range order {
			select {
			case <-c.ready:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := write(c); err != nil {
				return err
			}
			free <- c
		}
		return nil
	})
	return g.Wait()
}
