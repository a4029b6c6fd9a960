package loader_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/sampling"
)

// situation is what a run meets: how long everything takes, by a clock that goes on when all wait.
type situation struct {
	rule           string // which is to speak; "" for none
	workers, cores int
	prefetch       int
	sample, gather time.Duration           // of a worker, a batch
	fetch          time.Duration           // its wait for a tier
	request        time.Duration           // of the disk, each; 0: nothing is on disk
	chunk          time.Duration           // to bring one of a dataset that is not all here; 0: all is
	body           func(batch int) float64 // of the loop, in seconds
	others         float64                 // processors that others have
	faults         float64                 // pages read from files, a second
	jitter         float64                 // of all times
}

// clocked is what takes the time that a situation says: a sampler, a tier, and a machine.
type clocked struct {
	situation
	began time.Time
	used  atomic.Int64 // by computing, nanoseconds
	draws atomic.Uint64
}

// take takes about so much time; computing says whether it takes a processor.
func (c *clocked) take(d time.Duration, computing bool) time.Duration {
	if d <= 0 {
		return 0
	}
	draw := rand.New(rand.NewPCG(c.draws.Add(1), 7)).Float64()
	d = time.Duration(float64(d) * (1 + c.jitter*(2*draw-1)))
	time.Sleep(d)
	if computing {
		c.used.Add(int64(d))
	}
	return d
}

func (c *clocked) activity() machine.Activity {
	since := time.Since(c.began)
	own := time.Duration(c.used.Load())
	return machine.Activity{At: time.Now(), Own: own, All: own + time.Duration(c.others*float64(since)), Known: true,
		Faults: uint64(c.faults * since.Seconds()), Processors: c.cores}
}

// Cost, Open, Reader, Stats and Close implement tier.Tier.
func (c *clocked) Cost(tier.Bound) tier.Memory             { return tier.Memory{} }
func (c *clocked) Open(context.Context, tier.Env) error    { return nil }
func (c *clocked) Reader(tier.Worker) (tier.Reader, error) { return clockedReader{c}, nil }
func (c *clocked) Stats() (tier.Stats, error)              { return tier.Stats{}, nil }
func (c *clocked) Close() error                            { return nil }

type clockedReader struct{ *clocked }

func (r clockedReader) Begin(_ context.Context, s tier.Slot, w tier.Want) (bool, error) {
	_, err := s.Room(w.Array, w.IDs.Len()*16)
	if s.Turn() > 0 && w.Array == 0 || w.Column == 0 {
		r.take(r.gather, true)
	}
	return r.fetch == 0, err
}

func (r clockedReader) Finish(context.Context, tier.Slot) (time.Duration, error) {
	return r.take(r.fetch, false), nil
}
func (r clockedReader) Cancel()      {}
func (r clockedReader) Close() error { return nil }

// elsewhere is a graph whose columns come by chunks.
type elsewhere struct {
	loader.Source
	*clocked
}

// Partial makes it a source that is not all here, as a dataset from elsewhere is.
func (e elsewhere) Partial() any { return e }

func (elsewhere) Absent([]byte) (absent, kept bool, err error) { return true, false, nil }
func (elsewhere) Bring([]byte) error                           { return nil }
func (elsewhere) ChunkBytes() int64                            { return 1 << 20 }
func (e elsewhere) Chunk(column []byte, _ int64, _ []byte) (chunk []byte, from int64, err error) {
	e.take(e.chunk, false)
	return column, 0, nil
}

// run goes through an epoch and returns its report.
func (s situation) run(t *testing.T) loader.Report {
	g, c := graphs.Plain(t, 1200, 4), &clocked{situation: s}
	opt := loader.Options{BatchSize: 16, Workers: s.workers, Seeds: loader.AllNodes(),
		Tuning: loader.TuningOptions{Prefetch: s.prefetch}}
	opt.Columns.Seeds = []string{}
	if s.gather > 0 || s.fetch > 0 {
		opt.Hooks.Tier = c
	}
	if s.request > 0 {
		g = wideRows(t)
		opt.Residence, opt.Disk, opt.BatchSize = loader.Disk, onDiskOptions.Disk, 100
		opt.Shuffle = true
		loader.ReadWith(t, diskio.ReaderOptions{Depth: 2, Engine: "threads", Shape: disk.Shape{Page: 4096, Most: 4096},
			Intercept: func(_ string, _ int64, _ []byte, n int, err error) (int, error) {
				c.take(s.request, false)
				return n, err
			}})
	}
	loader.ActivityIs(t, c.activity)
	var report loader.Report
	synctest.Test(t, func(t *testing.T) {
		c.began = time.Now()
		takes := func(context.Context, int64) error {
			c.take(s.sample, true)
			return nil
		}
		opt.Sampler = hooked{Neighbor: sampling.Neighbor{Fanouts: []int{2}}, before: takes}
		var from loader.Source = g
		if s.chunk > 0 {
			from = elsewhere{g, c}
		}
		l := open(t, from, opt)
		n := 0
		for range each(t, l.Epoch(background, 0)) {
			if n++; s.body != nil {
				c.take(time.Duration(s.body(n)*1e9), true)
			}
		}
		report = l.Report()
	})
	return report
}

// logDraw draws from least to most, each power of two alike.
func logDraw(r *rand.Rand, least, most float64) float64 {
	return least * math.Exp(r.Float64()*math.Log(most/least))
}

func between(r *rand.Rand, least, most float64) float64 { return least + r.Float64()*(most-least) }

// situations draw one, in which a rule is to speak.
var situations = map[string]func(r *rand.Rand, s *situation, unit float64){
	"": func(r *rand.Rand, s *situation, unit float64) { // the loop never waits, and workers rest little
		s.cores = s.workers + 1 + r.IntN(4)
		s.sample = seconds(unit * float64(s.workers))
		step := unit * between(r, 1.15, 1.6)
		s.body, s.jitter = func(int) float64 { return step }, 0.05
	},
	"slow loop": func(r *rand.Rand, s *situation, unit float64) {
		s.sample = seconds(unit * float64(s.workers))
		step := unit * logDraw(r, 2.6, 30)
		s.body = func(int) float64 { return step }
	},
	"few workers": func(r *rand.Rand, s *situation, unit float64) {
		s.cores = s.workers + 2 + r.IntN(12)
		s.sample = seconds(unit)
		step := unit / float64(s.workers) * between(r, 0, 0.5)
		s.body = func(int) float64 { return step }
	},
	"few slots": func(r *rand.Rand, s *situation, unit float64) { // the loop takes many at once, then rests
		s.workers, s.prefetch = 1+r.IntN(3), 1
		s.cores = s.workers + 1
		s.sample = seconds(unit * float64(s.workers))
		every := 2*(s.workers+2) + r.IntN(6)
		rest := unit * float64(every) * between(r, 0.8, 1.1)
		s.body = func(batch int) float64 {
			if batch%every == 0 {
				return rest
			}
			return 0
		}
	},
	"wide rows": func(r *rand.Rand, s *situation, unit float64) {
		share := between(r, 0.66, 0.95)
		s.gather, s.sample = seconds(unit*share), seconds(unit*(1-share))
	},
	"sampling": func(r *rand.Rand, s *situation, unit float64) {
		share := between(r, 0, 0.5)
		s.gather, s.sample = seconds(unit*share), seconds(unit*(1-share))
	},
	"page cache lost": func(r *rand.Rand, s *situation, unit float64) {
		s.cores += r.IntN(3)
		s.sample = seconds(unit)
		s.faults = float64(s.workers) / 1e-4 * between(r, 0.25, 0.9)
	},
	"busy machine": func(r *rand.Rand, s *situation, unit float64) {
		s.sample = seconds(unit)
		s.cores = s.workers
		s.others = float64(s.cores) * between(r, 0.3, 0.9)
	},
	"remote rows": func(r *rand.Rand, s *situation, unit float64) {
		share := between(r, 0.45, 0.97)
		s.cores += r.IntN(3)
		s.fetch, s.sample = seconds(unit*share), seconds(unit*(1-share))
		if r.IntN(2) == 0 {
			s.fetch, s.chunk = 0, s.fetch
		}
	},
	"slow disk": func(r *rand.Rand, s *situation, unit float64) {
		s.cores += r.IntN(3)
		s.request, s.sample = seconds(unit), seconds(unit*between(r, 0.01, 0.1))
	},
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

func drawn(r *rand.Rand, rule string) situation {
	s := situation{rule: rule, workers: 1 + r.IntN(4), prefetch: 2 + r.IntN(3), jitter: between(r, 0, 0.3)}
	s.cores = s.workers
	s.others, s.faults = between(r, 0, 0.1), between(r, 0, 50)
	situations[rule](r, &s, logDraw(r, 0.0002, 0.05))
	return s
}

// Each rule applies in its situation and no other does; a healthy run has no report. KHOP_DRAWS says how many
// situations of each are drawn, of which one in twenty may be taken for another.
func TestEachSituationHasItsSentence(t *testing.T) {
	draws := expect.Draws(t, 2)
	seed := expect.Seed(t)
	for rule := range situations {
		name := rule
		if name == "" {
			name = "healthy"
		}
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(len(rule))))
			var wrong []string
			for i := range draws {
				s := drawn(r, rule)
				if got := s.run(t); got.Rule != rule {
					wrong = append(wrong, fmt.Sprintf("draw %d: %+v\n  is said to be %+v", i, s, got))
				} else if rule != "" && got.Text == "" {
					t.Errorf("nothing is said of %+v", got)
				} else if i == 0 {
					t.Logf("%v", got)
				}
			}
			t.Logf("%d of %d right", draws-len(wrong), draws)
			if len(wrong) > draws/20 {
				t.Error(strings.Join(wrong, "\n"))
			}
		})
	}
}
