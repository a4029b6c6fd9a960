package main

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/khop-gnn/khop/internal/underway"
)

// spun is what a planted loop does.
var spun atomic.Int64

// plant has this program, which stands for khop, stop where it reports a stage of that name for the first time. It then
// makes a file to say so. "STAGE loop FILE" loops there for ever, as a faulty reader does; "STAGE wait FILE" goes on
// after a signal; and "* list FILE" writes the names of all stages, and stops nowhere; "* waits FILE" makes
// the file when it waits for something from outside.
func plant(where string) {
	words := strings.SplitN(where, "|", 3)
	if len(words) < 3 {
		return
	}
	stage, how, file := words[0], words[1], words[2]
	signals := make(chan os.Signal, 1)
	var once sync.Once
	if how == "waits" {
		go func() {
			for len(underway.Look().Waits) == 0 {
				<-time.After(time.Millisecond) // to look again
			}
			_ = os.WriteFile(file, nil, 0o600)
		}()
	}
	moved = func(name string, done, total int64) {
		underway.Moved(name, done, total)
		if how == "list" {
			f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, _ = f.WriteString(name + "\n")
				_ = f.Close()
			}
		}
		if name != stage {
			return
		}
		once.Do(func() {
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
			_ = os.WriteFile(file, nil, 0o600)
			if how == "wait" {
				<-signals
			}
			for n := 0; how == "loop"; n++ { // for ever: nothing that this reads ends it
				spun.Store(int64(n))
			}
		})
	}
}
