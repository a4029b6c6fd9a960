package source

import (
	"unsafe"

	"github.com/khop-gnn/khop/pinned"
)

// Grow makes room for more elements behind those of s, as slices.Grow does, and counts them in l first: while they move
// they are there twice. pinned.ErrLimit says what is needed.
func Grow[E any](l *pinned.Ledger, s []E, more int) ([]E, error) {
	if len(s)+more <= cap(s) {
		return s, nil
	}
	room, size := max(len(s)+more, 2*cap(s)), int64(unsafe.Sizeof(*new(E)))
	if err := l.Take(pinned.Sources, size*int64(room)); err != nil {
		return s, err
	}
	defer l.Give(pinned.Sources, size*int64(cap(s)))
	return append(make([]E, 0, room), s...), nil
}

// maxSparse is how many times more nodes than edges a source may ask for without giving anything for each of them,
// beyond the first freeNodes.
const (
	maxSparse = 32
	freeNodes = 1 << 20
)

// TooSparse reports whether there are more nodes than so many edges make believable, where the source has no byte for
// each node.
func TooSparse(nodes, edges int64) bool { return (nodes-freeNodes)/maxSparse > edges }
