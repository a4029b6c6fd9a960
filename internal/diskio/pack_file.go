package diskio

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/pinned"
)

// openPack opens the temporary file beside a column's, and begins to write to it what is put in its places. It refuses
// with ErrPack where the file cannot be made, or where reading single rows is as fast.
func openPack(column *File, layout Layout, lookahead int, probe *disk.Probe, opt PackOptions,
	memory pinned.Options) (_ *pack, err error) {
	p, err := newPack(layout, lookahead, opt)
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(column.path)
	file, err := createHidden(folder)
	if err != nil {
		return nil, fmt.Errorf("%w: a temporary file in %s: %w", ErrPack, folder, err)
	}
	p.file = &File{file: file, path: filepath.Join(folder, "(packed rows)"), index: notRegistered, page: column.page,
		sector: column.sector, direct: true}
	p.counts = memory
	if p.memory, err = pinned.Allocate(int64(len(p.spare))*p.layout.groupBytes, memory); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := p.try(probe); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrPack, err), p.file.close(), p.memory.Close())
	}
	p.ended = make(chan struct{})
	var all sync.WaitGroup
	for range packWriters {
		all.Add(1)
		go func() {
			defer all.Done()
			p.write()
		}()
	}
	go func() {
		all.Wait()
		close(p.ended)
	}()
	return p, nil
}

// packWriters is how many chunks are written at a time.
const packWriters = 4

// packTries is how many chunks are written to see how fast that is.
const packTries = 8

// try writes some chunks, and compares.
func (p *pack) try(probe *disk.Probe) error {
	var took []time.Duration
	for i := range min(packTries, p.most) {
		begin := time.Now()
		if err := p.writeChunk(uint32(i), p.memory.Bytes()[:p.layout.groupBytes]); err != nil {
			return err
		}
		took = append(took, time.Since(begin))
	}
	if len(took) == 0 {
		return errors.New("the bytes allowed are fewer than a request's")
	}
	slices.Sort(took)
	return p.compare(probe, took[len(took)/2].Seconds())
}

// compare returns an ErrPack where a row that is packed would take as long as one that is not, if writing a chunk takes
// write seconds.
func (p *pack) compare(probe *disk.Probe, write float64) error {
	if probe.Small == 0 { // there is nothing to compare with
		return nil
	}
	chunk := write + probe.Seconds(1, p.layout.groupBytes)
	alone := probe.Seconds(1, ceil(p.layout.RowBytes, p.layout.Page))
	if packed := chunk / float64(p.per); packed >= alone {
		return fmt.Errorf("%w: one that is packed would take the disk %.0f us, another one takes %.0f us", ErrPack,
			packed*1e6, alone*1e6)
	}
	return nil
}

// writeChunk writes the rows of a chunk to its place.
func (p *pack) writeChunk(number uint32, b []byte) error {
	at := int64(number) * p.layout.groupBytes
	n, err := p.file.file.WriteAt(b, at)
	if p.intercept != nil {
		n, err = p.intercept(at, n, err)
	}
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// write writes full chunks until the pack is closed. Where that fails, no more rows are packed, and those that are stay
// in memory until their batches have them.
func (p *pack) write() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.queue) == 0 && !p.closed {
			p.work.Wait()
		}
		if p.closed {
			return
		}
		number := p.queue[0]
		p.queue = slices.Delete(p.queue, 0, 1)
		c := &p.chunks[number]
		if !c.queued || c.claimed || p.refused != nil {
			continue
		}
		c.queued, c.writing = false, true
		p.writing++
		b := p.memory.Bytes()[int64(c.buffer)*p.layout.groupBytes:][:p.layout.groupBytes]
		p.mu.Unlock()
		err := p.writeChunk(number, b)
		p.mu.Lock()
		c = &p.chunks[number] // there may be more by now
		c.writing = false
		p.writing--
		p.late = false
		switch {
		case err != nil:
			p.refused = fmt.Errorf("%w: %w", ErrPack, err)
		case !c.claimed && !c.dropped:
			p.written(c)
		}
		if c.dropped {
			p.release(number)
		}
		p.freed.Broadcast()
	}
}

// state says how rows are packed.
func (p *pack) state() disk.PackState {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := disk.PackState{Bytes: int64(p.most) * p.layout.groupBytes, Chunk: p.layout.groupBytes}
	if p.refused != nil {
		s.Refused = p.refused.Error()
	}
	return s
}

// close frees the file. Where the disk does not answer, memory is given back when it does.
func (p *pack) close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.work.Broadcast()
	if !again {
		p.counts.Ledger.Give(p.counts.Purpose, int64(len(p.chunks))*int64(p.per)*PackedBytes)
	}
	p.mu.Unlock()
	if again {
		return nil
	}
	return freeAfter(p.ended, func() error { return errors.Join(p.file.close(), p.memory.Close()) })
}
