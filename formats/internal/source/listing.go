package source

import (
	"encoding/binary"
	"errors"
)

// Listing keeps edges that a reader meets one at a time, each with a number beside it or without. Its memory is that of
// two Spools and of a chunk. It has one owner at a time, who calls Close.
type Listing struct {
	// Width is the bytes of each edge's number, 4 or 8; 0 without. It is set before the first Add.
	Width    int64
	store    EdgeStore
	numbers  Spool
	src, dst []int64
	data     []byte
}

// NewListing returns one that takes its memory from a budget.
func NewListing(b *Budget, width int64) *Listing {
	return &Listing{Width: width, store: EdgeStore{Spool: Spool{Budget: b}}, numbers: Spool{Budget: b}}
}

// Add takes an edge and the low bytes of its number. Ids must not be negative.
func (l *Listing) Add(src, dst int64, number uint64) {
	l.src, l.dst = append(l.src, src), append(l.dst, dst)
	switch l.Width {
	case 4:
		l.data = binary.LittleEndian.AppendUint32(l.data, uint32(number))
	case 8:
		l.data = binary.LittleEndian.AppendUint64(l.data, number)
	}
}

// Full reports whether there is a chunk of edges, so that it is time for Flush.
func (l *Listing) Full() bool { return len(l.src) >= 1<<18 }

// Flush puts away the edges since the last call. It must come after the last edge too.
func (l *Listing) Flush() error {
	if _, err := l.numbers.Write(l.data); err != nil {
		return err
	}
	err := l.store.Append(l.src, l.dst)
	l.src, l.dst, l.data = l.src[:0], l.dst[:0], l.data[:0]
	return err
}

// Len returns the number of edges, up to the last Flush.
func (l *Listing) Len() int64 { return l.store.Len() }

// Each returns what yields the edges, with their numbers as the only column (see Edges.Each).
func (l *Listing) Each() (func(yield func(Batch) error) error, error) {
	if l.Width == 0 {
		return Pairs(l.store.Each, nil, nil), nil
	}
	data, err := l.numbers.Bytes()
	return Pairs(l.store.Each, [][]byte{data}, []int64{l.Width}), err
}

// Close frees the memory.
func (l *Listing) Close() error { return errors.Join(l.store.Close(), l.numbers.Close()) }
