package diskio

import "github.com/khop-gnn/khop/pinned"

// arena is memory that is given back in the order in which it was taken.
type arena struct {
	memory     *pinned.Region
	begin, end int64 // of what is taken, counted on and on
}

// take returns n bytes next to one another and what to give back, or nil where there is no room.
func (a *arena) take(n int64) (b []byte, end int64) {
	size := int64(len(a.memory.Bytes()))
	if n == 0 || n > size {
		return nil, 0
	}
	if a.begin == a.end {
		a.begin, a.end = 0, 0
	}
	at := a.end
	if at%size+n > size {
		at += size - at%size
	}
	if at+n-a.begin > size {
		return nil, 0
	}
	a.end = at + n
	return a.memory.Bytes()[at%size : at%size+n : at%size+n], a.end
}

// give gives back all that was taken up to an end.
func (a *arena) give(end int64) { a.begin = end }

// reset gives back all.
func (a *arena) reset() { a.begin = a.end }

// room returns about how many bytes can be taken.
func (a *arena) room() int64 { return int64(len(a.memory.Bytes())) - (a.end - a.begin) }
