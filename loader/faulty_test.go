package loader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

var errFault = errors.New("a fault of the sampler")

// faults is what a faulty sampler counts, and which call of it fails.
type faults struct {
	mu     sync.Mutex
	point  string // of what: prepare, open, sample, close or end
	left   int    // calls, of which the last fails
	hit    bool
	opened int // workers and tables that are not closed yet
}

func (f *faults) at(point string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if point == f.point {
		if f.left--; f.left == 0 {
			f.hit = true
			return errFault
		}
	}
	return nil
}

func (f *faults) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened += n
}

// faulty is Neighbor with tables and faults.
type faulty struct {
	sampling.Neighbor
	f *faults
}

// faultyTables opens the workers of a faulty sampler.
type faultyTables struct{ faulty }

type faultyWorker struct {
	sampling.Worker
	f *faults
}

func (s faulty) Prepare(context.Context, sampling.Env) (sampling.Sampler, error) {
	if err := s.f.at("prepare"); err != nil {
		return nil, err
	}
	s.f.count(1)
	return faultyTables{s}, nil
}

func (s faultyTables) Close() error {
	s.f.count(-1)
	return s.f.at("end")
}

func (s faulty) Open(env sampling.Env) (sampling.Worker, error) {
	if err := s.f.at("open"); err != nil {
		return nil, err
	}
	s.f.count(1)
	w, err := s.Neighbor.Open(env)
	return faultyWorker{w, s.f}, err
}

func (w faultyWorker) Sample(ctx context.Context, r *sampling.Request, out *graph.Sample) error {
	if err := w.f.at("sample"); err != nil {
		return err
	}
	return w.Worker.Sample(ctx, r, out)
}

func (w faultyWorker) Close() error {
	w.f.count(-1)
	return errors.Join(w.Worker.Close(), w.f.at("close"))
}

// loadOnce loads two epochs of a placed source, and says what is still held then.
func loadOnce(src loader.Source, opt loader.Options) error {
	p, err := loader.Place(background, src, opt, 1)
	if err != nil {
		return err
	}
	l, err := loader.New(p, opt)
	if err == nil {
		err = errors.Join(lastError(l.Epoch(background, 0)), lastError(l.Epoch(background, 1)), l.Close())
	}
	err = errors.Join(err, p.Close())
	if n := p.Ledger().Total(); n != 0 {
		err = errors.Join(err, fmt.Errorf("%d bytes are held", n))
	}
	return err
}

// faultyWays are calls that use a sampler, by name.
func faultyWays(t *testing.T) map[string]func(s sampling.Sampler) error {
	needDisk(t)
	small, wide := graphs.Plain(t, 60, 4), onDisk(t, graphs.Plain(t, 240, 4))
	opt := loader.Options{BatchSize: 10, Workers: 2, Device: loader.DeviceOptions{Name: "cpu"}}
	cached := opt
	cached.Residence, cached.Disk.CacheBytes, cached.Disk.Lookahead = loader.Disk, 900, 2
	return map[string]func(s sampling.Sampler) error{
		"New": func(s sampling.Sampler) error {
			opt.Sampler = s
			l, err := loader.New(small, opt)
			if err == nil {
				err = errors.Join(lastError(l.Epoch(background, 0)), l.Close())
			}
			return err
		},
		"Place": func(s sampling.Sampler) error {
			opt.Sampler = s
			return loadOnce(small, opt)
		},
		"requests": func(s sampling.Sampler) error {
			opt := opt
			opt.Sampler, opt.Seeds = s, loader.OnRequest()
			l, err := loader.New(small, opt)
			if err != nil {
				return err
			}
			for i := range int64(2) {
				b, fails := l.Sample(background, about(i))
				if err = errors.Join(err, fails); fails == nil {
					b.Release()
				}
			}
			return errors.Join(err, l.Close())
		},
		"Prepare": func(s sampling.Sampler) error {
			opt := opt
			opt.Sampler, opt.Columns.Prepare = s, loader.Transpose|loader.GCNNorm|loader.Loops
			return loadOnce(small, opt)
		},
		"a disk": func(s sampling.Sampler) error {
			cached.Sampler = s
			return loadOnce(wide, cached)
		},
		"Plan": func(s sampling.Sampler) error {
			opt.Sampler = s
			_, err := loader.Plan(background, small, opt)
			return err
		},
		"Look": func(s sampling.Sampler) error {
			cached.Sampler = s
			o, err := outlook.Look(background, wide, cached)
			if err != nil && o != nil {
				err = fmt.Errorf("an outlook and %w", err)
			}
			return err
		},
	}
}

// Whichever call of a sampler fails, whoever makes it hears of it, and what was opened is closed.
func TestEveryFaultOfASamplerIsToldAndLeavesNothing(t *testing.T) {
	for name, do := range faultyWays(t) {
		for _, point := range []string{"prepare", "open", "sample", "close", "end"} {
			for n := 1; ; n += 1 + n/5 {
				f := &faults{point: point, left: n}
				err := do(faulty{neighbor, f})
				what := fmt.Sprintf("%s, %s %d", name, point, n)
				if !f.hit {
					expect.That(t, err == nil && n != 1, "%s: %v", what, err)
					break
				}
				// a batch on trial is left to epochs, and one that is sampled ahead to those that come
				left := point == "sample" && (name == "Plan" || name == "a disk" || n <= 4 && name != "Look")
				if !errors.Is(err, errFault) && !left || err != nil && strings.Contains(err.Error(), "held") ||
					f.opened != 0 {
					t.Errorf("%s: %v, and %d are open", what, err, f.opened)
				}
				expect.That(t, point != "sample" || err == nil || strings.Contains(err.Error(), "epoch "), "%s: %v",
					what, err)
			}
		}
	}
}

// Workers that a panic broke are made anew when the next epoch begins. If that fails, the epoch has the error, and one
// after it is whole.
func TestWorkersThatBrokeAreOpenedAgain(t *testing.T) {
	g := graphs.Plain(t, 60, 4)
	f := &faults{}
	var both sync.WaitGroup
	var breaks bool // written between epochs
	s := hooked{Neighbor: neighbor, before: func(context.Context, int64) error {
		if breaks {
			both.Done()
			both.Wait() // both workers have a batch
			panic("broken")
		}
		return nil
	}}
	l := open(t, g, loader.Options{Sampler: breaking{faulty{neighbor, f}, s}, BatchSize: 10, Workers: 2})
	want := digests(t, l.Epoch(background, 0))
	for fails := range 3 {
		breaks = true
		both.Add(2)
		err := lastError(l.Range(background, 0, 0, 2))
		expect.Ensure(t, errors.Is(err, loader.ErrSampler), "%v", err)
		breaks = false
		f.point, f.left = "open", fails
		err = lastError(l.Epoch(background, 0))
		expect.That(t, errors.Is(err, errFault) == (fails > 0), "%d: %v", fails, err)
		expect.Same(t, digests(t, l.Range(background, 0, 0, 1)), want[:1])
		expect.Same(t, digests(t, l.Epoch(background, 0)), want)
	}
}

// breaking is a faulty sampler whose workers have a hook.
type breaking struct {
	faulty
	hook hooked
}

func (s breaking) Prepare(context.Context, sampling.Env) (sampling.Sampler, error) { return s, nil }

func (s breaking) Open(env sampling.Env) (sampling.Worker, error) {
	w, err := s.faulty.Open(env)
	return hookedWorker{w, s.hook}, err
}

// full is memory of which nothing can be given back.
type full struct{ *shelf }

func (f full) Give(b []byte) error { return errors.Join(f.shelf.Give(b), errFault) }

// Memory that is not taken back is an error of who closes last: the loader, or the batch that was kept.
func TestMemoryThatIsNotTakenBackIsAnError(t *testing.T) {
	s := &shelf{given: map[*byte]int{}}
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1, Device: loader.DeviceOptions{Name: "cpu"},
		Hooks: loader.Hooks{RowMemory: full{s}}}
	l := expect.Must(loader.New(graphs.Plain(t, 60, 4), opt))(t)
	expect.OK(t, errors.Join(lastError(l.Epoch(background, 0))))
	err := l.Close()
	expect.That(t, errors.Is(err, errFault) && len(s.given) == 0 && errors.Is(l.Close(), errFault), "Close: %v", err)
	n := l.Stats().Memory.Total()
	expect.That(t, n == 0, "%d bytes are held", n)
	none := &shelf{given: map[*byte]int{}}
	opt.Tuning.Prefetch, opt.Hooks.RowMemory = 1, none
	l = expect.Must(loader.New(graphs.Plain(t, 60, 4), opt))(t)
	for b := range each(t, l.Epoch(background, 0)) {
		b.Keep()
		expect.OK(t, l.Close())
		b.Release()
		expect.That(t, len(none.given) != 0, "the memory was taken from the body")
		break
	}
	expect.That(t, len(none.given) == 0 && l.Stats().Memory.Total() == 0, "%d pieces are held", len(none.given))
}

var _ pinned.Provider = full{}
