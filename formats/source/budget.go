package source

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/khop-gnn/khop/internal/machine"
)

// ErrMemory is returned where a source takes more memory than the limit allows.
var ErrMemory = errors.New("the memory limit is too low")

// Budget is the memory that the readers of a source and what builds its structure may take together. Buffers of some
// megabytes, which do not grow with the source, come on top. A nil Budget has no limit. It has one owner at a time.
type Budget struct{ limit, taken, peak int64 }

// NewBudget returns a budget of limit bytes; nil for 0.
func NewBudget(limit int64) *Budget {
	if limit == 0 {
		return nil
	}
	return &Budget{limit: limit}
}

// Take charges n bytes. It is called before they are taken. ErrMemory says what is needed and what is left.
func (b *Budget) Take(n int64) error {
	if b == nil {
		return nil
	}
	if n > b.Left() {
		return fmt.Errorf("%w: %s are needed here, and of the limit of %s there are %s left; allow at least %s",
			ErrMemory, machine.Bytes(n), machine.Bytes(b.limit), machine.Bytes(b.Left()), machine.Bytes(b.taken+n))
	}
	b.taken += n
	b.peak = max(b.peak, b.taken)
	return nil
}

// Give gives n bytes back that were charged.
func (b *Budget) Give(n int64) {
	if b != nil {
		b.taken -= n
	}
}

// Left returns how many bytes may still be taken.
func (b *Budget) Left() int64 {
	if b == nil {
		return math.MaxInt64
	}
	return b.limit - b.taken
}

// Peak returns the most that was charged at a time; 0 without a limit.
func (b *Budget) Peak() int64 {
	if b == nil {
		return 0
	}
	return b.peak
}

// Grow makes room for more elements behind those of s, as slices.Grow does, and charges b for it.
func Grow[E any](b *Budget, s []E, more int) ([]E, error) {
	if len(s)+more <= cap(s) {
		return s, nil
	}
	room, size := max(len(s)+more, 2*cap(s)), int64(unsafe.Sizeof(*new(E)))
	if err := b.Take(size * int64(room)); err != nil {
		return s, err
	}
	defer b.Give(size * int64(cap(s)))
	return append(make([]E, 0, room), s...), nil
}
