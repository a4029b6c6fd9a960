package ending

import (
	"fmt"
	"time"

	"github.com/khop-gnn/khop/internal/underway"
)

// Standstill is how long nothing may move before a command says so, and again. A variable for tests only.
var Standstill = time.Minute

// WatchStandstill tells say where the command is when nothing has moved for a while, until stop is called.
func WatchStandstill(say func(where string)) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		said := time.Now()
		look := time.NewTicker(Standstill / 6)
		defer look.Stop()
		for {
			select {
			case <-ended:
				return
			case now := <-look.C:
				at := underway.Look()
				still := now.Sub(at.Moved)
				if at.Idle() || still < Standstill || now.Sub(said) < Standstill {
					continue
				}
				said = now
				say(fmt.Sprintf("nothing has moved for %v: %v", still.Round(time.Second), at))
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}
