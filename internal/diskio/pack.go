package diskio

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/pinned"
)

// PackOptions say what may be taken to pack rows (see pack).
type PackOptions struct {
	// Bytes are the most of the temporary file; 0: rows are not packed.
	Bytes int64
	// Memory is bytes of packed rows that are not in the file yet; no more than Bytes are taken.
	Memory int64
	// Intercept, in tests, sees what writing a chunk came to, and returns what it is to have come to. It may wait.
	Intercept func(offset int64, n int, err error) (int, error)

	share int64 // a simulation has one of that many rows
}

// OfShare returns the options for a simulation of one in this number of rows.
func (o PackOptions) OfShare(one int64) PackOptions {
	o.share = one
	return o
}

// PackMemory is the memory that packing the rows of a column takes.
const PackMemory = 32 << 20

// ErrPack is why rows cannot be packed.
var ErrPack = errors.New("rows are not packed")

// pack lays out the rows that batches of the window need and the cache has no room for: one after another for each
// batch, in chunks. A chunk that is full goes to a temporary file, from where its batch reads it by one request. The
// last chunk of a batch stays in memory.
//
// The planner gives out places (take) and hands a batch its chunks (claim). Where there is no file, that is all there
// is to it: a simulation. A Column fills the places, in the order of batches: a chunk takes a buffer for its first row,
// and gives it back when it is written. Where there is none, the column waits for those that write, but not long: then
// the chunk is lost, and its batch reads the rows from the column.
type pack struct {
	layout Layout // of the file: a row is its place
	per    uint32 // rows of a chunk; fewer in a simulation of a share of all rows
	most   int    // chunks

	mu      sync.Mutex
	work    sync.Cond
	freed   sync.Cond  // a chunk was written, or is late
	chunks  []chunk    // [number], which is its place in the file
	free    []uint32   // numbers that no batch has
	of      [][]uint32 // [batch % len] its chunks
	spare   []int32    // buffers that no chunk has
	queue   []uint32   // full chunks to write
	writing int        // chunks that are being written
	late    bool       // none was written for so long that nobody waits any more
	refused error      // why no more rows are taken
	closed  bool
	count   disk.Counts

	file      *File // nil in a simulation
	memory    *pinned.Region
	counts    pinned.Options // how memory of rows' numbers is counted
	ended     chan struct{}  // when those that write have ended
	intercept func(int64, int, error) (int, error)
}

// chunk is some places of one batch.
type chunk struct {
	of      []uint32 // rows of the column that have places, and room for as many as there are places
	there   uint32   // places that have their rows
	buffer  int32    // that has the rows; -1: none
	inFile  bool     // the rows are in the file
	read    bool     // its batch has begun to read them there
	first   int      // where that has its rows, among those that it reads
	lost    bool     // there was no buffer
	used    bool     // it is a batch's
	claimed bool     // the batch will copy its rows from the buffer
	queued  bool     // to be written; a number may be in the queue without
	writing bool
	dropped bool // to be free when it is written
}

// packAside is how many chunks, and one more for each batch of the window, have memory beside those that are not full:
// plans wait for their rows, or they are being written, or read.
const packAside = 64

// newPack returns a pack without a file. Errors: ErrPack where so little memory or so long rows allow no chunks.
func newPack(column Layout, lookahead int, opt PackOptions) (*pack, error) {
	size := min(column.Most, floor(opt.Memory/int64(2*lookahead+packAside), column.Page))
	per := size / column.RowBytes
	if per < 2 {
		return nil, fmt.Errorf("%w: %d bytes of memory for %d batches are too few for rows of %d bytes", ErrPack,
			opt.Memory, lookahead, column.RowBytes)
	}
	setDefault(&opt.share, 1)
	most := min(opt.Bytes/size, (1<<31-2-column.Rows)/per) // beside slots of a cache: see ask
	p := &pack{per: uint32(max(per/opt.share, 1)), most: int(most), intercept: opt.Intercept,
		of: make([][]uint32, lookahead+1)}
	p.layout = Layout{RowBytes: column.RowBytes, Rows: most * per, Shape: column.Shape, group: per, groupBytes: size}
	p.layout.Gap = 0
	p.work.L, p.freed.L = &p.mu, &p.mu
	for i := range min(opt.Memory/size, most) {
		p.spare = append(p.spare, int32(i))
	}
	return p, nil
}

// take returns a place for a row that a batch needs; false where there is none.
func (p *pack) take(batch, row uint32) (place uint32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := &p.of[batch%uint32(len(p.of))]
	if n := len(*list); n == 0 || len(p.chunks[(*list)[n-1]].of) == int(p.per) {
		number, ok := p.open()
		if !ok {
			return 0, false
		}
		*list = append(*list, number)
	}
	number := (*list)[len(*list)-1]
	c := &p.chunks[number]
	c.of = append(c.of, row)
	given := uint32(len(c.of))
	if given == p.per && p.file == nil {
		p.written(c)
	}
	return number*p.per + given - 1, true
}

// rowAt returns the row of the column that has a place.
func (p *pack) rowAt(place uint32) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.chunks[place/p.per].of[place%p.per]
}

// open returns a new chunk.
func (p *pack) open() (number uint32, ok bool) {
	if p.refused != nil || p.closed {
		return 0, false
	}
	if n := len(p.free); n > 0 {
		number, p.free = p.free[n-1], p.free[:n-1]
	} else if number = uint32(len(p.chunks)); len(p.chunks) == p.most {
		return 0, false
	} else if p.counts.Ledger.Take(p.counts.Purpose, int64(p.per)*PackedBytes) != nil {
		return 0, false
	} else {
		p.chunks = append(p.chunks, chunk{of: make([]uint32, 0, p.per)})
	}
	p.chunks[number] = chunk{used: true, buffer: -1, of: p.chunks[number].of[:0]}
	return number, true
}

// written gives back the buffer of a chunk that is in the file.
func (p *pack) written(c *chunk) {
	if c.buffer >= 0 {
		p.spare = append(p.spare, c.buffer)
	}
	c.buffer, c.inFile = -1, true
	p.count.Writes++
	p.count.Written += p.layout.groupBytes
}

// claim hands a batch, which is being planned, its chunks.
func (p *pack) claim(batch uint32, to []uint32) []uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := &p.of[batch%uint32(len(p.of))]
	to = append(to, *list...)
	*list = (*list)[:0]
	if p.file != nil {
		return to
	}
	for _, number := range to {
		if c := &p.chunks[number]; c.inFile {
			p.counted(int64(len(c.of)), 1)
		}
		p.release(number)
	}
	return to
}

// counted counts rows that are read from the file.
func (p *pack) counted(rows, requests int64) {
	p.count.Requests += requests
	p.count.Bytes += requests * p.layout.groupBytes
	p.count.Useful += rows * p.layout.RowBytes
}

// Count returns what packing came to.
func (p *pack) Count() disk.Counts {
	if p == nil {
		return disk.Counts{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.count
	for _, n := range []*int64{&c.Requests, &c.Bytes, &c.Writes, &c.Written} {
		*n = *n * int64(p.per) / p.layout.group
	}
	return c
}

// release gives a chunk back, whose batch has its rows or has been given up. p.mu is held.
func (p *pack) release(number uint32) {
	c := &p.chunks[number]
	if c.writing {
		c.dropped = true
		return
	}
	if c.buffer >= 0 {
		p.spare = append(p.spare, c.buffer)
	}
	*c = chunk{buffer: -1, of: c.of}
	p.free = append(p.free, number)
}

// reset gives all chunks back: no batch is under way, and none of the window is to find rows here.
func (p *pack) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = p.queue[:0]
	for i := range p.of {
		p.of[i] = p.of[i][:0]
	}
	for i := range p.chunks {
		if p.chunks[i].used && !p.chunks[i].dropped {
			p.release(uint32(i))
		}
	}
}

// row returns the memory of a place whose chunk is in memory. p.mu is held.
func (p *pack) row(place uint32) []byte {
	begin := int64(p.chunks[place/p.per].buffer)*p.layout.groupBytes + int64(place%p.per)*p.layout.RowBytes
	return p.memory.Bytes()[begin : begin+p.layout.RowBytes]
}

// patience is how long a column waits for a chunk to be written.
const patience = 100 * time.Millisecond

// hasBuffer gives a chunk a buffer, unless there is none. p.mu is held.
func (p *pack) hasBuffer(number uint32) bool {
	for len(p.spare) == 0 && p.refused == nil && !p.late && len(p.queue)+p.writing > 0 {
		late := time.AfterFunc(patience, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.late = true
			p.freed.Broadcast()
		})
		p.freed.Wait()
		late.Stop()
	}
	c, n := &p.chunks[number], len(p.spare)
	if c.lost = n == 0; !c.lost {
		c.buffer, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	return !c.lost
}

// fill puts a row in its place.
func (p *pack) fill(place uint32, row []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number := place / p.per
	if c := &p.chunks[number]; c.lost || c.buffer < 0 && !p.hasBuffer(number) {
		return
	}
	copy(p.row(place), row)
	c := &p.chunks[number]
	if c.there++; c.there == p.per && p.refused == nil {
		c.queued = true
		p.queue = append(p.queue, number)
		p.work.Signal()
	}
}

// settle returns those of the rows packed for a batch that are in the file by now, in the order of places.
func (p *pack) settle(plan *Plan, read []Read) []Read {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	slices.Sort(plan.chunks)
	for _, number := range plan.chunks {
		if c := &p.chunks[number]; c.inFile {
			c.read, c.first = true, n
			n += len(c.of)
			p.counted(int64(len(c.of)), 1)
		}
	}
	read = slices.Grow(read[:0], n)[:n]
	for i := range read {
		read[i].Row = noRow // the place of a row that nobody needs any more stays so
	}
	for _, r := range plan.Packed {
		if c := &p.chunks[r.Row/p.per]; c.read {
			read[c.first+int(r.Row%p.per)] = r
		}
	}
	return slices.DeleteFunc(read, func(r Read) bool { return r.Row == noRow })
}

// rest appends the other rows, when all batches before have ended: those that are in the file, those that are in
// memory, and stay there until the batch lets go of its chunks, and those that are lost, as rows of the column.
func (p *pack) rest(plan *Plan, read, kept, lost []Read) (_, _, _ []Read) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, number := range plan.chunks {
		c := &p.chunks[number]
		if c.claimed = !c.inFile && !c.lost; c.inFile && !c.read {
			p.counted(int64(len(c.of)), 1)
		}
	}
	for _, r := range plan.Packed {
		switch c := &p.chunks[r.Row/p.per]; {
		case c.read:
		case c.inFile:
			read = append(read, r)
		case c.lost:
			lost = append(lost, Read{c.of[r.Row%p.per], r.To})
		default:
			kept = append(kept, r)
		}
	}
	return read, kept, lost
}

// countLost counts what a plan reads from the column of rows that were to be packed.
func (p *pack) countLost(plan *Plan, l *Layout) {
	plan.counts(l)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count.Packed -= int64(len(plan.Reads))
	p.count.Requests += plan.Requests
	p.count.Bytes += plan.Bytes
	p.count.Useful += plan.Useful
}

// letGo gives back the chunks of a batch that has its rows.
func (p *pack) letGo(chunks []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, number := range chunks {
		p.release(number)
	}
}
