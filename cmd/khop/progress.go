package main

import (
	"slices"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/khop-gnn/khop/internal/memuse"
	"github.com/khop-gnn/khop/internal/underway"
)

// progress shows how far something is, on stderr where that is a terminal.
type progress struct {
	env *environment

	followed bool // somebody looks on a page

	mu     sync.Mutex
	stages []stageState // the last one is under way
	began  time.Time    // it
	bar    *progressbar.ProgressBar
}

// mostStages is how many stages are remembered.
const mostStages = 32

// stageState is how far a stage is.
type stageState struct {
	Name    string  `json:"name"`
	Done    int64   `json:"done"`
	Total   int64   `json:"total"`   // 0: not known
	Seconds float64 `json:"seconds"` // that it has taken
}

// states returns how far each stage is.
func (p *progress) states() []stageState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.stages)
}

// watched runs work, which shows how far it is, and returns what it makes and how long it takes.
func watched[T any](env *environment, work func(*progress) (T, error)) (made T, took time.Duration, err error) {
	bar, start := env.newProgress(), time.Now()
	defer underway.Moved("", 0, 0)
	defer bar.finish()
	made, err = work(bar)
	return made, time.Since(start), err
}

// newProgress returns a progress display; finish ends it.
func (env *environment) newProgress() *progress { return &progress{env: env} }

// report returns the function to hand to what reports its progress.
func (p *progress) report() func(stage string, done, total int64) { return p.update }

// of returns report for one stage.
func (p *progress) of(stage string) func(done, total int64) {
	return func(done, total int64) { p.update(stage, done, total) }
}

func (p *progress) update(stage string, done, total int64) {
	moved(stage, done, total)
	if !p.env.terminal && !p.followed {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	another := len(p.stages) == 0 || p.stages[len(p.stages)-1].Name != stage
	if another {
		p.stages = append(p.stages[max(0, len(p.stages)-mostStages+1):], stageState{})
		p.began = time.Now()
	}
	p.stages[len(p.stages)-1] = stageState{stage, done, max(total, 0), time.Since(p.began).Seconds()}
	if !p.env.terminal {
		return
	}
	if p.bar == nil || another {
		p.clear()
		p.bar = p.newBar(stage, total)
	}
	_ = p.bar.Set64(done)
}

// newBar returns a bar that shows stage, share, rate, remaining time, and the memory that the process has as it begins.
func (p *progress) newBar(stage string, total int64) *progressbar.ProgressBar {
	if total <= 0 {
		total = -1 // a spinner
	}
	if used, err := memuse.Read(); err == nil {
		stage += ", " + humanize.Bytes(uint64(max(used.Anonymous, 0)))
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.env.stderr),
		progressbar.OptionSetDescription(stage),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(progressInterval),
		progressbar.OptionClearOnFinish(),
	)
}

// moved says how far a stage of the command is, which nobody need see. A variable for tests only, which stop there.
var moved = underway.Moved

// finish removes the display, so that what is printed next has the line for itself.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// progressInterval is the time between two drawings.
const progressInterval = 100 * time.Millisecond
