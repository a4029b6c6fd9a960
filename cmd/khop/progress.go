package main

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far something is, on stderr where that is a terminal.
type progress struct {
	env *environment

	mu    sync.Mutex
	stage string
	bar   *progressbar.ProgressBar
}

// watched runs work, which shows how far it is, and returns what it makes and how long it takes.
func watched[T any](env *environment, work func(*progress) (T, error)) (made T, took time.Duration, err error) {
	bar, start := env.newProgress(), time.Now()
	defer bar.finish()
	made, err = work(bar)
	return made, time.Since(start), err
}

// newProgress returns a progress display; finish ends it.
func (env *environment) newProgress() *progress { return &progress{env: env} }

// report returns the function to hand to what reports its progress; nil where nobody would see it.
func (p *progress) report() func(stage string, done, total int64) {
	if !p.env.terminal {
		return nil
	}
	return p.update
}

// of returns report for one stage.
func (p *progress) of(stage string) func(done, total int64) {
	report := p.report()
	if report == nil {
		return nil
	}
	return func(done, total int64) { report(stage, done, total) }
}

func (p *progress) update(stage string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil || p.stage != stage {
		p.clear()
		if total <= 0 {
			total = -1 // a spinner
		}
		p.stage = stage
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.env.stderr),
			progressbar.OptionSetDescription(stage),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(progressInterval),
			progressbar.OptionClearOnFinish(),
		)
	}
	_ = p.bar.Set64(done)
}

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
