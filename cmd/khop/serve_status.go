package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/server"
)

// statusText is one line on what a server does, for a person who watches.
func statusText(before, now []shm.RankStats, passed time.Duration) string {
	var sent, done uint64
	held, consumers, waiting := 0, 0, map[string]int{}
	slowest := shm.PeerStats{}
	for i := range now {
		sent += now[i].Sent - before[i].Sent
		done += now[i].Done
		consumers += len(now[i].Consumers)
		waiting[now[i].Waiting]++
		for _, c := range now[i].Consumers {
			held += c.Held
			if c.OldestHeld > slowest.OldestHeld {
				slowest = c
			}
		}
	}
	parts := []string{
		fmt.Sprintf("epoch %d", now[0].Epoch), fmt.Sprintf("%d batches done", done),
		fmt.Sprintf("%.0f/s", float64(sent)/passed.Seconds()), fmt.Sprintf("%d consumers hold %d", consumers, held),
	}
	switch {
	case consumers == 0:
		parts = append(parts, "waiting for a consumer to connect")
	case waiting["consumer"] > 0 && slowest.OldestHeld > 5:
		parts = append(parts, fmt.Sprintf("waiting for process %d, which has held a batch for %.0f s", slowest.PID,
			slowest.OldestHeld))
	case waiting["consumer"] > 0:
		parts = append(parts, "waiting for consumers")
	case waiting["loader"] > 0:
		parts = append(parts, "waiting for the loader")
	}
	return strings.Join(parts, ", ")
}

// showStatus draws a status line on stderr, where that is a terminal, until the function that it returns is called.
func (env *environment) showStatus(s *server.Server) (stop func()) {
	if !env.terminal {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		before, last := s.Stats(), time.Now()
		for {
			select {
			case <-quit:
				fmt.Fprint(env.stderr, "\r\x1b[K")
				return
			case <-tick.C:
			}
			now, at := s.Stats(), time.Now()
			fmt.Fprintf(env.stderr, "\r\x1b[K%s", statusText(before, now, at.Sub(last)))
			before, last = now, at
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// overStatus returns stderr for messages, which take the place of a status line that is there.
func (env *environment) overStatus() io.Writer {
	if !env.terminal {
		return env.stderr
	}
	return clearing{env.stderr}
}

// clearing clears the line before it writes.
type clearing struct{ io.Writer }

func (c clearing) Write(p []byte) (int, error) {
	if _, err := io.WriteString(c.Writer, "\r\x1b[K"); err != nil {
		return 0, err
	}
	return c.Writer.Write(p)
}
