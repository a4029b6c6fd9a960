package gnn

import (
	"fmt"
	"runtime/debug"

	"github.com/khop-gnn/khop/internal/heap"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader"
)

// budget bounds memory, in bytes.
type budget struct {
	limit int64 // 0: none
	held  int64
}

// tooLittle is an error of memory that knows how many bytes would have done so far.
type tooLittle struct {
	error
	bytes int64
}

func (t *tooLittle) Needed() int64 { return t.bytes }

func (t *tooLittle) Unwrap() error { return t.error }

// take counts memory before it is taken.
func (b *budget) take(bytes int64, what string) error {
	if b.limit > 0 && bytes > b.limit-b.held {
		return &tooLittle{fmt.Errorf("%w: %s of training take %s beside %s, and the limit is %s; take smaller batches "+
			"or narrower layers, or allow more", loader.ErrMemory, what, machine.Bytes(bytes), machine.Bytes(b.held),
			machine.Bytes(b.limit)), bytes + b.held}
	}
	b.held += bytes
	heap.Expect(bytes)
	return nil
}

// give takes back what take counted.
func (b *budget) give(bytes int64) { b.held -= bytes }

// collect returns garbage to the system before much is taken anew: what one goes past a limit by, no heap's limit sees
// in time.
func (b *budget) collect() {
	if b.limit > 0 {
		debug.FreeOSMemory()
	}
}

// exceeded is what an arena panics with, for within.
type exceeded struct{ err error }

// within returns the error of f, or that of an arena in it whose memory would go past the limit.
func (b *budget) within(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case exceeded:
			err = p.err
		default:
			panic(p)
		}
	}()
	return f()
}

// arena hands out memory until it is reset: zeros at first, and then what was there before. It keeps as much memory as
// was in use at a time, in one piece.
type arena struct {
	memory *budget // of which it has taken the slab and the extra
	slab   []float32
	used   int
	extra  int // taken beside the slab
}

const (
	arenaStep  = 16 // floats of a line
	floatBytes = 4
)

func (a *arena) take(n int) []float32 {
	if to := a.used + (n+arenaStep-1)&^(arenaStep-1); to <= len(a.slab) {
		r := a.slab[a.used : a.used+n : a.used+n]
		a.used = to
		return r
	}
	if err := a.memory.take(int64(n+arenaStep)*floatBytes, "the matrices"); err != nil {
		panic(exceeded{err})
	}
	a.extra += n + arenaStep
	return make([]float32, n)
}

// reset takes back what was handed out.
func (a *arena) reset() {
	if a.extra > 0 {
		n := a.used + a.extra
		a.memory.held -= int64(len(a.slab)-a.used) * floatBytes
		a.slab = nil // before the next is made
		a.memory.collect()
		a.slab = make([]float32, n)
	}
	a.used, a.extra = 0, 0
}
