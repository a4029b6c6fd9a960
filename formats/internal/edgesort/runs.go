package edgesort

import (
	"context"
	"fmt"
	"slices"

	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// flush puts what has arrived into the room, which it empties first where that is full. It waits for the run that was
// written to the file before, not for the one that it begins to write.
func (l *level) flush(ctx context.Context) error {
	if len(l.segs) == 0 {
		return nil
	}
	n := l.overhead() + l.have*(l.width+l.s.record)
	if l.used+n > int64(len(l.rooms[0])) {
		if err := l.writeRoom(); err != nil {
			return err
		}
	}
	l.place()
	return context.Cause(ctx)
}

// writeRoom begins to write the room to the file as one run, and goes on with the other room, if there is one.
func (l *level) writeRoom() error {
	s := l.s
	if err := s.settle(); err != nil {
		return err
	}
	runs, n := l.near, int64(0)
	for i := range runs {
		n += int64(runs[i].starts[l.parts])
	}
	r := run{starts: make([]uint32, l.parts+1)}
	for p := range l.parts {
		at := r.starts[p]
		for i := range runs {
			at += runs[i].starts[p+1] - runs[i].starts[p]
		}
		r.starts[p+1] = at
	}
	var err error
	if r.at, err = s.spill.reserve(n * (l.width + s.record)); err != nil {
		return err
	}
	l.runs, l.near, l.used = append(l.runs, r), nil, 0
	done := make(chan error, 1)
	s.pending = done
	go func() { done <- l.writeRuns(runs, r.at, n) }()
	if len(l.rooms) == 1 {
		return s.settle()
	}
	l.rooms[0], l.rooms[1] = l.rooms[1], l.rooms[0]
	return nil
}

// writeBytes is what is gathered of a run before it is written, at most.
const writeBytes = 4 << 20

// writeRuns writes runs as one, of n records: the keys part by part, then the rows.
func (l *level) writeRuns(runs []run, at, n int64) error {
	s := l.s
	few := min(writeBytes, max(int64(len(s.mem))/64, direct.Align), n*(l.width+s.record)+direct.Align-1)
	buf := direct.Buffer(int(few) &^ (direct.Align - 1))[:0]
	flush := func() error {
		err := s.spill.write(buf, at)
		at += int64(len(buf))
		buf = buf[:0]
		return err
	}
	for _, of := range []struct {
		width int64
		bytes func(r *run) []byte
	}{{l.width, func(r *run) []byte { return r.keys }}, {s.record, func(r *run) []byte { return r.rows }}} {
		for p := range l.parts {
			for i := range runs {
				b := of.bytes(&runs[i])[int64(runs[i].starts[p])*of.width : int64(runs[i].starts[p+1])*of.width]
				for len(b) > 0 {
					k := min(len(b), cap(buf)-len(buf))
					buf = append(buf, b[:k]...)
					b = b[k:]
					if len(buf) == cap(buf) {
						if err := flush(); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return flush()
}

// settle waits for the run that is being written.
func (s *Sorter) settle() error {
	if s.pending == nil {
		return nil
	}
	err := <-s.pending
	s.pending = nil
	return err
}

// end ends the taking in of edges, and returns the memory that sorting may use.
func (l *level) end(ctx context.Context) ([]byte, error) {
	if err := l.flush(ctx); err != nil {
		return nil, err
	}
	if rest := l.rooms[0][l.used:]; len(l.runs) == 0 && slices.Max(l.counts)*l.s.leafBytes() <= int64(len(rest)) {
		return rest, nil
	}
	if err := l.writeRoom(); err != nil {
		return nil, err
	}
	return l.s.mem, l.s.settle()
}

// load reads n keys of a part, as they are stored, and their rows: from record lo of what a run has of it.
func (l *level) load(r *run, lo, n int64, keys, rows []byte) error {
	record := l.s.record
	keys, rows = keys[:n*l.width], rows[:n*record]
	if r.keys != nil {
		copy(keys, r.keys[lo*l.width:])
		copy(rows, r.rows[lo*record:])
		return nil
	}
	if err := l.s.spill.read(keys, r.at+lo*l.width); err != nil {
		return err
	}
	return l.s.spill.read(rows, r.at+int64(r.starts[l.parts])*l.width+lo*record)
}

// loadPart reads the records of a part from all runs, one run behind the other.
func (l *level) loadPart(part int, keys, rows []byte) error {
	have := int64(0)
	for _, runs := range [][]run{l.runs, l.near} {
		for i := range runs {
			lo, hi := int64(runs[i].starts[part]), int64(runs[i].starts[part+1])
			if lo == hi {
				continue
			}
			if err := l.load(&runs[i], lo, hi-lo, keys[have*l.width:], rows[have*l.s.record:]); err != nil {
				return err
			}
			have += hi - lo
		}
	}
	return nil
}

// tooLarge is the error of a part that the memory does not hold and that no bits part again.
func (l *level) tooLarge(edges int64) error {
	return fmt.Errorf("%w: %d edges between two nodes, or of one node by time, are sorted at once, which takes %s; "+
		"allow so much", pinned.ErrLimit, edges, machine.Bytes(edges*l.s.leafBytes()))
}
