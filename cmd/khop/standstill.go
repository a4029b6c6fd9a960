package main

import (
	"fmt"
	"time"

	"github.com/khop-gnn/khop/internal/underway"
)

// standstill is how long nothing may move before a command says so, and again. A variable for tests only.
var standstill = time.Minute

// watchStandstill says on stderr where the command is when nothing has moved for a while, until stop is called.
func (env *environment) watchStandstill() (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		said := time.Now()
		look := time.NewTicker(standstill / 6)
		defer look.Stop()
		for {
			select {
			case <-ended:
				return
			case now := <-look.C:
				at := underway.Look()
				still := now.Sub(at.Moved)
				if at.Idle() || still < standstill || now.Sub(said) < standstill {
					continue
				}
				said = now
				if env.terminal {
					fmt.Fprint(env.stderr, "\r\x1b[K")
				}
				env.note("nothing has moved for %v: %v", still.Round(time.Second), at)
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}
