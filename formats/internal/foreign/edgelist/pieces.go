package edgelist

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// A text is cut into pieces at ends of lines, whatever the number of workers. Workers parse pieces side by side. One
// goroutine, which also reads the file, takes what they made of them in the order of the text.

const (
	pieceBytes = 512 << 10
	// pieceMemory is the most that a piece takes with what is made of it: a field has two bytes of text at least, and
	// becomes 8 bytes at most, which are packed once more.
	pieceMemory = 8 * pieceBytes
	// slack is how far beyond its end a piece may be read.
	slack = 8
)

// piece is some lines, and what is made of them.
type piece struct {
	buf   []byte // the lines, and slack; kept from piece to piece
	n     int    // bytes of the lines; the last one ends in LF
	start int    // where edges begin
	lines int64  // before the piece

	src, dst []int64 // numbers, or nothing where ids are names
	chunk    source.EdgeChunk
	names    []byte  // one behind the other
	ends     []int32 // of the names
	most     [2]int64
	columns  []values
	bad      []int32 // where lines begin that are left out
	err      error   // what ends the reading
	odd      bool    // some line is not the two numbers that most are
	done     chan struct{}
}

func (p *piece) text() []byte { return p.buf[:p.n] }

// reset empties what was made of the lines before.
func (p *piece) reset() {
	p.src, p.dst, p.names, p.ends, p.bad = p.src[:0], p.dst[:0], p.names[:0], p.ends[:0], p.bad[:0]
	p.most, p.err, p.odd = [2]int64{-1, -1}, nil, false
	for i := range p.columns {
		p.columns[i] = values{data: p.columns[i].data[:0]}
	}
}

// rows returns how many edges there are.
func (p *piece) rows() int { return max(len(p.src), len(p.ends)/2) }

// cutter cuts a text into pieces.
type cutter struct {
	r     io.Reader
	path  string
	rest  []byte // the line that the last piece did not end
	lines int64  // before it
	end   bool
}

// next reads a piece; io.EOF behind the last one. A line of more than MaxLine bytes is an error.
func (c *cutter) next(p *piece) error {
	if c.end && len(c.rest) == 0 {
		return io.EOF
	}
	if p.buf == nil {
		p.buf = make([]byte, pieceBytes+slack)
	}
	have := copy(p.buf, c.rest)
	p.start = 0
	for {
		room := len(p.buf) - slack - 1 // for a last LF
		for have < room && !c.end {
			n, err := c.r.Read(p.buf[have:room])
			have += n
			if c.end = err == io.EOF; err != nil && !c.end {
				lines := c.lines + int64(bytes.Count(p.buf[:have], []byte{'\n'}))
				return source.Error(c.path, "", lines+1, "the file is cut short or damaged", err)
			}
		}
		if c.end && have > 0 && p.buf[have-1] != '\n' {
			p.buf[have] = '\n'
			have++
		}
		p.n = bytes.LastIndexByte(p.buf[:have], '\n') + 1
		if p.n > 0 || c.end {
			break
		}
		if have > MaxLine {
			return source.Error(c.path, "", c.lines+1, "this is not an edge list",
				fmt.Errorf("the line is longer than %d bytes", MaxLine))
		}
		p.buf = slices.Grow(p.buf, len(p.buf))[:2*len(p.buf)]
	}
	c.rest = append(c.rest[:0], p.buf[p.n:have]...)
	clear(p.buf[p.n:min(p.n+slack, len(p.buf))])
	p.lines = c.lines
	c.lines += int64(bytes.Count(p.text(), []byte{'\n'}))
	if p.n == 0 {
		return io.EOF
	}
	return nil
}

// readAll parses the text.
func (r *reader) readAll(ctx context.Context, f *source.File) error {
	c, first := &cutter{r: f, path: r.path}, &piece{}
	for r.lay == nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.next(first); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := r.begin(first); err != nil {
			return err
		}
		r.report(f)
	}
	return r.parseAll(ctx, f, c, first)
}

// report says how far the reading has come.
func (r *reader) report(f *source.File) {
	if r.opt.Progress != nil {
		r.opt.Progress("read", f.Done(), f.Size)
	}
}

// parseAll parses pieces of a text whose layout is known: the first, if that has been read, and all that are left.
func (r *reader) parseAll(ctx context.Context, f *source.File, c *cutter, first *piece) error {
	if first.n == 0 {
		if err := c.next(first); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
	q := r.newQueue(c, first)
	defer q.stop()
	for end := false; !end; r.report(f) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p, err := q.free()
		if err != nil {
			return err
		}
		switch err := c.next(p); {
		case err == io.EOF:
			end = true
		case err != nil:
			return cmp.Or(q.drain(), err) // what is wrong further up comes first
		default:
			q.put(p)
		}
	}
	return q.drain()
}

// queue is pieces on their way through the workers.
type queue struct {
	r       *reader
	idle    []*piece
	waiting []*piece // in the order of the text
	work    chan *piece
	left    int // pieces that may still be made
	taken   int64
}

// newQueue starts the workers and hands them the first piece.
func (r *reader) newQueue(c *cutter, first *piece) *queue {
	workers := r.opt.Workers
	if workers <= 0 {
		workers = machine.Workers()
	}
	if c.end {
		workers = 1
	}
	q := &queue{r: r, left: 1}
	for more := workers + 1; q.left < more; q.left++ { // the first two are within what reading takes in any case
		if q.left > 1 && r.opt.Budget.Ledger().Left()/32 < pieceMemory ||
			q.left > 1 && r.opt.Budget.Ledger().Take(pinned.Sources, pieceMemory) != nil {
			workers = min(workers, q.left)
			break
		}
		if q.left > 1 {
			q.taken += pieceMemory
		}
	}
	q.work = make(chan *piece, q.left+1)
	for range workers {
		p := newParser(r)
		go func() {
			for work := range q.work {
				p.parse(work)
				close(work.done)
			}
		}()
	}
	q.put(first)
	q.left--
	return q
}

// put hands a piece to the workers.
func (q *queue) put(p *piece) {
	p.done = make(chan struct{})
	q.waiting = append(q.waiting, p)
	q.work <- p
}

// free returns a piece that may be filled.
func (q *queue) free() (*piece, error) {
	if q.left > 0 {
		q.left--
		return &piece{}, nil
	}
	if len(q.idle) == 0 {
		if err := q.pop(); err != nil {
			return nil, err
		}
	}
	last := len(q.idle) - 1
	p := q.idle[last]
	q.idle = q.idle[:last]
	return p, nil
}

// pop takes the first piece that waits.
func (q *queue) pop() error {
	p := q.waiting[0]
	q.waiting = q.waiting[1:]
	<-p.done
	q.idle = append(q.idle, p)
	return q.r.take(p)
}

func (q *queue) drain() error {
	for len(q.waiting) > 0 {
		if err := q.pop(); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the workers, and waits for them.
func (q *queue) stop() {
	close(q.work)
	for _, p := range q.waiting {
		<-p.done
	}
	q.r.opt.Budget.Ledger().Give(pinned.Sources, q.taken)
}

// take puts away what was made of a piece.
func (r *reader) take(p *piece) error {
	for _, at := range p.bad {
		line, _ := cutLine(p.text(), int(at))
		err := newParser(r).wrong(line)
		if err := r.opt.Skips.Skip(r.lineError(p, int(at), err)); err != nil {
			return err
		}
	}
	if p.err != nil {
		return p.err
	}
	if r.names != nil {
		if err := r.number(p); err != nil {
			return err
		}
	}
	r.most = [2]int64{max(r.most[0], p.most[0]), max(r.most[1], p.most[1])}
	if r.yield != nil {
		return r.handOn(p)
	}
	rows := int64(p.rows())
	r.expect(&r.store.Spool, p, 8*rows)
	if err := r.store.AppendChunk(&p.chunk); err != nil {
		return err
	}
	for i, c := range r.columns {
		r.expect(&c.spool, p, int64(len(p.columns[i].data)))
		if err := c.take(&p.columns[i], rows); err != nil {
			return err
		}
	}
	return nil
}

// expect makes room for what the whole text becomes, by the bytes that its first piece became.
func (r *reader) expect(s *source.Spool, p *piece, bytes int64) {
	if s.Len() == 0 {
		s.Expect(int64(float64(bytes) * float64(r.size) / float64(p.n)))
	}
}

// number numbers the names of a piece.
func (r *reader) number(p *piece) error {
	at := int32(0)
	for i, end := range p.ends {
		list, to := r.names, &p.src
		if i%2 == 1 {
			list, to = r.targets, &p.dst
		}
		v, err := list.Number(p.names[at:end])
		if err != nil {
			return r.lineError(p, p.lineOf(i/2), err)
		}
		*to = append(*to, v)
		at = end
	}
	if r.yield == nil {
		p.chunk.Pack(p.src, p.dst)
	}
	return nil
}

// lineOf returns where the line of an edge begins.
func (p *piece) lineOf(row int) int {
	at := p.start
	for text := p.text(); ; {
		line, next := cutLine(text, at)
		if !skippable(line) && !slices.Contains(p.bad, int32(at)) {
			if row--; row < 0 {
				return at
			}
		}
		at = next
	}
}

// lineError is an error about the line of a piece that begins at an offset.
func (r *reader) lineError(p *piece, at int, err error) error {
	line := p.lines + int64(bytes.Count(p.buf[:at], []byte{'\n'})) + 1
	if bad := (*badLine)(nil); errors.As(err, &bad) {
		return bad.at(r.path, line)
	}
	return source.Error(r.path, "", line, "", err)
}
