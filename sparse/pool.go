package sparse

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// ErrClosed is returned by operations on a pool that was closed.
var ErrClosed = errors.New("sparse: the pool is closed")

// Options say how a pool computes. The zero value is the default.
type Options struct {
	// Workers is the number of goroutines that compute, including the caller's; 0 means all processors that the process
	// may use.
	Workers int
	// Tuning has the measured strategies for SpMM; nil takes the default for all operands. It changes no result.
	Tuning *Tuning
}

// Pool runs operations on a fixed number of goroutines, which it owns. One operation runs at a time, and others wait;
// in steady state none allocates. It is safe for concurrent use. Close it to end the goroutines.
type Pool struct {
	mu      sync.Mutex // of an operation
	workers int
	tuning  *Tuning
	closed  bool
	start   chan int // worker numbers
	ends    sync.WaitGroup
	guarded []func() error // [worker]: work on the current task

	task  task
	parts int64
	next  atomic.Int64 // part
	errs  []error      // [worker]
	busy  sync.WaitGroup

	spmm    spmmTask
	product denseTask
	span    spanTask
}

// task is an operation that is cut into parts.
type task interface {
	// do computes a part. A worker computes one part at a time, so memory may belong to it.
	do(worker int, part, parts int64)
}

// Open returns a pool. The caller closes it.
func Open(opt Options) *Pool {
	if opt.Workers <= 0 {
		opt.Workers = machine.Workers()
	}
	p := &Pool{workers: opt.Workers, tuning: opt.Tuning, start: make(chan int, opt.Workers),
		errs: make([]error, opt.Workers)}
	for w := range p.workers {
		p.guarded = append(p.guarded, func() error { p.work(w); return nil })
	}
	p.spmm.init(p.workers)
	for range p.workers - 1 {
		p.ends.Go(func() {
			for w := range p.start {
				p.errs[w] = pinned.Guard(p.guarded[w])
				p.busy.Done()
			}
		})
	}
	return p
}

// Workers returns the number of goroutines that compute, including the caller's.
func (p *Pool) Workers() int { return p.workers }

// Close waits for the running operation, and ends the goroutines. Later calls do nothing.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.start)
		p.ends.Wait()
	}
	return nil
}

// run computes all parts of a task and returns the first error: a mapped file that could not be read. The caller holds
// the lock and works too.
func (p *Pool) run(t task, parts int64) error {
	p.task, p.parts = t, parts
	p.next.Store(0)
	helpers := int(min(int64(p.workers), parts)) - 1
	p.busy.Add(max(helpers, 0))
	for w := range helpers {
		p.start <- w + 1
	}
	p.errs[0] = pinned.Guard(p.guarded[0])
	p.busy.Wait()
	p.task = nil
	for w := range max(helpers, 0) + 1 {
		if p.errs[w] != nil {
			return p.errs[w]
		}
	}
	return nil
}

func (p *Pool) work(worker int) {
	for {
		part := p.next.Add(1) - 1
		if part >= p.parts {
			return
		}
		p.task.do(worker, part, p.parts)
	}
}

// spanTask computes a range of rows or edges at a time.
type spanTask struct {
	n, step int64
	f       func(lo, hi int64)
}

func (t *spanTask) do(_ int, part, _ int64) { t.f(part*t.step, min((part+1)*t.step, t.n)) }

// Split divides 0 .. n-1 into ranges of step numbers, the last of which may be shorter, and calls f for each. Calls run
// on the pool's goroutines, several at a time, in any order. f must not use a pool. Split returns ErrClosed, or an
// error if f could not read memory: a mapped file that was cut short.
func (p *Pool) Split(n, step int64, f func(lo, hi int64)) error {
	if n <= 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	p.span = spanTask{n, step, f}
	err := p.run(&p.span, (n+step-1)/step)
	p.span.f = nil
	return err
}
