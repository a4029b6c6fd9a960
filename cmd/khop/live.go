package main

import (
	"sync/atomic"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/internal/livepage"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
)

// liveFlag is for commands that show on a page how they go.
type liveFlag struct {
	HTTP string `name:"http" placeholder:"ADDRESS" help:"Show how it goes on a page there, such as 127.0.0.1:0."`
}

// liveState is what the page shows.
type liveState struct {
	What    string          `json:"what"`
	Seconds float64         `json:"seconds"`
	Said    string          `json:"said"`  // the sentence of the first rank that has one
	Limit   int64           `json:"limit"` // of memory; 0 for none
	Ranks   []shm.RankStats `json:"ranks"`
}

// show shows a run on a page, where one is asked for, until stop is called. ranks says how it goes, and is called by
// any goroutine.
func (f liveFlag) show(env *environment, what string, ranks func() []shm.RankStats) (url string, stop func(),
	err error) {
	if f.HTTP == "" {
		return "", func() {}, nil
	}
	began := time.Now()
	p, err := livepage.Listen(f.HTTP, func() any {
		s := liveState{What: what, Seconds: time.Since(began).Seconds(), Limit: env.memory.bytes, Ranks: ranks()}
		for i := range s.Ranks {
			if s.Said == "" {
				s.Said = sentence(s.Ranks[i].Report)
			}
		}
		return s
	})
	if err != nil {
		return "", nil, option.Wrong("http", ": %w", err)
	}
	env.note("a page that shows how it goes: %s", p.URL())
	return p.URL(), scrapes.serve(p, p), nil
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
