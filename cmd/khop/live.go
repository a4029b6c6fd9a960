package main

import (
	"sync/atomic"
	"time"

	"github.com/khop-gnn/khop/cmd/khop/internal/livepage"
	"github.com/khop-gnn/khop/cmd/khop/internal/prometheus"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/internal/memuse"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
)

// liveFlag is for commands that show on a page how they go.
type liveFlag struct {
	HTTP string `name:"http" placeholder:"ADDRESS" help:"Show progress on a web page at an address: 127.0.0.1:0."`
}

// liveState is what the page shows: of loaders the ranks, of long work its stages.
type liveState struct {
	What    string          `json:"what"`
	Seconds float64         `json:"seconds"`
	Said    string          `json:"said"`   // the sentence of the first rank that has one
	Limit   int64           `json:"limit"`  // of memory; 0 for none
	Memory  int64           `json:"memory"` // of the process, its own; 0 where the system does not tell
	Ranks   []shm.RankStats `json:"ranks"`
	Stages  []stageState    `json:"stages"`
}

// showLoaders shows loaders on a page, where one is asked for, until stop is called. ranks says how they go, and is
// called by any goroutine.
func (f liveFlag) showLoaders(env *environment, what string, ranks func() []shm.RankStats) (url string,
	stop func(), err error) {
	return f.page(env, what, func(s *liveState) {
		s.Ranks = ranks()
		for i := range s.Ranks {
			if s.Said == "" {
				s.Said = sentence(s.Ranks[i].Report)
			}
		}
	})
}

// showProgress shows how far something is.
func (f liveFlag) showProgress(env *environment, what string, bar *progress) (stop func(), err error) {
	bar.followed = f.HTTP != ""
	_, stop, err = f.page(env, what, func(s *liveState) { s.Stages = bar.states() })
	return stop, err
}

// page serves the page, whose state is what fill adds.
func (f liveFlag) page(env *environment, what string, fill func(*liveState)) (url string, stop func(), err error) {
	if f.HTTP == "" {
		return "", func() {}, nil
	}
	began := time.Now()
	p, err := livepage.Listen(f.HTTP, func() any {
		s := liveState{What: what, Seconds: time.Since(began).Seconds(), Limit: env.memory.bytes,
			Ranks: []shm.RankStats{}, Stages: []stageState{}}
		if used, err := memuse.Read(); err == nil {
			s.Memory = used.Anonymous
		}
		fill(&s)
		return s
	})
	if err != nil {
		return "", nil, option.Wrong("http", ": %w", err)
	}
	env.note("a page that shows how it goes: %s", p.URL())
	return p.URL(), prometheus.Serve(p, p), nil
}

// ofLoader is the one rank of a loader, which may not be open yet.
func ofLoader(l *atomic.Pointer[loader.Loader]) func() []shm.RankStats {
	return func() []shm.RankStats {
		s := shm.RankStats{}
		if of := l.Load(); of != nil {
			s.Loader, s.Report = of.Stats(), of.Report()
			s.Sent = s.Loader.Batches
		}
		return []shm.RankStats{s}
	}
}
